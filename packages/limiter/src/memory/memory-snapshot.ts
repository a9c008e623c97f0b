/**
 * Serializes counters so that they survive the process: the state of each, and the numbers of its
 * limit, which determine when it expires. Little endian on every machine:
 *
 *   8  what it is, and its version
 *   4  bytes of the limits         4  counters
 *   n  the limits as JSON, filled up to a multiple of 8
 *      for each counter: 8 hash, 3 place of its limit in the list, 1 partition, and whether it is
 *      durable, 4 numbers of its state; these
 *   8  checksum of all before
 *
 * Version 1 had no partitions and durable counters only.
 */
import { isTimeZone, layoutOf, type Limit, SluiceError, STORED_ALGORITHMS } from '@sluice/core'
import type { StoredState } from './counters.js'

/** The version follows in one byte; other versions are refused. */
const MAGIC = new TextEncoder().encode('sluice-')
const VERSION = 2
const FIRST_VERSION = 1
const HEAD_BYTES = 16
const COUNTER_BYTES = 16
const CHECKSUM_BYTES = 8
/** The most numbers of a state that fits into a record; a list has as many as its entries need. */
const STATE_NUMBERS = 3

/** The word of a counter: its limit, then its partition, then whether it is durable. */
const LIMIT_MASK = 0xffffff
const PARTITION_SHIFT = 24
const PARTITION_MASK = 0x7f
const DURABLE = 1 << 31

export function writeSnapshot(counters: Iterable<StoredState>): Uint8Array {
  const places = new Map<Limit, number>()
  const kept: StoredState[] = []
  let numbers = 0
  for (const counter of counters) {
    if (!places.has(counter.limit)) places.set(counter.limit, places.size)
    numbers += numbersOf(counter)
    kept.push(counter)
  }
  const limits = new TextEncoder().encode(JSON.stringify([...places.keys()].map(toStored)))
  const bodyAt = HEAD_BYTES + Math.ceil(limits.length / 8) * 8
  const size = bodyAt + kept.length * COUNTER_BYTES + numbers * 8 + CHECKSUM_BYTES
  const bytes = new Uint8Array(size)
  const view = new DataView(bytes.buffer)
  bytes.set(MAGIC)
  bytes[MAGIC.length] = VERSION
  view.setUint32(8, limits.length, true)
  view.setUint32(12, kept.length, true)
  bytes.set(limits, HEAD_BYTES)
  let at = bodyAt
  for (const counter of kept) at = writeCounter(view, at, counter, places.get(counter.limit) ?? 0)
  const sum = checksum(view, at)
  view.setUint32(at, sum.a, true)
  view.setUint32(at + 4, sum.b, true)
  return bytes
}

function numbersOf({ limit, state }: StoredState): number {
  return layoutOf(limit) === undefined ? (state as readonly number[]).length : STATE_NUMBERS
}

function writeCounter(
  view: DataView,
  from: number,
  counter: StoredState,
  limitNumber: number,
): number {
  const numbers = stateNumbers(counter)
  const { hi, lo, partition } = counter.key
  view.setInt32(from, hi, true)
  view.setInt32(from + 4, lo, true)
  const durable = counter.isDurable ? DURABLE : 0
  view.setInt32(from + 8, limitNumber | (partition << PARTITION_SHIFT) | durable, true)
  view.setUint32(from + 12, numbers.length, true)
  let at = from + COUNTER_BYTES
  for (const number of numbers) {
    view.setFloat64(at, number, true)
    at += 8
  }
  return at
}

function stateNumbers({ limit, state }: StoredState): ArrayLike<number> & Iterable<number> {
  const layout = layoutOf(limit)
  if (layout === undefined) return state as readonly number[]
  const numbers = new Float64Array(STATE_NUMBERS)
  layout.write(state, numbers, 0)
  return numbers
}

