/**
 * What is usual for one number that is looked at every ten seconds: its mean and how far it strays
 * above it, of which the past counts for less the longer it is gone.
 */

export const SAMPLE_MS = 10_000

export interface BaselineOptions {
  /** Over how long what is usual is learnt. */
  readonly baselineMs: number
  /** What is below is never unusual. */
  readonly least: number
}

/** Unusual is what is so many times the usual, and so many deviations above it. */
const TIMES = 5
const DEVIATIONS = 6
/**
 * What is unusual is learnt as if it were no more than this many times the usual: an attack of an
 * hour must not become what is usual, and a change that stays is usual after some hours.
 */
const LEARNT_TIMES = 2
/** Of `least`: from where what has always been 0 is learnt. */
const LEARNT_LEAST_SHARE = 0.2
/** It must have been seen for this share of `usualMs`, and a minute. */
const HISTORY_SHARE = 0.25
const HISTORY_MS_MIN = 60_000
/** What is above was unusual; what is below this share of it is so no more. */
const OVER_SHARE = 0.5
/** A burst of one look is no news: the mean of so many counts. */
const RECENT_SAMPLES = 3

export class Baseline {
  #samples = 0
  #mean = 0
  #variance = 0
  /** The last ones, the newest last. */
  readonly #recent: number[] = []
  #isAnomalous = false

  get mean(): number {
    return this.#mean
  }

  /** Of the last half minute. */
  get recent(): number {
    return this.#recent.reduce((sum, each) => sum + each, 0) / Math.max(1, this.#recent.length)
  }

  /**
   * Whether it is unusual with this value, which is learnt afterwards. Nothing is before enough was
   * seen: what a rule has always refused must not be news after every restart.
   */
  observe(value: number, options: BaselineOptions): boolean {
    this.#recent.push(value)
    if (this.#recent.length > RECENT_SAMPLES) this.#recent.shift()
    const isKnown = this.isKnown(options)
    const threshold = isKnown ? this.threshold(options) : Infinity
    const isAbove = this.recent > (this.#isAnomalous ? threshold * OVER_SHARE : threshold)
    this.#isAnomalous = isAbove && this.#recent.length === RECENT_SAMPLES
    const learnt = Math.min(
      value,
      Math.max(LEARNT_TIMES * this.#mean, options.least * LEARNT_LEAST_SHARE),
    )
    this.learn(isAbove ? learnt : value, isAbove, options)
    return this.#isAnomalous
  }

  private isKnown({ baselineMs }: BaselineOptions): boolean {
    return this.#samples * SAMPLE_MS >= Math.max(baselineMs * HISTORY_SHARE, HISTORY_MS_MIN)
  }

  private threshold({ least }: BaselineOptions): number {
    const strayed = this.#mean + DEVIATIONS * Math.sqrt(this.#variance)
    return Math.max(TIMES * this.#mean, strayed, least)
  }

  /**
   * At first each look counts the same; later the newest by its share of `usualMs`. How far it
   * strays is learnt upwards alone, and never from what is unusual: the way back from an attack is
   * long, and would make the next one look usual.
   */
  private learn(value: number, isAbove: boolean, { baselineMs }: BaselineOptions): void {
    this.#samples++
    const share = Math.max(1 / this.#samples, Math.min(1, SAMPLE_MS / baselineMs))
    const off = value - this.#mean
    const up = Math.max(0, off)
    if (!isAbove) this.#variance = (1 - share) * (this.#variance + share * up * up)
    this.#mean += share * off
  }
}
