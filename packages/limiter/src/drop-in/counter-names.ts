/**
 * The counters of one key of a host library: its hits, and its hold. Both are in the same
 * partition of the store.
 */
import {
  callerHash,
  type CounterKey,
  counterKey,
  counterLimit,
  deriveKey,
  type Hash64,
  type Limit,
  limitSeed,
  type SipKey,
  WINDOW_MS_MAX,
} from '@sluice/core'

export interface CounterKeys {
  readonly hits: CounterKey
  readonly hold: CounterKey
}

/** Returns a window that a counter can have: whole milliseconds, from 1 ms to 366 days. */
export function clampWindow(windowMs: number): number {
  return Math.min(Math.max(1, Math.ceil(windowMs)), WINDOW_MS_MAX)
}

/** Names counters. No rule id has a colon, so rules in the same store have other counters. */
export class CounterNames {
  readonly #secret: SipKey
  readonly #hits: Hash64
  readonly #hold: Hash64

  constructor(secret: SipKey, host: string, prefix: string) {
    this.#secret = secret
    const limitKey = deriveKey(secret, 'limit')
    const seed = (name: string) =>
      limitSeed(limitKey, { rule: `drop-in:${host}`, name, candidate: false, by: [prefix] })
    this.#hits = seed('hits')
    this.#hold = seed('hold')
  }

  keysOf(name: readonly string[]): CounterKeys {
    const caller = callerHash(this.#secret, name)
    return { hits: counterKey(caller, this.#hits), hold: counterKey(caller, this.#hold) }
  }
}

/** The most windows that are kept prepared; a host library may compute one for each request. */
const WINDOWS_MAX = 1000

/** Prepares each window once. */
export class CounterLimits {
  readonly #known = new Map<number, Limit>()

  get(windowMs: number): Limit {
    const clamped = clampWindow(windowMs)
    const known = this.#known.get(clamped)
    if (known !== undefined) return known
    const limit = counterLimit({ windowMs: clamped, name: 'hits' })
    if (this.#known.size < WINDOWS_MAX) this.#known.set(clamped, limit)
    return limit
  }
}
