/**
 * Usage of one counter since its last report, by window: the newest and the one before. Older
 * windows do not matter any more.
 */
import { type LimitWindows, windowNumberOf } from '@sluice/core'

export interface Usage {
  readonly amount: number
  /** When the last unit was spent, in the store's time. */
  readonly at: number
}

export class UnreportedUsage {
  readonly windows: LimitWindows
  /** The number of the newest window; -1 before the first. */
  #window = -1
  #newest = 0
  #newestAt = 0
  #before = 0
  #beforeAt = 0

  constructor(windows: LimitWindows) {
    this.windows = windows
  }

  get isEmpty(): boolean {
    return this.#newest === 0 && this.#before === 0
  }

  /** Oldest first. */
  get usages(): readonly Usage[] {
    const usages: Usage[] = []
    if (this.#before > 0) usages.push({ amount: this.#before, at: this.#beforeAt })
    if (this.#newest > 0) usages.push({ amount: this.#newest, at: this.#newestAt })
    return usages
  }

  /** Adds units to the window in which they were spent; returns those that are too old. */
  add(amount: number, at: number): number {
    const window = windowNumberOf(this.windows, at)
    const dropped = this.rotate(window)
    if (window === this.#window) {
      this.#newest += amount
      this.#newestAt = Math.max(this.#newestAt, at)
    } else if (window === this.#window - 1) {
      this.#before += amount
      this.#beforeAt = Math.max(this.#beforeAt, at)
    } else return dropped + amount
    return dropped
  }

  /**
   * The same for units spent now: if now is before the known windows, the clock has stepped back.
   */
  spend(amount: number, now: number): number {
    const window = windowNumberOf(this.windows, now)
    if (window < this.#window - 1) this.moveTo(window, now)
    return this.add(amount, now)
  }

  /** Advances to `now`; returns the units that became too old. */
  expire(now: number): number {
    if (this.isEmpty) return 0
    const window = windowNumberOf(this.windows, now)
    if (window < this.#window - 1) this.moveTo(window, now)
    return this.rotate(window)
  }

  /** Removes units of the window of `at` that need not be reported; returns how many there were. */
  takeBack(amount: number, at: number): number {
    const age = this.#window - windowNumberOf(this.windows, at)
    if (age === 0) {
      const found = Math.min(amount, this.#newest)
      this.#newest -= found
      return found
    }
    if (age !== 1) return 0
    const found = Math.min(amount, this.#before)
    this.#before -= found
    return found
  }

  /** Returns and clears everything. */
  drain(): readonly Usage[] {
    const { usages } = this
    this.#newest = 0
    this.#before = 0
    return usages
  }

  /** Moves everything to `window`, because the clock has stepped back, as the algorithms do. */
  private moveTo(window: number, at: number): void {
    this.#window = window
    this.#newest += this.#before
    this.#newestAt = at
    this.#before = 0
    this.#beforeAt = 0
  }

  private rotate(window: number): number {
    const gap = window - this.#window
    if (gap <= 0) return 0
    const dropped = this.#before + (gap > 1 ? this.#newest : 0)
    this.#before = gap > 1 ? 0 : this.#newest
    this.#beforeAt = gap > 1 ? 0 : this.#newestAt
    this.#window = window
    this.#newest = 0
    this.#newestAt = 0
    return dropped
  }
}