/** Throws if the bytes are damaged; returns nothing before all of them are checked. */
export function readSnapshot(bytes: Uint8Array): readonly StoredState[] {
  if (!(bytes instanceof Uint8Array) || bytes.length < HEAD_BYTES + CHECKSUM_BYTES) {
    throw unreadable('too few bytes')
  }
  if (MAGIC.some((byte, i) => bytes[i] !== byte)) throw unreadable('something else')
  const version = bytes[MAGIC.length]
  if (version !== VERSION && version !== FIRST_VERSION) throw unreadable('another version')
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const end = bytes.length - CHECKSUM_BYTES
  const sum = end % 8 === 0 ? checksum(view, end) : undefined
  if (sum?.a !== view.getUint32(end, true) || sum.b !== view.getUint32(end + 4, true)) {
    throw unreadable('damaged ones')
  }
  const limitsLength = view.getUint32(8, true)
  const count = view.getUint32(12, true)
  const limits = readLimits(bytes.subarray(HEAD_BYTES, HEAD_BYTES + limitsLength))
  const counters: StoredState[] = []
  let at = HEAD_BYTES + Math.ceil(limitsLength / 8) * 8
  for (let i = 0; i < count; i++) {
    const word = view.getInt32(at + 8, true)
    const limit = limits[word & LIMIT_MASK]
    const partition = (word >>> PARTITION_SHIFT) & PARTITION_MASK
    const isDurable = version === FIRST_VERSION || (word & DURABLE) !== 0
    const length = view.getUint32(at + 12, true)
    if (limit === undefined) throw unreadable('a counter of no limit')
    const numbers = new Float64Array(length)
    for (let n = 0; n < length; n++) numbers[n] = view.getFloat64(at + COUNTER_BYTES + n * 8, true)
    const hi = view.getInt32(at, true)
    const lo = view.getInt32(at + 4, true)
    const state = layoutOf(limit)?.read(numbers, 0) ?? [...numbers]
    counters.push({ key: { hi, lo, partition }, limit, state, isDurable })
    at += COUNTER_BYTES + length * 8
  }
  return counters
}

function readLimits(bytes: Uint8Array): readonly Limit[] {
  const limits: unknown = JSON.parse(new TextDecoder().decode(bytes))
  if (Array.isArray(limits) && limits.every(isStoredLimit)) return limits.map(fromStored)
  throw unreadable('limits of another version')
}

/** A stored limit: one field keeps its name from the first release, which had no debt. */
type StoredLimit = Omit<Limit, 'borrowable' | 'debt'> & {
  readonly lent: number
  readonly debt?: number
}

/** Keeps the order of the fields, because limits are compared by their JSON. */
function toStored({ debt, ...limit }: Limit): object {
  const stored = renameField(limit, 'borrowable', 'lent')
  return debt === 0 ? stored : { ...stored, debt }
}

function fromStored({ debt = 0, ...limit }: StoredLimit): Limit {
  return { ...renameField(limit, 'lent', 'borrowable'), debt } as unknown as Limit
}

function renameField(limit: object, from: string, to: string): object {
  return Object.fromEntries(
    Object.entries(limit).map(([field, value]) => [field === from ? to : field, value as unknown]),
  )
}

function isStoredLimit(limit: Partial<StoredLimit> | null): limit is StoredLimit {
  if (typeof limit !== 'object' || limit === null) return false
  const { format, algorithm } = limit
  if (algorithm === undefined || typeof limit.lent !== 'number') return false
  // Another runtime may not know the zone.
  if (limit.calendar !== undefined && !isTimeZone(limit.calendar.zone)) return false
  return STORED_ALGORITHMS.some((each) => each.name === algorithm && each.format === format)
}

/** Two sums over all words, weighted by position, so that swapped words are detected. */
function checksum(view: DataView, end: number): { readonly a: number; readonly b: number } {
  let a = 0x811c9dc5
  let b = 0x9e3779b9
  for (let at = 0; at + 4 <= end; at += 4) {
    const word = view.getInt32(at, true)
    a = Math.imul(a ^ word, 0x01000193)
    b = (Math.imul(b, 0x85ebca6b) + word) | 0
    b ^= b >>> 15
  }
  return { a: a >>> 0, b: b >>> 0 }
}

function unreadable(found: string): SluiceError {
  return new SluiceError(
    'OPTION_INVALID',
    `snapshot: found ${found}; accepted: the bytes that snapshot() of this version gave`,
  )
}
