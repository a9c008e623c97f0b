/** Reads the request and writes the response of envoy.service.ratelimit.v3, as protobuf. */
import {
  type CurrentLimit,
  type Descriptor,
  type DescriptorEntry,
  DESCRIPTORS_MAX,
  type DescriptorStatus,
  ENTRIES_MAX,
  type LimitOverride,
  type LimitUnit,
  type RateLimitRequest,
  type RateLimitResponse,
} from '../rate-limit-messages.js'
import { GRPC_CODES, GrpcError } from '../grpc-error.js'
import { BYTES, ProtoReader, VARINT } from './proto-reader.js'
import { ProtoWriter } from './proto-writer.js'
import { writeStruct } from './struct-codec.js'

/** Names of units by their numbers, which are those of requests and of responses alike. */
export const UNITS: readonly LimitUnit[] = [
  'unknown',
  'second',
  'minute',
  'hour',
  'day',
  'month',
  'year',
  'week',
]

const UNIT_NUMBERS: Readonly<Record<LimitUnit, number>> = {
  unknown: 0,
  second: 1,
  minute: 2,
  hour: 3,
  day: 4,
  month: 5,
  year: 6,
  week: 7,
}

const OK = 1
const OVER_LIMIT = 2

/** The tag of a field: a number times 8 plus the wire type. */
const varint = (field: number) => field * 8 + VARINT
const bytes = (field: number) => field * 8 + BYTES

const REQUEST_DOMAIN = bytes(1)
const REQUEST_DESCRIPTORS = bytes(2)
const REQUEST_HITS_ADDEND = varint(3)
const DESCRIPTOR_ENTRIES = bytes(1)
const DESCRIPTOR_LIMIT = bytes(2)
const DESCRIPTOR_HITS_ADDEND = bytes(3)
const DESCRIPTOR_IS_NEGATIVE = varint(4)
const ENTRY_KEY = bytes(1)
const ENTRY_VALUE = bytes(2)
const LIMIT_REQUESTS = varint(1)
const LIMIT_UNIT = varint(2)
const WRAPPED_VALUE = varint(1)

const NO_DESCRIPTORS: Descriptor[] = []
const NO_ENTRIES: DescriptorEntry[] = []

/** Classes, not object literals, because they live while a call waits: see docs/performance.md. */
class DecodedRequest implements RateLimitRequest {
  readonly domain: string
  readonly descriptors: readonly Descriptor[]
  readonly hitsAddend: number

  constructor(domain: string, descriptors: readonly Descriptor[], hitsAddend: number) {
    this.domain = domain
    this.descriptors = descriptors
    this.hitsAddend = hitsAddend
  }
}

class DecodedDescriptor implements Descriptor {
  readonly entries: readonly DescriptorEntry[]
  readonly limit: LimitOverride | undefined
  readonly hitsAddend: number | undefined
  readonly isNegativeHits: boolean

  constructor(
    entries: readonly DescriptorEntry[],
    limit: LimitOverride | undefined,
    hitsAddend: number | undefined,
    isNegativeHits: boolean,
  ) {
    this.entries = entries
    this.limit = limit
    this.hitsAddend = hitsAddend
    this.isNegativeHits = isNegativeHits
  }
}

class DecodedEntry implements DescriptorEntry {
  readonly key: string
  readonly value: string

  constructor(key: string, value: string) {
    this.key = key
    this.value = value
  }
}

/** Begins a list of one as a literal: pushing to an empty list allocates seventeen places. */
function appended<Item>(list: Item[], item: Item): Item[] {
  if (list.length === 0) return [item]
  list.push(item)
  return list
}

/** Throws a ProtoError for bytes that are no request, and a GrpcError for one that is too large. */
export function decodeRateLimitRequest(message: Uint8Array): RateLimitRequest {
  const reader = new ProtoReader(message)
  let domain = ''
  let hitsAddend = 0
  let descriptors = NO_DESCRIPTORS
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === REQUEST_DOMAIN) domain = reader.string()
    else if (tag === REQUEST_DESCRIPTORS) {
      if (descriptors.length === DESCRIPTORS_MAX) throw tooMany('descriptors', DESCRIPTORS_MAX)
      descriptors = appended(descriptors, readDescriptor(reader))
    } else if (tag === REQUEST_HITS_ADDEND) hitsAddend = reader.uint32()
    else reader.skip(tag)
  }
  return new DecodedRequest(domain, descriptors, hitsAddend)
}

