/**
 * Who is limited, by which rule, since when: what a node keeps of the callers of its decisions, in
 * bounded memory whatever comes in.
 *
 * At most, with every place taken:
 * - top callers: 128 rules, 3 orders (would-be refusals are one), 2 periods, 64 places: 49,152
 *   entries. A sketch has 768 bytes of keys, 512 of cells, 1,536 of figures, 512 of names, 512 of
 *   calls where refusals are counted, and about 1,000 around them: 768 of them are 3.6 MB.
 * - at zero, and hours: 4,096 callers each, 66 and 50 bytes a slot: 0.5 MB.
 * - names: 57,344 texts. Of 40 characters, as most are, 3.2 MB; all of them as long as they may be
 *   where a rule counts by up to four attributes, 6.7 MB. A caller has one text in all orders.
 * - refused calls: 36,864 texts of at most 97 characters, 16 + 97 bytes each: 4.2 MB. Of 25
 *   characters, as most are, 1.5 MB.
 * - rules: some 300 bytes each: 30 KB for a hundred, 3 MB for the 10,000 that may be known.
 * So about 9 MB for a node whose every table is full, and some 500 KB for one with few rules.
 */
import type { NameProtection } from '../name-protection.js'
import type { CallerSnapshot, ShadowCallerSnapshot } from '../node-snapshot.js'
import {
  type ExhaustedCallerView,
  viewCallers,
  viewExhausted,
  viewShadowCallers,
} from './caller-view.js'
import { HoursAtLimit } from './hours-at-limit.js'
import { parseHash, decodeHours, encodeHours } from './hours-at-limit-codec.js'
import { type ParsedLabel, parseLabel } from './caller-label.js'
import { type RuleCallers, type SharedTables, TrackedRule, UNTRACKED } from './rule-callers.js'
import { SketchSlots } from './sketch-slots.js'
import { ExhaustedCallers } from './exhausted-callers.js'

/** Rules that were seen are kept; callers of rules beyond these are not tracked. */
export const RULES_KNOWN_MAX = 10_000
/** Top callers are of the present period and the one before: of five to ten minutes. */
export const PERIOD_MS = 300_000
/** What is told of callers at zero at a time. */
const EXHAUSTED_MAX = 100

/** What this node knows of a caller beside its hash. */
export interface KnownCaller extends ParsedLabel {
  readonly isEverybody: boolean
  readonly lastRefusedCall: string | null
}

export class CallerTracker {
  readonly #tables: SharedTables
  readonly #rules = new Map<string, TrackedRule>()
  /** By number. */
  readonly #rulesByNumber: TrackedRule[] = []
  #countedFromMs: number
  #period: number

