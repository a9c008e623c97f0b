/**
 * An estimate of the clock of one Redis node.
 *
 * A reply with the store's time was made between sending and receiving, so it bounds the offset of
 * the store's clock from both sides. The narrowest bounds of the last seconds are kept. A reply
 * that contradicts them shows that a clock stepped, and then only that reply counts.
 */

/** How long bounds are kept: two rounds of this, so that drift does not accumulate. */
const ROUND_MS = 1000
/** Clocks that do not step drift by less than this within two rounds. */
const DRIFT_US = 1000
const DRIFT_US_PER_MS = DRIFT_US / (2 * ROUND_MS)

interface Bounds {
  /** The least and the most that the store's clock is ahead of ours, in microseconds. */
  low: number
  high: number
  /** When the oldest measurement in the bounds was sent. */
  sinceMs: number
}

const noBounds = (): Bounds => ({ low: -Infinity, high: Infinity, sinceMs: Infinity })

export class StoreClock {
  readonly #nowMs: () => number
  #round = noBounds()
  #last = noBounds()
  #roundEndsMs = 0
  #known = false
  #learntMs = -Infinity
  #low = -Infinity
  #high = Infinity
  /** The middle of the bounds, its error, and since when; kept by `forget`. */
  #aheadUs = NaN
  #errorUs = Infinity
  #sinceMs = 0

  /** `nowMs` is monotonic. */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  get isKnown(): boolean {
    return this.#known
  }

  /** Whether it was ever known. */
  get wasEverKnown(): boolean {
    return this.#errorUs !== Infinity
  }

  /** When the store last sent its time. */
  get learntMs(): number {
    return this.#learntMs
  }

  /** Records a reply with `storeUs` to a command sent at `sentMs` and received at `receivedMs`. */
  learn(sentMs: number, receivedMs: number, storeUs: number): void {
    const low = storeUs - Math.ceil(receivedMs * 1000)
    const high = storeUs - Math.floor(sentMs * 1000)
    if (high < this.#low - DRIFT_US || low > this.#high + DRIFT_US) this.forget()
    if (receivedMs >= this.#roundEndsMs) {
      // After a long silence the earlier bounds are older than two rounds.
      this.#last = receivedMs < this.#roundEndsMs + ROUND_MS ? this.#round : noBounds()
      this.#round = noBounds()
      this.#roundEndsMs = receivedMs + ROUND_MS
    }
    const round = this.#round
    round.low = Math.max(round.low, low)
    round.high = Math.min(round.high, high)
    round.sinceMs = Math.min(round.sinceMs, sentMs)
    this.#low = Math.max(round.low, this.#last.low)
    this.#high = Math.max(this.#low, Math.min(round.high, this.#last.high))
    this.#aheadUs = (this.#low + this.#high) / 2
    this.#errorUs = (this.#high - this.#low) / 2
    this.#sinceMs = Math.min(round.sinceMs, this.#last.sinceMs)
    this.#known = true
    this.#learntMs = receivedMs
  }

  /** Forgets the bounds, because another server may answer from now on. */
  forget(): void {
    this.#round = noBounds()
    this.#last = noBounds()
    this.#low = -Infinity
    this.#high = Infinity
    this.#known = false
  }

  /** A lower bound of the store's time when our clock says `atMs`. */
  earliest(atMs: number): number {
    return Math.floor(atMs * 1000 + this.#low)
  }

  /** An upper bound of the store's time now. */
  latest(): number {
    return Math.ceil(this.#nowMs() * 1000 + this.#high)
  }

  /**
   * The best estimate of the store's time now. After `forget` it still uses the last known clock: a
   * server that takes over is closer to its predecessor than to a wall clock that was never
   * compared.
   */
  now(): number {
    return Math.round(this.#nowMs() * 1000 + this.#aheadUs)
  }

  /** How far `now` may be off, in microseconds; Infinity if the store never sent its time. */
  uncertaintyUs(): number {
    if (!this.wasEverKnown) return Infinity
    const agedMs = Math.max(0, this.#nowMs() - this.#sinceMs)
    return Math.ceil(this.#errorUs + agedMs * DRIFT_US_PER_MS)
  }

  /** How far the store's clock is ahead of a wall clock, and the error of that, in microseconds. */
  aheadOf(wallUs: number): { readonly offsetUs: number; readonly errorUs: number } {
    return { offsetUs: this.now() - wallUs, errorUs: this.uncertaintyUs() }
  }
}
