/** Requests and responses by the official definitions, for clients that tests run. */
import type {
  CurrentLimit,
  JsonObject,
  JsonValue,
  LimitUnit,
  RateLimitRequest,
  RateLimitResponse,
} from '../rate-limit-messages.js'
import { officialMessage } from './official-protos.test-helper.js'

const REQUEST = officialMessage('envoy.service.ratelimit.v3.RateLimitRequest')
const DESCRIPTOR = officialMessage('envoy.extensions.common.ratelimit.v3.RateLimitDescriptor')

const WEEK = 7

function varint(value: number): number[] {
  return value < 0x80 ? [value] : [(value % 0x80) | 0x80, ...varint(Math.floor(value / 0x80))]
}

export const lengthDelimited = (field: number, content: Uint8Array): Buffer =>
  Buffer.concat([Buffer.from([field * 8 + 2, ...varint(content.length)]), content])

/** The official definition at hand has no `hits_addend` and no refund in a descriptor. */
export function encodeRequest({ domain, hitsAddend, descriptors }: RateLimitRequest): Buffer {
  const encoded = descriptors.map((descriptor) => {
    const { entries, limit, isNegativeHits } = descriptor
    const official = DESCRIPTOR.encode({
      entries,
      ...(limit && {
        limit: { requests_per_unit: limit.requestsPerUnit, unit: limit.unit.toUpperCase() },
      }),
    })
    const value = descriptor.hitsAddend
    const hits = value === undefined ? [] : [lengthDelimited(3, Buffer.from([8, ...varint(value)]))]
    const negative = isNegativeHits ? [Buffer.from([4 * 8, 1])] : []
    return lengthDelimited(2, Buffer.concat([official, ...hits, ...negative]))
  })
  return Buffer.concat([REQUEST.encode({ domain, hits_addend: hitsAddend }), ...encoded])
}

interface OfficialResponse {
  readonly overall_code: string
  readonly statuses: readonly {
    readonly code: string
    readonly current_limit: {
      readonly requests_per_unit: number
      readonly unit: string | number
      readonly name: string
    } | null
    readonly limit_remaining: number
    readonly duration_until_reset: { readonly seconds: number; readonly nanos: number } | null
  }[]
  readonly response_headers_to_add: readonly OfficialHeader[]
  readonly request_headers_to_add: readonly OfficialHeader[]
  readonly raw_body: Buffer
  readonly dynamic_metadata: OfficialStruct | null
}

interface OfficialHeader {
  readonly key: string
  readonly value: string
}

interface OfficialStruct {
  readonly fields: Readonly<Record<string, OfficialValue>>
}

interface OfficialValue {
  readonly numberValue?: number
  readonly stringValue?: string
  readonly boolValue?: boolean
  readonly structValue?: OfficialStruct
  readonly listValue?: { readonly values: readonly OfficialValue[] }
}

/** What a client with the official definitions was answered. */
export function responseOf(answered: unknown): RateLimitResponse {
  const response = answered as OfficialResponse
  return {
    overallCode: codeOf(response.overall_code),
    statuses: response.statuses.map((status) => ({
      code: codeOf(status.code),
      currentLimit: currentLimitOf(status.current_limit),
      limitRemaining: status.limit_remaining,
      resetSeconds: status.duration_until_reset?.seconds,
    })),
    responseHeaders: response.response_headers_to_add.flatMap(({ key, value }) => [key, value]),
    requestHeaders: response.request_headers_to_add.flatMap(({ key, value }) => [key, value]),
    rawBody: response.raw_body.toString(),
    dynamicMetadata:
      response.dynamic_metadata === null ? undefined : objectOf(response.dynamic_metadata),
  }
}

function codeOf(code: string): 'ok' | 'over-limit' {
  if (code === 'OK') return 'ok'
  if (code === 'OVER_LIMIT') return 'over-limit'
  throw new Error(`code ${code}`)
}

function currentLimitOf(
  limit: OfficialResponse['statuses'][number]['current_limit'],
): CurrentLimit | undefined {
  if (limit === null) return undefined
  const { requests_per_unit: requestsPerUnit, unit, name } = limit
  return { requestsPerUnit, unit: unitOf(unit), name }
}

/** The official definition at hand does not know the week, and leaves its number. */
function unitOf(unit: string | number): LimitUnit {
  return unit === WEEK ? 'week' : (String(unit).toLowerCase() as LimitUnit)
}

function objectOf({ fields }: OfficialStruct): JsonObject {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, valueOf(value)]))
}

function valueOf(value: OfficialValue): JsonValue {
  if (value.structValue !== undefined) return objectOf(value.structValue)
  if (value.listValue !== undefined) return value.listValue.values.map(valueOf)
  return value.stringValue ?? value.numberValue ?? value.boolValue ?? null
}