  /** Periods begin at multiples of their length since 1970, so those of all nodes fall together. */
  constructor(nowMs: number) {
    this.#tables = {
      refusalSlots: new SketchSlots(),
      useSlots: new SketchSlots(),
      shadowSlots: new SketchSlots(),
      exhausted: new ExhaustedCallers(),
      hours: new HoursAtLimit(nowMs),
    }
    this.#countedFromMs = nowMs
    this.#period = Math.floor(nowMs / PERIOD_MS)
  }

  /** Since when top callers are counted. */
  get callersSinceMs(): number {
    return Math.max(this.#countedFromMs, (this.#period - 1) * PERIOD_MS)
  }

  /** Callers that are at zero now. */
  get exhaustedCount(): number {
    return this.#tables.exhausted.size
  }

  /** How many callers are held, where: for tests and metrics. */
  get held(): { readonly top: number; readonly exhausted: number; readonly hours: number } {
    let top = 0
    for (const { refusals, use, shadowRefusals, candidateRefusals } of this.#rulesByNumber) {
      top += refusals.size + use.size + shadowRefusals.size + candidateRefusals.size
    }
    return { top, exhausted: this.#tables.exhausted.size, hours: this.#tables.hours.size }
  }

  /** To be kept by whoever sees many decisions. */
  ofRule(rule: string): RuleCallers {
    return this.trackedOf(rule) ?? UNTRACKED
  }

  /** Once a second. */
  tick(nowMs: number): void {
    this.rotate(Math.floor(nowMs / PERIOD_MS), nowMs)
    const { refusalSlots, useSlots, shadowSlots, exhausted, hours } = this.#tables
    refusalSlots.tick()
    useSlots.tick()
    shadowSlots.tick()
    exhausted.tick(nowMs)
    hours.tick(nowMs)
  }

  /** For each rule its first callers by refusals, by use, longest at zero, and by hours. */
  view(limitPerRule: number, nowMs: number): readonly CallerSnapshot[] {
    const { exhausted, hours } = this.#tables
    return viewCallers(this.#rulesByNumber, exhausted, hours, limitPerRule, nowMs)
  }

  /** For each rule the first callers that it, or its candidate, would have refused. */
  shadowView(limitPerRule: number): readonly ShadowCallerSnapshot[] {
    return viewShadowCallers(this.#rulesByNumber, limitPerRule)
  }

  /** Callers that called and were refused for longer than that; the longest first. */
  exhausted(olderThanMs: number): readonly ExhaustedCallerView[] {
    return viewExhausted(this.#rulesByNumber, this.#tables.exhausted, olderThanMs, EXHAUSTED_MAX)
  }

  /** What is known here of a caller by its hash; undefined: nothing that could be shown. */
  nameOf(rule: string, hash: string): KnownCaller | undefined {
    const tracked = this.#rules.get(rule)
    const caller = parseHash(hash)
    if (tracked === undefined || caller === undefined) return undefined
    const name = tracked.knownLabelOf(caller)
    const lastRefusedCall = tracked.refusedCallOf(caller) ?? null
    if (name === undefined && lastRefusedCall === null) return undefined
    const { by, isEverybody } = tracked
    return { ...parseLabel(by, name), isEverybody, lastRefusedCall }
  }

  /** The call that the caller with most refusals of a rule made last; undefined: not known. */
  refusedCallOf(rule: string): string | undefined {
    return this.#rules.get(rule)?.mostRefusedCall()
  }

  /** The hours of all callers, for a restart, with their names as they may be stored. */
  save(names: NameProtection): string {
    return encodeHours(this.#rulesByNumber, this.#tables.hours, names)
  }

  /** Throws where it is not what `save` returned, and changes nothing then. Returns how many. */
  restore(text: string, nowMs: number, names: NameProtection): number {
    const { hours } = this.#tables
    const kept = decodeHours(text, nowMs, names)
    hours.tick(nowMs)
    for (const { rule, by, callers } of kept) {
      const tracked = this.trackedOf(rule)
      // It counts by something else now.
      if (tracked?.acceptsAttributes(by) !== true) continue
      for (const { hi, lo, hours: bits, lastMs, name } of callers) {
        hours.restore(tracked.number, hi, lo, bits, lastMs, name)
      }
    }
    return hours.size
  }

  private trackedOf(rule: string): TrackedRule | undefined {
    const known = this.#rules.get(rule)
    if (known !== undefined || this.#rules.size >= RULES_KNOWN_MAX) return known
    const made = new TrackedRule(rule, this.#rulesByNumber.length, this.#tables)
    this.#rules.set(rule, made)
    this.#rulesByNumber.push(made)
    return made
  }

  private rotate(period: number, nowMs: number): void {
    const elapsed = period - this.#period
    // A clock that was set back by a moment comes here again.
    if (elapsed === 0 || elapsed === -1) return
    this.#period = period
    const { refusalSlots, useSlots, shadowSlots } = this.#tables
    for (const slots of [refusalSlots, useSlots, shadowSlots]) {
      if (elapsed < 0) slots.clear()
      if (elapsed > 0) slots.rotate()
      if (elapsed > 1) slots.rotate()
    }
    if (elapsed < 0) this.#countedFromMs = nowMs
  }
}
