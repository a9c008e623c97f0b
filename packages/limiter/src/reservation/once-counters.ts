/**
 * The counters of a reservation itself. One admits a single take when it is settled; another,
 * where the caller gave an idempotency key, a single take when it is made or extended; and others,
 * where it is given back when it expires, count its extensions. All are fixed windows that begin
 * with their first take, in the store like any counter, so every node sees them.
 */
import {
  type CounterKey,
  defineAdapterLimit,
  extendedKey,
  hashTexts,
  type Limit,
  type ReservationHandle,
  settledKey,
  type SipKey,
  type Take,
} from '@sluice/core'

/**
 * A mark must outlast its reservation. Few lengths, because a store keeps each limit, and short
 * ones, because a mark takes memory until its window has ended. Each is more than twice the one
 * before: see `madeLimit`.
 */
const WINDOWS_MS = [30_000, 120_000, 600_000, 4_200_000, 8_400_000]
/** How far a node's idea of the store's time may be off, and a settle be late. */
const MARGIN_MS = 10_000

/** The largest count that is stored in four bytes. */
const MADE_MAX = 2 ** 32 - 1
/** More than half of the largest: a second take never fits, whatever its amount. */
const MADE_LEAST = 2 ** 31

const onceLimit = (windowMs: number, max: number): Limit =>
  defineAdapterLimit({ algorithm: 'fixed-window', start: 'call', max, windowMs })

const SETTLED_LIMITS = WINDOWS_MS.map((windowMs) => onceLimit(windowMs, 1))
const MADE_LIMITS = WINDOWS_MS.map((windowMs) => onceLimit(windowMs, MADE_MAX))

function windowIndex(ttlMs: number): number {
  return WINDOWS_MS.findIndex((windowMs) => windowMs >= ttlMs + MARGIN_MS)
}

/** The limit of the mark that a reservation was settled. */
function settledLimit(ttlMs: number): Limit {
  return pick(SETTLED_LIMITS, windowIndex(ttlMs))
}

/**
 * The limit of the mark that a reservation was made. It outlasts the mark that it was settled,
 * unless it was extended: otherwise the same key would make one that counts as settled.
 */
export function madeLimit(ttlMs: number): Limit {
  return pick(MADE_LIMITS, windowIndex(ttlMs) + 1)
}

/** The limit of the marks of an extension. */
export function extendedLimit(ttlMs: number): Limit {
  return pick(MADE_LIMITS, windowIndex(ttlMs))
}

/** Tells the node that made a reservation, and will give it back, that it was extended. */
export function extendedTake({ id, partition, ttlMs, extensions }: ReservationHandle): Take {
  return { key: extendedKey(id, partition, extensions), limit: extendedLimit(ttlMs), amount: 1 }
}

/** The same mark, taken whole: refused if the reservation was extended. */
export function unextendedTake(handle: ReservationHandle): Take {
  return { ...extendedTake(handle), amount: MADE_MAX }
}

/** A class, not an object literal, because it lives while a settle waits. */
class MarkTake implements Take {
  readonly key: CounterKey
  readonly limit: Limit
  readonly amount = 1

  constructor(key: CounterKey, limit: Limit) {
    this.key = key
    this.limit = limit
  }
}

/** The mark that a reservation was settled. */
export function settledTake({ id, partition, ttlMs }: ReservationHandle): Take {
  return new MarkTake(settledKey(id, partition), settledLimit(ttlMs))
}

/**
 * Returns the amount that marks a reservation as made, or extended. It tells apart what was taken
 * and for how long: a second take of the mark for something else finds another amount.
 */
export function madeAmount(secret: SipKey, takes: readonly Take[], ttlMs: number): number {
  const texts = takes.map(({ key, amount }) => `${key.hi}.${key.lo}.${amount}`)
  const { lo } = hashTexts(secret, [String(ttlMs), ...texts])
  return MADE_LEAST + (lo >>> 1)
}

function pick(limits: readonly Limit[], index: number): Limit {
  const limit = limits[index]
  if (limit === undefined) throw new RangeError(`There is no window ${index}`)
  return limit
}

/** When a reservation was made and for what, read from its mark; undefined if there is none. */
export interface MadeMark {
  readonly start: number
  readonly count: number
}

export function readMark(state: unknown): MadeMark | undefined {
  if (typeof state !== 'object' || state === null) return undefined
  const { start, count } = state as Partial<MadeMark>
  return typeof start === 'number' && typeof count === 'number' ? { start, count } : undefined
}
