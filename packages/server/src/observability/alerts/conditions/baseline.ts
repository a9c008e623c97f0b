/**
 * The baseline of one value that is sampled every ten seconds: an exponentially weighted mean and
 * upward deviation.
 */

export const SAMPLE_MS = 10_000

export interface BaselineOptions {
  /** The period over which the baseline is learnt. */
  readonly baselineMs: number
  /** Values below this are never anomalous. */
  readonly least: number
}

/** An anomaly is this many times the mean, and this many deviations above it. */
const TIMES = 5
const DEVIATIONS = 6
/**
 * Anomalous values are learnt as at most this many times the mean, so that an attack of an hour
 * does not become the baseline, while a permanent change does after some hours.
 */
const LEARNT_TIMES = 2
/** The share of `least` that is learnt at least, so that a mean of 0 can grow. */
const LEARNT_LEAST_SHARE = 0.2
/** Samples must cover this share of `baselineMs`, and a minute, before anything is anomalous. */
const HISTORY_SHARE = 0.25
const HISTORY_MS_MIN = 60_000
/** An anomaly ends below this share of the threshold. */
const OVER_SHARE = 0.5
/** The mean of this many samples is judged, so that a burst in one sample is no anomaly. */
const RECENT_SAMPLES = 3

export class Baseline {
  #samples = 0
  #mean = 0
  #variance = 0
  /** The last samples, the newest last. */
  readonly #recent: number[] = []
  #isAnomalous = false

  get mean(): number {
    return this.#mean
  }

  /** The mean of the last half minute. */
  get recent(): number {
    return this.#recent.reduce((sum, each) => sum + each, 0) / Math.max(1, this.#recent.length)
  }

  /**
   * Returns whether the value is anomalous with this sample, which is learnt afterwards. Nothing is
   * anomalous before there is enough history: after a restart, the normal refusals of a rule must
   * not raise an alert.
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
   * Weighs all samples equally at first, later the newest by its share of `baselineMs`. Only upward
   * deviations are learnt, and never those of anomalies: the long way back from an attack would
   * otherwise hide the next one.
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
