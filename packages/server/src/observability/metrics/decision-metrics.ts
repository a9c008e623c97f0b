/** Counts decisions by rule, outcome and source. No label value comes from callers. */
import type { Decision, PostureName, RuleOutcome, Source } from '@sluice/core'
import type { Counter, Registry, Series } from './registry.js'
import type { SheddingMetrics } from './shedding-metrics.js'

export interface DecisionMetrics {
  count(decision: Decision): void
  /** Visits each rule with its counts since the start. */
  eachRule(visit: RuleVisit): void
  /** Counts, since the start, of calls that matched at least one rule. */
  matched(): MatchedTotals
}

interface MatchedTotals {
  readonly decisions: number
  /** Calls for which at least one rule decided by its posture. */
  readonly degraded: number
}

/** `counters` is the same live object each time. */
export type RuleVisit = (
  rule: string,
  decisions: number,
  degraded: number,
  counters: RuleTotals,
) => void

/** Outcomes of a rule, or of `<id>:candidate`, since the start. */
interface RuleTotals {
  readonly decisions: number
  readonly allowed: number
  readonly refused: number
  readonly shadowRefused: number
  readonly degraded: number
}

/**
 * Removed rules keep their series, so that a rate over them does not break off. A set has at most
 * 10,000 rules, each with a candidate; further names share `other`.
 */
const RULE_NAMES_MAX = 20_000
const OTHER = 'other'

export function createDecisionMetrics(
  registry: Registry,
  shedding?: Pick<SheddingMetrics, 'count'>,
): DecisionMetrics {
  return new DecisionCounters(
    registry.counter(
      'sluice_decisions_total',
      'Decisions, once for each rule that matched; rule="" if none did.',
      ['rule', 'outcome', 'source'],
    ),
    registry.counter(
      'sluice_degraded_total',
      'Decisions that a rule made by its posture because the store did not answer.',
      ['rule', 'posture'],
    ),
    registry.counter(
      'sluice_debt_dropped_total',
      'Units of calls that a rule with onRefusal: overdraw could not count: its debt was exhausted.',
      ['rule'],
    ),
    shedding,
  )
}

const SOURCES = ['store', 'lease', 'local', 'deny-cache', 'posture'] as const satisfies Source[]
const PLACES = new Map<Source, number>(SOURCES.map((source, place) => [source, place]))
/** The series of postures follow those of outcomes and sources. */
const POSTURE_PLACES = { open: 0, closed: 1, local: 2 } as const satisfies Record<
  PostureName,
  number
>
const SERIES_MAX = SOURCES.length * 3 + 3

/** The counts and series of one rule. */
interface RuleCounters {
  readonly name: string
  /** By outcome and source, then by posture; each created when first counted. */
  readonly series: (Series | undefined)[]
  decisions: number
  allowed: number
  refused: number
  shadowRefused: number
  degraded: number
  dropped: Series | undefined
}

class DecisionCounters implements DecisionMetrics {
  readonly #counter: Counter
  readonly #degraded: Counter
  readonly #dropped: Counter
  readonly #shedding: Pick<SheddingMetrics, 'count'> | undefined
  readonly #rules = new Map<string, RuleCounters>()
  #source: Source = 'store'
  #place = 0
  readonly #matched = { decisions: 0, degraded: 0 }

  constructor(
    counter: Counter,
    degraded: Counter,
    dropped: Counter,
    shedding: Pick<SheddingMetrics, 'count'> | undefined,
  ) {
    this.#counter = counter
    this.#degraded = degraded
    this.#dropped = dropped
    this.#shedding = shedding
  }

  count(decision: Decision): void {
    if (decision.source !== this.#source) {
      this.#source = decision.source
      this.#place = PLACES.get(decision.source) ?? 0
    }
    if (decision.reason !== 'unmatched') this.#matched.decisions++
    decision.eachRule(this.#visit)
    this.#shedding?.count(decision)
    // What exceeds a debt is refused.
    if (!decision.allowed) decision.dropped(this.#visitDropped)
    if (decision.postures === undefined) return
    this.#matched.degraded++
    decision.degraded(this.#visitDegraded)
  }

  matched(): MatchedTotals {
    return this.#matched
  }

  eachRule(visit: RuleVisit): void {
    for (const counters of this.#rules.values()) {
      visit(counters.name, counters.decisions, counters.degraded, counters)
    }
  }

  /** Created once, so that no decision allocates a closure. */
  readonly #visit = (rule: string, outcome: RuleOutcome): void => {
    const counters = this.#rules.get(rule) ?? this.countersOf(rule)
    counters.decisions++
    const place = outcome === 'allowed' ? 0 : outcome === 'refused' ? 1 : 2
    if (place === 0) counters.allowed++
    else if (place === 1) counters.refused++
    else counters.shadowRefused++
    const slot = this.#place * 3 + place
    const series = counters.series[slot]
    if (series !== undefined) return series.inc()
    const made = this.#counter.labels(counters.name, outcome, this.#source)
    counters.series[slot] = made
    made.inc()
  }

  readonly #visitDegraded = (rule: string, posture: PostureName): void => {
    const counters = this.#rules.get(rule) ?? this.countersOf(rule)
    counters.degraded++
    const slot = SOURCES.length * 3 + POSTURE_PLACES[posture]
    const series = counters.series[slot] ?? this.#degraded.labels(counters.name, posture)
    counters.series[slot] = series
    series.inc()
  }

  readonly #visitDropped = (rule: string, units: number): void => {
    const counters = this.#rules.get(rule) ?? this.countersOf(rule)
    counters.dropped ??= this.#dropped.labels(counters.name)
    counters.dropped.inc(units)
  }

  private countersOf(rule: string): RuleCounters {
    const name = this.#rules.size < RULE_NAMES_MAX ? rule : OTHER
    const known = this.#rules.get(name)
    if (known !== undefined) return known
    const series = Array.from<Series | undefined>({ length: SERIES_MAX }).fill(undefined)
    const made = {
      name,
      series,
      decisions: 0,
      allowed: 0,
      refused: 0,
      shadowRefused: 0,
      degraded: 0,
      dropped: undefined,
    }
    this.#rules.set(name, made)
    return made
  }
}
