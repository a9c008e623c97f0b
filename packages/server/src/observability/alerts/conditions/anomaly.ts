/**
 * Finds rules that refuse far more calls than their baseline, as in an attack, and rules that have
 * far more callers than their baseline without refusing more, as in an attack that rotates
 * addresses.
 */
import type { Finding } from '../alert.js'
import { RULES_MAX } from './recent-counts.js'
import { SAMPLE_MS, Baseline, type BaselineOptions } from './baseline.js'

/** Fewer refusals in ten seconds, or callers in five minutes, are never an anomaly. */
const REFUSALS_LEAST = 10
const CALLERS_LEAST = 100
/** The period over which distinct callers are counted; it must pass before the first sample. */
const CALLERS_MS = 300_000
/** A sample later than this is discarded, because the process was suspended. */
const LATE_MS = 60_000

interface RuleBaseline {
  readonly baseline: Baseline
  refused: number
  isAnomalous: boolean
}

/** Decides when a sample is due, and measures the time since the last one. */
export class SampleTimes {
  #lastMs: number | undefined

  /** Returns undefined if no sample is due, `begin` if only the counts are to be remembered. */
  tick(nowMs: number): 'begin' | number | undefined {
    const lastMs = this.#lastMs
    const passedMs = lastMs === undefined ? 0 : nowMs - lastMs
    // A wall clock that was set makes the interval unusable, too.
    const isLost = lastMs === undefined || passedMs < 0 || passedMs > LATE_MS
    if (!isLost && passedMs < SAMPLE_MS) return undefined
    this.#lastMs = nowMs
    return isLost ? 'begin' : passedMs
  }
}

/** Compares the refusals of each rule with its baseline, one sample every ten seconds. */
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
      entry.isAnomalous = entry.baseline.observe(refused, this.#options)
    }
    entry.refused = counts.refused
  }

  /** `refusedCallOf` returns the last refused call, as text, of the caller refused most. */
  findings(
    refusedCallOf: (rule: string) => string | undefined = () => undefined,
  ): readonly Finding[] {
    return [...this.#rules].flatMap(([rule, { baseline, isAnomalous }]) => {
      if (!isAnomalous) return []
      const perSecond = tenth(baseline.recent / 10)
      const usualPerSecond = tenth(baseline.mean / 10)
      const text = (refuses: string) =>
        `Rule "${rule}" ${refuses} ${perSecond} calls per second; about ${usualPerSecond} are usual.`
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

  /** Counts of a rule that appears later start at 0. */
  private add(rule: string): RuleBaseline | undefined {
    if (this.#rules.size >= RULES_MAX) return undefined
    const made = { baseline: new Baseline(), refused: 0, isAnomalous: false }
    this.#rules.set(rule, made)
    return made
  }
}

export class CallerAnomalies {
  readonly #options: BaselineOptions
  /** Samples of a rule to skip before it has five minutes of callers. */
  readonly #warmUpSamples: number
  readonly #rules = new Map<
    string,
    { readonly baseline: Baseline; samples: number; isAnomalous: boolean }
  >()

  constructor(baselineMs: number) {
    this.#options = { baselineMs, least: CALLERS_LEAST }
    this.#warmUpSamples = Math.min(CALLERS_MS, baselineMs) / SAMPLE_MS
  }

  /** Takes the distinct callers of a rule in the last five minutes, every ten seconds. */
  observe(rule: string, callers: number): void {
    const known = this.#rules.get(rule)
    if (known === undefined && this.#rules.size >= RULES_MAX) return
    const entry = known ?? { baseline: new Baseline(), samples: 0, isAnomalous: false }
    this.#rules.set(rule, entry)
    entry.samples++
    if (entry.samples <= this.#warmUpSamples) return
    entry.isAnomalous = entry.baseline.observe(callers, this.#options)
  }

  /** Leaves out rules whose refusals are anomalous: that alert covers them. */
  findings(isRefusing: (rule: string) => boolean): readonly Finding[] {
    return [...this.#rules].flatMap(([rule, { baseline, isAnomalous }]) => {
      if (!isAnomalous || isRefusing(rule)) return []
      const callers = Math.round(baseline.recent)
      const usual = Math.round(baseline.mean)
      const text = (does: string) =>
        `Rule "${rule}" had about ${callers} callers in five minutes; about ${usual} are usual, ` +
        `and it ${does} not refuse more than usual.`
      const details = { rule, callers, usual }
      return { subject: rule, summary: text('does'), past: text('did'), details }
    })
  }
}

/** The time since the last sample; `begin` if there is none to compare with. */
type SampleElapsed = number | 'begin'

function tenth(value: number): number {
  return Math.round(value * 10) / 10
}
