/**
 * The messages of Envoy's rate limit service in the JSON of proto3. Requests are read strictly: a
 * field that is unknown, sent twice in two spellings, or of another type is refused, as
 * envoyproxy/ratelimit refuses it.
 */
import { isJsonMap, type JsonMap } from '../../../lib/json-map.js'
import {
  type Descriptor,
  type DescriptorEntry,
  DESCRIPTORS_MAX,
  type DescriptorStatus,
  ENTRIES_MAX,
  type LimitOverride,
  type LimitUnit,
  type RateLimitRequest,
  type RateLimitResponse,
  type StatusCode,
} from '../rate-limit-messages.js'
import { tooMany, UNITS } from './rate-limit-codec.js'

/** The JSON is not the message that was expected. */
export class JsonMessageError extends Error {
  override readonly name = 'JsonMessageError'
}

const UINT32_MAX = 2 ** 32 - 1
const UINT64_MAX = 2n ** 64n - 1n
/** Half of a character, which no UTF-8 can express. */
const LONE_SURROGATE = /\p{Surrogate}/u
const DECIMAL = /^-?\d+(\.\d+)?([eE][-+]?\d+)?$/
/** The digits of a number in a text: those of a 64-bit number with an exponent, generously. */
const DIGITS_MAX = 40

/** The fields of each message: the name in JSON, and the one of the proto file. */
const REQUEST = { domain: 'domain', descriptors: 'descriptors', hitsAddend: 'hits_addend' }
const DESCRIPTOR = {
  entries: 'entries',
  limit: 'limit',
  hitsAddend: 'hits_addend',
  isNegativeHits: 'is_negative_hits',
}
const ENTRY = { key: 'key', value: 'value' }
const LIMIT = { requestsPerUnit: 'requests_per_unit', unit: 'unit' }

/** Throws a JsonMessageError, or a GrpcError for a request that is too large. */
export function readRateLimitRequest(json: unknown): RateLimitRequest {
  const fields = fieldsOf(json, REQUEST)
  return {
    domain: textOf(fields.domain),
    descriptors: listOf(fields.descriptors, 'descriptors', DESCRIPTORS_MAX).map(readDescriptor),
    hitsAddend: uint32Of(fields.hitsAddend),
  }
}

function readDescriptor(json: unknown): Descriptor {
  const fields = fieldsOf(json, DESCRIPTOR)
  return {
    entries: listOf(fields.entries, 'entries in a descriptor', ENTRIES_MAX).map(readEntry),
    limit: isAbsent(fields.limit) ? undefined : readLimit(fields.limit),
    hitsAddend: isAbsent(fields.hitsAddend) ? undefined : uint64Of(fields.hitsAddend),
    isNegativeHits: boolOf(fields.isNegativeHits),
  }
}

function readEntry(json: unknown): DescriptorEntry {
  const fields = fieldsOf(json, ENTRY)
  return { key: textOf(fields.key), value: textOf(fields.value) }
}

function readLimit(json: unknown): LimitOverride {
  const fields = fieldsOf(json, LIMIT)
  return { requestsPerUnit: uint32Of(fields.requestsPerUnit), unit: unitOf(fields.unit) }
}

/** Each field under its name in JSON; undefined or null where it is absent. */
function fieldsOf<Names extends Readonly<Record<string, string>>>(
  json: unknown,
  names: Names,
): Readonly<Record<keyof Names, unknown>> {
  if (!isJsonMap(json)) throw new JsonMessageError('expected an object')
  const fields: Record<string, unknown> = {}
  let read = 0
  for (const [name, protoName] of Object.entries(names)) {
    fields[name] = undefined
    for (const spelling of name === protoName ? [name] : [name, protoName]) {
      if (!Object.hasOwn(json, spelling)) continue
      if (fields[name] !== undefined) throw new JsonMessageError(`${name} is sent twice`)
      fields[name] = json[spelling]
      read++
    }
  }
  if (read < Object.keys(json).length) throw unknownField(json, names)
  return fields as Record<keyof Names, unknown>
}

function unknownField(json: JsonMap, names: Readonly<Record<string, string>>): JsonMessageError {
  const known = [...Object.keys(names), ...Object.values(names)]
  const unknown = Object.keys(json).find((key) => !known.includes(key))
  return new JsonMessageError(`unknown field ${unknown}`)
}

function isAbsent(json: unknown): boolean {
  return json === undefined || json === null
}

