/**
 * Limits of concurrency for counters in the memory of the process that holds the places. Such a
 * counter needs no lease: it ends with the process. Other limits stay as they are.
 */
import { isConcurrency, type Limit } from '@sluice/core'

/** Longer than any call. */
const LEASE_US = 366 * 86_400_000_000

export class ProcessLimits {
  readonly #known = new WeakMap<Limit, Limit>()

  /** Returns the same object for the same limit, because stores know limits by their object. */
  get(limit: Limit): Limit {
    if (!isConcurrency(limit)) return limit
    let known = this.#known.get(limit)
    if (known === undefined) {
      known = { ...limit, windowUs: LEASE_US }
      this.#known.set(limit, known)
    }
    return known
  }
}

/** Returns a reset time of such a counter as the limit itself would: at most one lease. */
export function withinLease(resetAfterMs: number, limit: Limit): number {
  return isConcurrency(limit) ? Math.min(resetAfterMs, limit.windowUs / 1000) : resetAfterMs
}
