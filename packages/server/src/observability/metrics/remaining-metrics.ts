/** Histograms of the remaining share of a rule's limits, observed at each of its decisions. */
import type { LabelledHistogram, ReadableHistogram } from './histogram.js'
import type { Registry } from './registry.js'

/** Shares of a limit. The bucket 0 holds refused calls and those that used up the limit. */
const REMAINING_BOUNDS = [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1]
/** The same bound as in decision-metrics.ts. */
const RULE_NAMES_MAX = 20_000
const OTHER = 'other'

/** The histogram of one rule; callers keep it. */
interface RuleRemaining {
  /** Takes the smallest remaining share of the rule's limits; ignored if negative (unknown). */
  observe(left: number): void
  /** Ascending. */
  readonly bounds: readonly number[]
  /** The count of each bucket; the one above the last bound stays 0. */
  counts(): Float64Array
}

export interface RemainingMetrics {
  ofRule(rule: string): RuleRemaining
}

export function createRemainingMetrics(registry: Registry): RemainingMetrics {
  return new RemainingHistograms(
    registry.labelledHistogram(
      'sluice_remaining_ratio',
      'Remaining share of the tightest limit of a rule after each of its decisions.',
      REMAINING_BOUNDS,
      ['rule'],
    ),
  )
}

class RemainingHistograms implements RemainingMetrics {
  readonly #histogram: LabelledHistogram
  readonly #rules = new Map<string, RuleShares>()

  constructor(histogram: LabelledHistogram) {
    this.#histogram = histogram
  }

  ofRule(rule: string): RuleRemaining {
    return this.#rules.get(rule) ?? this.sharesOf(rule)
  }

  private sharesOf(rule: string): RuleShares {
    const name = this.#rules.size < RULE_NAMES_MAX ? rule : OTHER
    const known = this.#rules.get(name)
    if (known !== undefined) return known
    const made = new RuleShares(this.#histogram.labels(name))
    this.#rules.set(name, made)
    return made
  }
}

class RuleShares implements RuleRemaining {
  readonly bounds: readonly number[]
  readonly #series: ReadableHistogram

  constructor(series: ReadableHistogram) {
    this.#series = series
    this.bounds = series.bounds
  }

  observe(left: number): void {
    // A stale state may belong to a larger limit than the current one.
    if (left >= 0) this.#series.observe(left > 1 ? 1 : left)
  }

  counts(): Float64Array {
    return this.#series.counts()
  }
}
