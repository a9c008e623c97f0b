/**
 * Rules that refuse far more than they usually do, and rules that meet far more callers than they
 * usually do while they do not: an attack, and one that rotates its addresses.
 */
import type { Finding } from '../alert.js'
import { RULES_MAX } from './recent-counts.js'
import { SAMPLE_MS, Usual, type UsualOptions } from './usual.js'

/** Refusals in ten seconds, and callers in five minutes, below which nobody need look. */
const REFUSALS_LEAST = 10
const CALLERS_LEAST = 100
/** Callers are those of five minutes, which must have passed first. */
const CALLERS_MS = 300_000
/** A look that comes later than this says nothing of ten seconds: the process stood still. */
const LATE_MS = 60_000

interface Watched {
  readonly usual: Usual
  refused: number
  isUnusual: boolean
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
export class RefusalsUnusual {
  readonly #options: UsualOptions
  readonly #rules = new Map<string, Watched>()

  constructor(usualMs: number) {
    this.#options = { usualMs, least: REFUSALS_LEAST }
  }

  isUnusual(rule: string): boolean {
    return this.#rules.get(rule)?.isUnusual ?? false
  }

  saw(rule: string, counts: { readonly refused: number }, took: Took): void {
    const watched = this.#rules.get(rule) ?? this.add(rule)
    if (watched === undefined) return
    if (took !== 'begin') {
      const refused = ((counts.refused - watched.refused) * SAMPLE_MS) / took
      watched.isUnusual = watched.usual.saw(refused, this.#options)
    }
    watched.refused = counts.refused
  }

  /** `refusedCallOf`: the call of a rule that is refused most, as text, where it is known. */
  findings(
    refusedCallOf: (rule: string) => string | undefined = () => undefined,
  ): readonly Finding[] {
    return [...this.#rules].flatMap(([rule, { usual, isUnusual }]) => {
      if (!isUnusual) return []
      const perSecond = tenth(usual.recent / 10)
      const usualPerSecond = tenth(usual.mean / 10)
      const said = (refuses: string) =>
        `Rule "${rule}" ${refuses} ${perSecond} calls a second; about ${usualPerSecond} are usual.`
      const lastRefusedCall = refusedCallOf(rule)
      const details = {
        rule,
        perSecond,
        usualPerSecond,
        ...(lastRefusedCall !== undefined && { lastRefusedCall }),
      }
      return { subject: rule, summary: said('refuses'), past: said('refused'), details }
    })
  }

  /** A rule that is seen later began at 0, as all counts do. */
  private add(rule: string): Watched | undefined {
    if (this.#rules.size >= RULES_MAX) return undefined
    const made = { usual: new Usual(), refused: 0, isUnusual: false }
    this.#rules.set(rule, made)
    return made
  }
}

export class CallersUnusual {
  readonly #options: UsualOptions
  /** Looks at which a rule was seen before what it has is learnt. */
  readonly #settling: number
  readonly #rules = new Map<string, { readonly usual: Usual; looks: number; isUnusual: boolean }>()

  constructor(usualMs: number) {
    this.#options = { usualMs, least: CALLERS_LEAST }
    this.#settling = Math.min(CALLERS_MS, usualMs) / SAMPLE_MS
  }

  /** The distinct callers of a rule in the last five minutes, whenever ten seconds have passed. */
  saw(rule: string, callers: number): void {
    const known = this.#rules.get(rule)
    if (known === undefined && this.#rules.size >= RULES_MAX) return
    const watched = known ?? { usual: new Usual(), looks: 0, isUnusual: false }
    this.#rules.set(rule, watched)
    watched.looks++
    if (watched.looks <= this.#settling) return
    watched.isUnusual = watched.usual.saw(callers, this.#options)
  }

  /** Where refusals are unusual as well, that alert says it. */
  findings(isRefusing: (rule: string) => boolean): readonly Finding[] {
    return [...this.#rules].flatMap(([rule, { usual, isUnusual }]) => {
      if (!isUnusual || isRefusing(rule)) return []
      const callers = Math.round(usual.recent)
      const usually = Math.round(usual.mean)
      const said = (does: string) =>
        `Rule "${rule}" met about ${callers} callers in five minutes; about ${usually} are usual, ` +
        `and it ${does} not refuse more than usual.`
      const details = { rule, callers, usual: usually }
      return { subject: rule, summary: said('does'), past: said('did'), details }
    })
  }
}

/** How long the last ten seconds took; `begin`: nothing can be said of them. */
type Took = number | 'begin'

function tenth(value: number): number {
  return Math.round(value * 10) / 10
}
