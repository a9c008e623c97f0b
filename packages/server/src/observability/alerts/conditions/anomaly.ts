/**
 * Rules that refuse far more than they usually do, and rules that meet far more callers than they
 * usually do while they do not: an attack, and one that rotates its addresses.
 */
import type { Finding } from '../alert.js'
import { RULES_MAX } from './recent-counts.js'
import { SAMPLE_MS, Baseline, type BaselineOptions } from './baseline.js'

/** Refusals in ten seconds, and callers in five minutes, below which nobody need look. */
const REFUSALS_LEAST = 10
const CALLERS_LEAST = 100
/** Callers are those of five minutes, which must have passed first. */
const CALLERS_MS = 300_000
/** A look that comes later than this says nothing of ten seconds: the process stood still. */
const LATE_MS = 60_000

interface RuleBaseline {
  readonly usual: Baseline
  refused: number
  isAnomalous: boolean
}

/** When ten seconds have passed, and how long they took. */
export class SampleTimes {
  #lastMs: number | undefined

  /** Undefined: not yet, or not in a way that could be compared. */
  tick(nowMs: number): 'begin' | number | undefined {
    const lastMs = this.#lastMs
    const passedMs = lastMs === undefined ? 0 : nowMs - lastMs
    // Also where the wall clock was set: what lies between is not counted.
    const isLost = lastMs === undefined || passedMs < 0 || passedMs > LATE_MS
    if (!isLost && passedMs < SAMPLE_MS) return undefined
    this.#lastMs = nowMs
    return isLost ? 'begin' : passedMs
  }
}

/** Fed with counts since the start, of each rule whenever ten seconds have passed. */
export class RefusalAnomalies {
  readonly #options: BaselineOptions
  readonly #rules = new Map<string, RuleBaseline>()

  constructor(baselineMs: number) {
    this.#options = { baselineMs, least: REFUSALS_LEAST }
  }

  isAnomalous(rule: string): boolean {
    return this.#rules.get(rule)?.isAnomalous ?? false
  }

  observe(rule: string, counts: { readonly refused: number }, elapsed: SampleElapsed): void {
    const entry = this.#rules.get(rule) ?? this.add(rule)
    if (entry === undefined) return
    if (elapsed !== 'begin') {
      const refused = ((counts.refused - entry.refused) * SAMPLE_MS) / elapsed
      entry.isAnomalous = entry.usual.observe(refused, this.#options)
    }
    entry.refused = counts.refused
  }

  /** `refusedCallOf`: the call of a rule that is refused most, as text, where it is known. */
  findings(
    refusedCallOf: (rule: string) => string | undefined = () => undefined,
  ): readonly Finding[] {
    return [...this.#rules].flatMap(([rule, { usual, isAnomalous }]) => {
      if (!isAnomalous) return []
      const perSecond = tenth(usual.recent / 10)
      const usualPerSecond = tenth(usual.mean / 10)
      const text = (refuses: string) =>
        `Rule "${rule}" ${refuses} ${perSecond} calls a second; about ${usualPerSecond} are usual.`
      const lastRefusedCall = refusedCallOf(rule)
      const details = {
        rule,
        perSecond,
        usualPerSecond,
        ...(lastRefusedCall !== undefined && { lastRefusedCall }),
      }
      return { subject: rule, summary: text('refuses'), past: text('refused'), details }
    })
  }

  /** A rule that is seen later began at 0, as all counts do. */
  private add(rule: string): RuleBaseline | undefined {
    if (this.#rules.size >= RULES_MAX) return undefined
    const made = { usual: new Baseline(), refused: 0, isAnomalous: false }
    this.#rules.set(rule, made)
    return made
  }
}

export class CallerAnomalies {
  readonly #options: BaselineOptions
  /** Looks at which a rule was seen before what it has is learnt. */
  readonly #warmUpSamples: number
  readonly #rules = new Map<
    string,
    { readonly usual: Baseline; samples: number; isAnomalous: boolean }
  >()

  constructor(baselineMs: number) {
    this.#options = { baselineMs, least: CALLERS_LEAST }
    this.#warmUpSamples = Math.min(CALLERS_MS, baselineMs) / SAMPLE_MS
  }

  /** The distinct callers of a rule in the last five minutes, whenever ten seconds have passed. */
  observe(rule: string, callers: number): void {
    const known = this.#rules.get(rule)
    if (known === undefined && this.#rules.size >= RULES_MAX) return
    const entry = known ?? { usual: new Baseline(), samples: 0, isAnomalous: false }
    this.#rules.set(rule, entry)
    entry.samples++
    if (entry.samples <= this.#warmUpSamples) return
    entry.isAnomalous = entry.usual.observe(callers, this.#options)
  }

  /** Where refusals are unusual as well, that alert says it. */
  findings(isRefusing: (rule: string) => boolean): readonly Finding[] {
    return [...this.#rules].flatMap(([rule, { usual, isAnomalous }]) => {
      if (!isAnomalous || isRefusing(rule)) return []
      const callers = Math.round(usual.recent)
      const usually = Math.round(usual.mean)
      const text = (does: string) =>
        `Rule "${rule}" met about ${callers} callers in five minutes; about ${usually} are usual, ` +
        `and it ${does} not refuse more than usual.`
      const details = { rule, callers, usual: usually }
      return { subject: rule, summary: text('does'), past: text('did'), details }
    })
  }
}

/** How long the last ten seconds took; `begin`: nothing can be said of them. */
type SampleElapsed = number | 'begin'

function tenth(value: number): number {
  return Math.round(value * 10) / 10
}