export function tooMany(what: string, most: number): GrpcError {
  return new GrpcError(GRPC_CODES.invalidArgument, `too many ${what}: at most ${most} are accepted`)
}

function readDescriptor(reader: ProtoReader): Descriptor {
  const outer = reader.enter()
  let entries = NO_ENTRIES
  let limit: LimitOverride | undefined
  let hitsAddend: number | undefined
  let isNegativeHits = false
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === DESCRIPTOR_ENTRIES) {
      if (entries.length === ENTRIES_MAX) throw tooMany('entries in a descriptor', ENTRIES_MAX)
      entries = appended(entries, readEntry(reader))
    } else if (tag === DESCRIPTOR_LIMIT) limit = readLimit(reader, limit)
    else if (tag === DESCRIPTOR_HITS_ADDEND) hitsAddend = readWrapped(reader, hitsAddend)
    else if (tag === DESCRIPTOR_IS_NEGATIVE) isNegativeHits = reader.bool()
    else reader.skip(tag)
  }
  reader.leave(outer)
  return new DecodedDescriptor(entries, limit, hitsAddend, isNegativeHits)
}

function readEntry(reader: ProtoReader): DescriptorEntry {
  const outer = reader.enter()
  let key = ''
  let value = ''
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === ENTRY_KEY) key = reader.string()
    else if (tag === ENTRY_VALUE) value = reader.string()
    else reader.skip(tag)
  }
  reader.leave(outer)
  return new DecodedEntry(key, value)
}

/** A message that is sent twice is merged: its fields replace only those of the same number. */
function readLimit(reader: ProtoReader, before: LimitOverride | undefined): LimitOverride {
  const outer = reader.enter()
  let requestsPerUnit = before?.requestsPerUnit ?? 0
  let unit: LimitUnit = before?.unit ?? 'unknown'
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === LIMIT_REQUESTS) requestsPerUnit = reader.uint32()
    // An enum of proto3 is open: a number without a name is accepted, and stands for no unit.
    else if (tag === LIMIT_UNIT) unit = UNITS[reader.uint32()] ?? 'unknown'
    else reader.skip(tag)
  }
  reader.leave(outer)
  return { requestsPerUnit, unit }
}

function readWrapped(reader: ProtoReader, before = 0): number {
  const outer = reader.enter()
  let value = before
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === WRAPPED_VALUE) value = reader.uint64()
    else reader.skip(tag)
  }
  reader.leave(outer)
  return value
}

/** One for all responses: each is written in one turn of the event loop, and copied. */
const writer = new ProtoWriter()

export function encodeRateLimitResponse(response: RateLimitResponse): Buffer {
  writer.start()
  writer.presentVarint(1, response.overallCode === 'ok' ? OK : OVER_LIMIT)
  for (const status of response.statuses) writeStatus(status)
  writeHeaders(3, response.responseHeaders)
  writeHeaders(4, response.requestHeaders)
  writer.string(5, response.rawBody)
  if (response.dynamicMetadata !== undefined) {
    const begun = writer.begin(6)
    writeStruct(writer, response.dynamicMetadata)
    writer.end(begun)
  }
  return writer.finish()
}

function writeStatus({ code, currentLimit, limitRemaining, resetSeconds }: DescriptorStatus): void {
  const begun = writer.begin(2)
  writer.presentVarint(1, code === 'ok' ? OK : OVER_LIMIT)
  if (currentLimit !== undefined) writeLimit(currentLimit)
  writer.uint32(3, limitRemaining)
  if (resetSeconds !== undefined) {
    const duration = writer.begin(4)
    writer.uint64(1, resetSeconds)
    writer.end(duration)
  }
  writer.end(begun)
}

function writeLimit({ requestsPerUnit, unit, name }: CurrentLimit): void {
  const begun = writer.begin(2)
  writer.uint32(1, requestsPerUnit)
  writer.uint32(2, UNIT_NUMBERS[unit])
  writer.string(3, name)
  writer.end(begun)
}

/** Only with `value`: Envoy does not read `raw_value` of these headers. */
function writeHeaders(field: number, headers: readonly string[]): void {
  for (let index = 0; index + 1 < headers.length; index += 2) {
    const begun = writer.begin(field)
    writer.string(1, headers[index] ?? '')
    writer.string(2, headers[index + 1] ?? '')
    writer.end(begun)
  }
}
