/**
 * Checks that units passed stay within `capacity + rate * t` in every interval t: a bucket that
 * leaks at the rate holds, at every moment, the largest excess over `rate * t` of any interval
 * ending now.
 */
import type { Limit } from '@sluice/core'

/** Tolerance, because sums of fractions are not exact. */
const ROUNDING = 1e-6

export class Meter {
  #capacity: number
  #perUs: number
  #level = 0
  #atUs = -Infinity

  constructor(capacity: number, rate: number) {
    this.#capacity = capacity
    this.#perUs = rate
  }

  /**
   * Returns by how much the bound is exceeded, 0 or less if it is not. A step back of the clock
   * takes no time; one of more than `memoryUs` clears the history.
   */
  add(units: number, atUs: number, memoryUs = Infinity): number {
    if (this.#atUs - atUs > memoryUs) this.#atUs = atUs
    if (atUs > this.#atUs) {
      const leaked = this.#atUs === -Infinity ? 0 : (atUs - this.#atUs) * this.#perUs
      this.#level = Math.max(0, this.#level - leaked)
      this.#atUs = atUs
    }
    this.#level += units
    return this.#level - this.#capacity - ROUNDING
  }

  /** Raises the bound from now on. */
  widen(capacity: number, rate: number): void {
    this.#capacity = capacity
    this.#perUs = rate
  }

  /** Subtracts units that were returned and so never passed. */
  take(units: number): void {
    this.#level = Math.max(0, this.#level - units)
  }
}

export function perUs({ max, windowUs }: Limit): number {
  return max / windowUs
}

/** The most that an algorithm admits in an interval of this length. */
export function mostIn(limit: Limit, us: number): number {
  if (limit.algorithm !== 'sliding-window-log') return atOnce(limit) + perUs(limit) * us
  return limit.max * (Math.floor(us / limit.windowUs) + 1)
}

/**
 * The most that an algorithm admits at once, beside its rate. A fixed window admits its limit twice
 * around an edge, a leaky bucket one call beside its queue; where time is truncated to
 * milliseconds, one more unit of that time.
 */
export function atOnce(limit: Limit): number {
  const { algorithm, capacity, max } = limit
  const cut = perUs(limit) * (limit.tickUs - 1)
  if (capacity === 0) return 0
  if (algorithm === 'fixed-window') return 2 * max
  if (algorithm === 'leaky-bucket') return capacity + 1 + cut
  // Exactly max in any window, but another max begins as soon as it has passed.
  if (algorithm === 'sliding-window-log') return max
  return capacity + cut
}
