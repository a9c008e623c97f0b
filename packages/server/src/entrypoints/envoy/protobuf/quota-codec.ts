/** Reads the reports and writes the assignments of envoy.service.rate_limit_quota.v3. */
import {
  type BucketAction,
  type BucketId,
  type BucketUsage,
  PAIRS_MAX,
  type Strategy,
  type UsageReports,
  USAGES_MAX,
} from '../quota/quota-messages.js'
import type { DescriptorEntry } from '../rate-limit-messages.js'
import { BYTES, ProtoReader, VARINT } from './proto-reader.js'
import { ProtoWriter } from './proto-writer.js'

const varint = (field: number) => field * 8 + VARINT
const bytes = (field: number) => field * 8 + BYTES

const REPORTS_DOMAIN = bytes(1)
const REPORTS_USAGES = bytes(2)
const USAGE_BUCKET = bytes(1)
const USAGE_ALLOWED = varint(3)
const USAGE_DENIED = varint(4)
const BUCKET_PAIRS = bytes(1)
const PAIR_KEY = bytes(1)
const PAIR_VALUE = bytes(2)

/** Longer than any process lives, in seconds: a lease is never filled up again. */
const NEVER_SECONDS = 100 * 365 * 86_400
const DENY: Strategy = { kind: 'deny' }

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const looseUtf8 = new TextDecoder('utf-8', { ignoreBOM: true })

/** Throws a ProtoError for bytes that are no report. */
export function decodeUsageReports(message: Uint8Array): UsageReports {
  const reader = new ProtoReader(message)
  let domain = ''
  const usages: BucketUsage[] = []
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === REPORTS_DOMAIN) domain = reader.string()
    else if (tag === REPORTS_USAGES && usages.length < USAGES_MAX) usages.push(readUsage(reader))
    else reader.skip(tag)
  }
  return { domain, usages }
}

/** The time since the last report is not read: Envoy rounds it down to seconds. */
function readUsage(reader: ProtoReader): BucketUsage {
  const outer = reader.enter()
  let read: Pick<BucketUsage, 'bucket' | 'isAssignable'> = { bucket: [], isAssignable: false }
  let allowed = 0
  let denied = 0
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === USAGE_BUCKET) read = readBucket(reader)
    else if (tag === USAGE_ALLOWED) allowed = reader.uint64()
    else if (tag === USAGE_DENIED) denied = reader.uint64()
    else reader.skip(tag)
  }
  reader.leave(outer)
  return { ...read, allowed, denied }
}

function readBucket(reader: ProtoReader): Pick<BucketUsage, 'bucket' | 'isAssignable'> {
  const outer = reader.enter()
  const pairs = new Map<string, string>()
  let isAssignable = true
  const text = (encoded: Uint8Array): string => {
    try {
      return strictUtf8.decode(encoded)
    } catch {
      isAssignable = false
      return looseUtf8.decode(encoded)
    }
  }
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag !== BUCKET_PAIRS) reader.skip(tag)
    else if (pairs.size === PAIRS_MAX) {
      isAssignable = false
      reader.skip(tag)
    } else {
      const { key, value } = readPair(reader, text)
      // Of two pairs with one name the last one counts, as in every map of protobuf.
      pairs.set(key, value)
    }
  }
  reader.leave(outer)
  const bucket = [...pairs]
    .map(([key, value]) => ({ key, value }))
    .sort((a, b) => (a.key < b.key ? -1 : 1))
  return { bucket, isAssignable: isAssignable && bucket.length > 0 }
}

function readPair(reader: ProtoReader, text: (encoded: Uint8Array) => string): DescriptorEntry {
  const outer = reader.enter()
  let key = ''
  let value = ''
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === PAIR_KEY) key = text(reader.bytes())
    else if (tag === PAIR_VALUE) value = text(reader.bytes())
    else reader.skip(tag)
  }
  reader.leave(outer)
  return { key, value }
}

/**
 * A new lease follows a refusal of all calls in the same message, so that it begins full: Envoy
 * keeps the token bucket that it has if the new one is equal, and else fills the new one by the
 * share that is left of the old. It applies the actions of a message together, in their order.
 */
export function encodeQuotaResponse(actions: readonly BucketAction[]): Buffer {
  const writer = new ProtoWriter()
  writer.start()
  for (const action of actions) {
    if (action.kind === 'assign' && action.isNew && action.strategy.kind === 'lease') {
      writeAction(writer, { ...action, strategy: DENY })
    }
    writeAction(writer, action)
  }
  return writer.finish()
}

function writeAction(writer: ProtoWriter, action: BucketAction): void {
  const begun = writer.begin(1)
  writeBucket(writer, action.bucket)
  if (action.kind === 'abandon') writer.end(writer.begin(3))
  else {
    const assignment = writer.begin(2)
    writeDuration(writer, 2, action.ttlSeconds)
    writeStrategy(writer, action.strategy)
    writer.end(assignment)
  }
  writer.end(begun)
}

function writeBucket(writer: ProtoWriter, bucket: BucketId): void {
  const begun = writer.begin(1)
  for (const { key, value } of bucket) {
    const pair = writer.begin(1)
    writer.string(1, key)
    writer.string(2, value)
    writer.end(pair)
  }
  writer.end(begun)
}

/** A lease is a token bucket that is never filled up again. */
function writeStrategy(writer: ProtoWriter, strategy: Strategy): void {
  const begun = writer.begin(3)
  if (strategy.kind === 'lease') {
    const bucket = writer.begin(3)
    writer.uint32(1, strategy.calls)
    const tokensPerFill = writer.begin(2)
    writer.uint32(1, 1)
    writer.end(tokensPerFill)
    writeDuration(writer, 3, NEVER_SECONDS)
    writer.end(bucket)
  } else writer.presentVarint(1, strategy.kind === 'deny' ? 1 : 0)
  writer.end(begun)
}

/** Written even if it is 0: a missing time to live means for ever. */
function writeDuration(writer: ProtoWriter, field: number, seconds: number): void {
  const begun = writer.begin(field)
  writer.uint64(1, seconds)
  writer.end(begun)
}
