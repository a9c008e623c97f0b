/**
 * What one counter spent here since it was last reported, under the windows in which it was spent:
 * the newest and the one before. Older ones mean nothing to anybody.
 */

export interface Usage {
  readonly amount: number
  /** When the last of it was spent, in the store's time. */
  readonly at: number
}

export class UnreportedUsage {
  readonly windowUs: number
  /** The number of the newest window; -1 before the first. */
  #window = -1
  #newest = 0
  #newestAt = 0
  #before = 0
  #beforeAt = 0

  constructor(windowUs: number) {
    this.windowUs = windowUs
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

  /**
   * Files units under the window in which they were spent, which is the one they will be reported
   * for; returns those that are too old to be.
   */
  add(amount: number, at: number): number {
    const window = Math.floor(at / this.windowUs)
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

  /** The same of units that are spent now: where now is further back, the clock has stepped. */
  spend(amount: number, now: number): number {
    const window = Math.floor(now / this.windowUs)
    if (window < this.#window - 1) this.moveTo(window, now)
    return this.add(amount, now)
  }

  /** Time has come so far; returns what has become too old by that. */
  expire(now: number): number {
    if (this.isEmpty) return 0
    const window = Math.floor(now / this.windowUs)
    if (window < this.#window - 1) this.moveTo(window, now)
    return this.rotate(window)
  }

  /** Units of the same window that need not be reported after all; returns how many there were. */
  takeBack(amount: number, at: number): number {
    const age = this.#window - Math.floor(at / this.windowUs)
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

  /** Begins anew, and returns what was there. */
  drain(): readonly Usage[] {
    const { usages } = this
    this.#newest = 0
    this.#before = 0
    return usages
  }

  /** The clock has stepped back: what was filed ahead of it is of now, as in the algorithms. */
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
