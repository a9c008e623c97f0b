/** How much of its limits a rule's callers have left, once for each decision of the rule. */
import type { LabelledHistogram, ReadableHistogram } from './histogram.js'
import type { Registry } from './registry.js'

/** Shares of a limit: 0 holds those that were refused, or came to their limit with this call. */
const REMAINING_BOUNDS = [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1]
/** As many as decisions are counted by: see decisions.ts. */
const RULE_NAMES_MAX = 20_000
const OTHER = 'other'

/** The shares of one rule: whoever counts keeps it. */
interface RuleRemaining {
  /** The smallest share left of the rule's limits; below 0: nobody knows, nothing is counted. */
  observe(left: number): void
  /** Rising. */
  readonly bounds: readonly number[]
  /** How many lay at each place: one for each bound, and one above the last, which stays 0. */
  counts(): Float64Array
}

export interface RemainingMetrics {
  ofRule(rule: string): RuleRemaining
}

export function createRemainingMetrics(registry: Registry): RemainingMetrics {
  return new RemainingHistograms(
    registry.labelledHistogram(
      'sluice_remaining_ratio',
      'The share left of the tightest limit of a rule, as its decisions left it.',
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
    // What a store knew last may be of a larger limit than the one in force.
    if (left >= 0) this.#series.observe(left > 1 ? 1 : left)
  }

  counts(): Float64Array {
    return this.#series.counts()
  }
}
