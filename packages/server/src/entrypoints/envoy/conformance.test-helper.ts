/**
 * What the tests of envoyproxy/ratelimit say of its service, as data (conformance/envoy): requests,
 * and for each descriptor one line of what is answered. A function of `shouldRateLimit`, so that it
 * also runs over sockets.
 */
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type {
  Descriptor,
  DescriptorStatus,
  JsonObject,
  JsonValue,
  LimitUnit,
  RateLimitRequest,
  RateLimitResponse,
} from './rate-limit-messages.js'
import { UINT32_MAX } from './limit-units.js'
import type { Counting } from './service-options.js'

export interface ConformanceCase {
  readonly name: string
  readonly counting: readonly Counting[]
  readonly isQuota?: boolean
  readonly isShadow?: boolean
  readonly requireMatch?: boolean
  /** As the configuration files say it. */
  readonly config: readonly { readonly domain: string }[]
  readonly steps: readonly ConformanceStep[]
  /** Lines that the metrics of the reference have after all steps, without their prefix. */
  readonly metrics?: readonly string[]
}

interface ConformanceStep {
  readonly waitMs?: number
  readonly domain: string
  /** `key=value,key=value hits=1 negative limit=1/minute`. */
  readonly descriptors: readonly string[]
  readonly hits?: number
  /** `OK 20/minute 19 60s`; `OK` without a limit. */
  readonly expect: readonly string[]
  /** By default over if a descriptor is. */
  readonly overall?: 'OK' | 'OVER'
  /** The metadata of the limits; null: none. Not compared if it is not given. */
  readonly metadata?: JsonObject | null
  /** The text of the error with which the request is answered. */
  readonly error?: string
}

/** A service under test, with the time it goes by. */
export interface ServiceUnderTest {
  /** Fails with the text of the status. */
  shouldRateLimit(request: RateLimitRequest): RateLimitResponse | Promise<RateLimitResponse>
  /** Lets the time of the service pass, by itself or by that of the machine. */
  advance(ms: number): void | Promise<void>
  /** Its metrics in the text format of Prometheus. */
  metrics(): string | Promise<string>
  close(): Promise<void>
}

const FILE = new URL('../../../../../conformance/envoy/service.json', import.meta.url)
const METRICS_PREFIX = 'ratelimit_service_rate_limit_'

export const conformanceCases: readonly ConformanceCase[] = JSON.parse(readFileSync(FILE, 'utf8'))

/** Declares a test for each case and each way of counting. */
export function testConformance(
  cases: readonly ConformanceCase[],
  run: (each: ConformanceCase, counting: Counting) => Promise<void>,
): void {
  const modes: readonly Counting[] = ['all-or-nothing', 'reference']
  describe.each(modes)('counting: %s', (counting) => {
    const those = cases.filter((each) => each.counting.includes(counting))
    test.each(those)('$name', (each) => run(each, counting))
  })
}

/** All cases on services whose time stands still. */
export function envoyConformance(
  open: (each: ConformanceCase, counting: Counting) => Promise<ServiceUnderTest>,
): void {
  testConformance(conformanceCases, async (each, counting) => {
    const service = await open(each, counting)
    try {
      for (const [i, step] of each.steps.entries()) {
        expect({ step: i, ...(await runStep(service, step)) }).toEqual({
          step: i,
          ...expectedOf(step),
        })
      }
      expectMetrics(each, await service.metrics())
    } finally {
      await service.close()
    }
  })
}

export function expectMetrics({ metrics = [] }: ConformanceCase, text: string): void {
  const wanted = metrics.map((line) => `${METRICS_PREFIX}${line}`)
  const names = wanted.map((line) => line.slice(0, line.indexOf('}') + 1))
  const lines = text.split('\n').filter((line) => names.some((name) => line.startsWith(name)))
  expect(lines.toSorted()).toEqual(wanted.toSorted())
}

/** What a request was answered, in the words of the cases. */
export type StepAnswer =
  | { readonly error: string }
  | {
      readonly overall: 'OK' | 'OVER'
      readonly statuses: readonly string[]
      readonly metadata?: JsonValue
    }

export async function runStep(
  service: ServiceUnderTest,
  step: ConformanceStep,
): Promise<StepAnswer> {
  await service.advance(step.waitMs ?? 0)
  try {
    const { overallCode, statuses, dynamicMetadata } = await service.shouldRateLimit(
      requestOf(step),
    )
    return {
      overall: overallCode === 'ok' ? 'OK' : 'OVER',
      statuses: statuses.map(statusText),
      ...(step.metadata !== undefined && { metadata: dynamicMetadata?.['metadata'] ?? null }),
    }
  } catch (error) {
    if (step.error === undefined) throw error
    return { error: (error as Error).message }
  }
}

export function expectedOf({
  expect: statuses,
  overall,
  metadata,
  error,
}: ConformanceStep): StepAnswer {
  if (error !== undefined) return { error }
  const isOver = statuses.some((status) => status.startsWith('OVER'))
  return {
    overall: overall ?? (isOver ? 'OVER' : 'OK'),
    statuses,
    ...(metadata !== undefined && { metadata }),
  }
}

export function statusText({
  code,
  currentLimit,
  limitRemaining,
  resetSeconds,
}: DescriptorStatus): string {
  const words = [code === 'ok' ? 'OK' : 'OVER']
  if (currentLimit === undefined) {
    if (limitRemaining === UINT32_MAX) words.push('unlimited')
    else if (limitRemaining !== 0) words.push(String(limitRemaining))
    return words.join(' ')
  }
  const { requestsPerUnit, unit, name } = currentLimit
  words.push(`${requestsPerUnit}/${unit}`)
  if (name !== '') words.push(name)
  words.push(String(limitRemaining))
  if (resetSeconds !== undefined) words.push(`${resetSeconds}s`)
  return words.join(' ')
}

function requestOf({
  domain,
  descriptors,
  hits = 0,
}: Pick<ConformanceStep, 'domain' | 'descriptors' | 'hits'>): RateLimitRequest {
  return { domain, descriptors: descriptors.map(descriptorOf), hitsAddend: hits }
}

/** Reads `key=value,key=value hits=1 negative limit=1/minute`. */
export function descriptorOf(text: string): Descriptor {
  const [pairs = '', ...words] = text.split(' ')
  const entries = pairs.split(',').map((pair) => {
    const [key = '', value = ''] = pair.split('=')
    return { key, value }
  })
  const valueOf = (name: string) =>
    words.find((word) => word.startsWith(`${name}=`))?.slice(name.length + 1)
  const hits = valueOf('hits')
  const [requestsPerUnit, unit] = valueOf('limit')?.split('/') ?? []
  return {
    entries,
    limit:
      requestsPerUnit === undefined
        ? undefined
        : { requestsPerUnit: Number(requestsPerUnit), unit: unit as LimitUnit },
    hitsAddend: hits === undefined ? undefined : Number(hits),
    isNegativeHits: words.includes('negative'),
  }
}
