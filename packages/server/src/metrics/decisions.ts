/** Decisions counted by rule, outcome and source: labels that come from the rule set alone. */
import type { Decision, RuleOutcome, Source } from '@sluice/core'
import type { Counter, Registry, Series } from './registry.js'

export interface DecisionMetrics {
  count(decision: Decision): void
}

/**
 * Rules that were counted keep their series when they leave the set, or a rate would end in the
 * middle. A set has at most 10,000 rules, each with a candidate; names beyond this share one.
 */
const RULE_NAMES_MAX = 20_000
const OTHER = 'other'

export function createDecisionMetrics(registry: Registry): DecisionMetrics {
  return new CountedDecisions(
    registry.counter(
      'sluice_decisions_total',
      'Decisions, once for each rule that matched; rule="" where none did.',
      ['rule', 'outcome', 'source'],
    ),
  )
}

const SOURCES = ['store', 'lease', 'local', 'deny-cache', 'posture'] as const satisfies Source[]
const PLACES = new Map<Source, number>(SOURCES.map((source, place) => [source, place]))

class CountedDecisions implements DecisionMetrics {
  readonly #counter: Counter
  /** The series of a rule, by outcome and source; made at the first count. */
  readonly #rules = new Map<string, (Series | undefined)[]>()
  #source: Source = 'store'
  #place = 0

  constructor(counter: Counter) {
    this.#counter = counter
  }

  count(decision: Decision): void {
    if (decision.source !== this.#source) {
      this.#source = decision.source
      this.#place = PLACES.get(decision.source) ?? 0
    }
    decision.eachRule(this.#visit)
  }

  /** Made once: a function for each decision would be garbage for each decision. */
  readonly #visit = (rule: string, outcome: RuleOutcome): void => {
    const slots = this.#rules.get(rule) ?? this.slotsOf(rule)
    const slot = this.#place * 3 + (outcome === 'allowed' ? 0 : outcome === 'refused' ? 1 : 2)
    const series = slots[slot]
    if (series !== undefined) return series.inc()
    const name = slots === this.#rules.get(rule) ? rule : OTHER
    const made = this.#counter.labels(name, outcome, this.#source)
    slots[slot] = made
    made.inc()
  }

  private slotsOf(rule: string): (Series | undefined)[] {
    const name = this.#rules.size < RULE_NAMES_MAX ? rule : OTHER
    const known = this.#rules.get(name)
    if (known !== undefined) return known
    const made = Array.from<Series | undefined>({ length: SOURCES.length * 3 }).fill(undefined)
    this.#rules.set(name, made)
    return made
  }
}