function listOf(json: unknown, what: string, most: number): readonly unknown[] {
  if (isAbsent(json)) return []
  if (!Array.isArray(json)) throw new JsonMessageError(`${what}: expected a list`)
  if (json.length > most) throw tooMany(what, most)
  return json
}

function textOf(json: unknown): string {
  if (isAbsent(json)) return ''
  if (typeof json !== 'string' || LONE_SURROGATE.test(json)) {
    throw new JsonMessageError('expected text')
  }
  return json
}

function boolOf(json: unknown): boolean {
  if (isAbsent(json)) return false
  if (typeof json !== 'boolean') throw new JsonMessageError('expected true or false')
  return json
}

/** A number, or its decimal text. */
function uint32Of(json: unknown): number {
  if (isAbsent(json)) return 0
  const value = typeof json === 'string' ? numberOf(json) : json
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= UINT32_MAX) {
    return value
  }
  throw new JsonMessageError('expected a whole number from 0 to 4294967295')
}

/** 64-bit numbers are texts in JSON; numbers above 2^53 - 1 are read as 2^53 - 1. */
function uint64Of(json: unknown): number {
  const value = typeof json === 'string' ? numberOf(json) : json
  const isWhole = typeof value === 'number' && Number.isInteger(value) && value >= 0
  if (!isWhole || isBeyondUint64(json, value)) {
    throw new JsonMessageError('expected a whole number from 0 to 18446744073709551615')
  }
  return Math.min(value, Number.MAX_SAFE_INTEGER)
}

/** As a float, the largest number of 64 bits is the same as the first one beyond. */
function isBeyondUint64(json: unknown, value: number): boolean {
  if (typeof json === 'string' && /^\d+$/.test(json)) return BigInt(json) > UINT64_MAX
  return value >= Number(UINT64_MAX)
}

function numberOf(text: string): number {
  if (text.length > DIGITS_MAX || !DECIMAL.test(text)) {
    throw new JsonMessageError('expected a number')
  }
  return Number(text)
}

/** A unit by its name or its number; a number without a name stands for no unit. */
function unitOf(json: unknown): LimitUnit {
  if (isAbsent(json)) return 'unknown'
  if (typeof json === 'number' && Number.isInteger(json)) return UNITS[json] ?? 'unknown'
  const unit = UNITS.find((name) => name.toUpperCase() === json)
  if (unit === undefined) throw new JsonMessageError('expected a unit such as SECOND')
  return unit
}

/** The response as an object for JSON: enums by name, and no field with its default value. */
export function rateLimitResponseJson(response: RateLimitResponse): object {
  const { responseHeaders, requestHeaders, rawBody, dynamicMetadata, statuses } = response
  return {
    overallCode: codeName(response.overallCode),
    ...(statuses.length > 0 && { statuses: statuses.map(statusJson) }),
    ...(responseHeaders.length > 0 && { responseHeadersToAdd: headersJson(responseHeaders) }),
    ...(requestHeaders.length > 0 && { requestHeadersToAdd: headersJson(requestHeaders) }),
    ...(rawBody !== '' && { rawBody: Buffer.from(rawBody, 'utf8').toString('base64') }),
    ...(dynamicMetadata !== undefined && { dynamicMetadata }),
  }
}

function statusJson(status: DescriptorStatus): object {
  const { code, currentLimit, limitRemaining, resetSeconds } = status
  return {
    code: codeName(code),
    ...(currentLimit && {
      currentLimit: {
        ...(currentLimit.name !== '' && { name: currentLimit.name }),
        ...(currentLimit.requestsPerUnit > 0 && {
          requestsPerUnit: Math.min(currentLimit.requestsPerUnit, UINT32_MAX),
        }),
        ...(currentLimit.unit !== 'unknown' && { unit: currentLimit.unit.toUpperCase() }),
      },
    }),
    ...(limitRemaining > 0 && { limitRemaining: Math.min(limitRemaining, UINT32_MAX) }),
    ...(resetSeconds !== undefined && { durationUntilReset: `${resetSeconds}s` }),
  }
}

function headersJson(headers: readonly string[]): readonly object[] {
  const list: object[] = []
  for (let index = 0; index + 1 < headers.length; index += 2) {
    const [key = '', value = ''] = headers.slice(index, index + 2)
    list.push({ ...(key !== '' && { key }), ...(value !== '' && { value }) })
  }
  return list
}

function codeName(code: StatusCode): string {
  return code === 'ok' ? 'OK' : 'OVER_LIMIT'
}
