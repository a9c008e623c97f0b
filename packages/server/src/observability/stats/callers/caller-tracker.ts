/**
 * Tracks the callers of a node's decisions: who is limited, by which rule, since when. Memory is
 * bounded whatever the traffic.
 *
 * The maximum, with every slot in use:
 * - top callers: 128 rules, 3 orders (would-be refusals are one), 2 periods, 64 slots: 49,152
 *   entries. A sketch has 768 bytes of keys, 512 of cells, 1,536 of figures, 512 of labels, 512 of
 *   calls where refusals are counted, and about 1,000 of overhead: 768 of them are 3.6 MB.
 * - exhausted callers, and hours: 4,096 callers each, 66 and 50 bytes a slot: 0.5 MB.
 * - labels: 57,344 texts. With the typical 40 characters 3.2 MB; at the maximum length for rules
 *   with up to four attributes 6.7 MB. A caller has one text in all orders.
 * - refused calls: 36,864 texts of at most 97 characters, 16 + 97 bytes each: 4.2 MB. With the
 *   typical 25 characters 1.5 MB.
 * - rules: about 300 bytes each: 30 KB for a hundred, 3 MB for the maximum of 10,000.
 * In total about 9 MB for a node whose tables are full, and 500 KB for one with few rules.
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

/** Known rules are kept; callers of further rules are not tracked. */
export const RULES_KNOWN_MAX = 10_000
/** Top callers cover the current and the previous period: five to ten minutes. */
export const PERIOD_MS = 300_000
/** Exhausted callers reported at a time. */
const EXHAUSTED_MAX = 100

/** What this node knows of a caller besides its hash. */
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

  /** Periods begin at multiples of their length since 1970, so those of all nodes coincide. */
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

  /** The start of the period over which top callers are counted. */
  get callersSinceMs(): number {
    return Math.max(this.#countedFromMs, (this.#period - 1) * PERIOD_MS)
  }

  /** Callers that are currently exhausted. */
  get exhaustedCount(): number {
    return this.#tables.exhausted.size
  }

  /** The number of tracked callers in each table. */
  get held(): { readonly top: number; readonly exhausted: number; readonly hours: number } {
    let top = 0
    for (const { refusals, use, shadowRefusals, candidateRefusals } of this.#rulesByNumber) {
      top += refusals.size + use.size + shadowRefusals.size + candidateRefusals.size
    }
    return { top, exhausted: this.#tables.exhausted.size, hours: this.#tables.hours.size }
  }

  /** Always returns the same object for a rule; callers keep it. */
  ofRule(rule: string): RuleCallers {
    return this.trackedOf(rule) ?? UNTRACKED
  }

  /** Called once a second. */
  tick(nowMs: number): void {
    this.rotate(Math.floor(nowMs / PERIOD_MS), nowMs)
    const { refusalSlots, useSlots, shadowSlots, exhausted, hours } = this.#tables
    refusalSlots.tick()
    useSlots.tick()
    shadowSlots.tick()
    exhausted.tick(nowMs)
    hours.tick(nowMs)
  }

  /** The top callers of each rule by refusals, by use, longest exhausted, and by hours. */
  view(limitPerRule: number, nowMs: number): readonly CallerSnapshot[] {
    const { exhausted, hours } = this.#tables
    return viewCallers(this.#rulesByNumber, exhausted, hours, limitPerRule, nowMs)
  }

  /** The top callers of each rule that it, in shadow mode, or its candidate would have refused. */
  shadowView(limitPerRule: number): readonly ShadowCallerSnapshot[] {
    return viewShadowCallers(this.#rulesByNumber, limitPerRule)
  }

  /** Callers that were exhausted and refused for longer than `olderThanMs`; the longest first. */
  exhausted(olderThanMs: number): readonly ExhaustedCallerView[] {
    return viewExhausted(this.#rulesByNumber, this.#tables.exhausted, olderThanMs, EXHAUSTED_MAX)
  }

  /** What this node knows of the caller with a hash; undefined if nothing can be shown. */
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

  /** The last refused call of the caller with most refusals of a rule; undefined if unknown. */
  refusedCallOf(rule: string): string | undefined {
    return this.#rules.get(rule)?.mostRefusedCall()
  }

  /** Encodes the hours of all callers for a restart. */
  save(names: NameProtection): string {
    return encodeHours(this.#rulesByNumber, this.#tables.hours, names)
  }

  /** Returns how many callers it restored. Throws on invalid text, and then changes nothing. */
  restore(text: string, nowMs: number, names: NameProtection): number {
    const { hours } = this.#tables
    const kept = decodeHours(text, nowMs, names)
    hours.tick(nowMs)
    for (const { rule, by, callers } of kept) {
      const tracked = this.trackedOf(rule)
      // The rule has another `by` now.
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
    // A clock set back slightly will reach this period again.
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
