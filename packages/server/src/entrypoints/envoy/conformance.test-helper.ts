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
}

/** A service under test, with the time it goes by. */
export interface ServiceUnderTest {
  shouldRateLimit(request: RateLimitRequest): RateLimitResponse | Promise<RateLimitResponse>
  advance(ms: number): void
  close(): Promise<void>
}

const FILE = new URL('../../../../../conformance/envoy/service.json', import.meta.url)

const conformanceCases: readonly ConformanceCase[] = JSON.parse(readFileSync(FILE, 'utf8'))

export function envoyConformance(
  open: (each: ConformanceCase, counting: Counting) => Promise<ServiceUnderTest>,
): void {
  const modes: readonly Counting[] = ['all-or-nothing', 'reference']
  describe.each(modes)('counting: %s', (counting) => {
    const cases = conformanceCases.filter((each) => each.counting.includes(counting))
    test.each(cases)('$name', async (each) => {
      const service = await open(each, counting)
      try {
        for (const [i, step] of each.steps.entries()) {
          service.advance(step.waitMs ?? 0)
          const answer = await service.shouldRateLimit(requestOf(step))
          expect({ step: i, ...textOf(answer) }).toEqual({ step: i, ...expected(step) })
        }
      } finally {
        await service.close()
      }
    })
  })
}

function expected({ expect: statuses, overall }: ConformanceStep) {
  const isOver = statuses.some((status) => status.startsWith('OVER'))
  return { overall: overall ?? (isOver ? 'OVER' : 'OK'), statuses }
}

function textOf({ overallCode, statuses }: RateLimitResponse) {
  return { overall: overallCode === 'ok' ? 'OK' : 'OVER', statuses: statuses.map(statusText) }
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
