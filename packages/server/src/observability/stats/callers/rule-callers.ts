/** Tracks the callers of one rule. */
import type { Hash64, NormalizedCall, RuleOutcome, ShadowRefusal } from '@sluice/core'
import type { HoursAtLimit } from './hours-at-limit.js'
import { makeLabel } from './caller-label.js'
import { refusedCallText } from './refused-call.js'
import { RuleTop } from './rule-top.js'
import type { SketchSlots } from './sketch-slots.js'
import type { ExhaustedCallers } from './exhausted-callers.js'

const LEFT_UNKNOWN = -1
const NO_ATTRIBUTES: readonly string[] = []
const KEEPS_CALLS = true

/** The tables that all rules share. */
export interface SharedTables {
  readonly refusalSlots: SketchSlots
  readonly useSlots: SketchSlots
  /** For would-be refusals; separate, so that they take no slots from refusals. */
  readonly shadowSlots: SketchSlots
  readonly exhausted: ExhaustedCallers
  readonly hours: HoursAtLimit
}

export interface RuleCallers {
  /**
   * Records one decision. `cost` is what was consumed: 0 if another rule refused the call. `left`
   * is the smallest remaining share of the rule's limits, -1 if unknown, as in shadow mode or by
   * posture. `resetAfterMs` is the time until the exhausted limits have refilled.
   */
  record(
    by: readonly string[],
    caller: Hash64,
    outcome: RuleOutcome,
    left: number,
    cost: number,
    call: NormalizedCall,
    nowMs: number,
    resetAfterMs: number,
  ): void
  /** Records an admitted call that a shadow rule, or a candidate, would have refused. */
  recordShadowRefusal(refusal: ShadowRefusal, nowMs: number): void
}

/** For rules beyond the bound. */
export const UNTRACKED: RuleCallers = { record: () => {}, recordShadowRefusal: () => {} }

export class TrackedRule implements RuleCallers {
  readonly rule: string
  /** The key of the rule in the shared tables. */
  readonly number: number
  readonly refusals: RuleTop
  readonly use: RuleTop
  /** Would-be refusals of the rule in shadow mode, and of its candidate. */
  readonly shadowRefusals: RuleTop
  readonly candidateRefusals: RuleTop
  readonly #exhausted: ExhaustedCallers
  readonly #hours: HoursAtLimit
  /** Undefined before the first decision or restore. */
  #by: readonly string[] | undefined

  constructor(rule: string, number: number, shared: SharedTables) {
    this.rule = rule
    this.number = number
    this.refusals = new RuleTop(shared.refusalSlots, KEEPS_CALLS)
    this.use = new RuleTop(shared.useSlots)
    this.shadowRefusals = new RuleTop(shared.shadowSlots, KEEPS_CALLS)
    this.candidateRefusals = new RuleTop(shared.shadowSlots, KEEPS_CALLS)
    this.#exhausted = shared.exhausted
    this.#hours = shared.hours
  }

  /** The attributes that identify its callers. */
  get by(): readonly string[] {
    return this.#by ?? NO_ATTRIBUTES
  }

  /** Whether the rule has one counter for all of its calls. */
  get isEverybody(): boolean {
    return this.#by?.length === 0
  }

  /** Whether stored callers, identified by these attributes, belong to this rule. */
  acceptsAttributes(by: readonly string[]): boolean {
    this.#by ??= by
    return isSameList(by, this.#by)
  }

  record(
    by: readonly string[],
    caller: Hash64,
    outcome: RuleOutcome,
    left: number,
    cost: number,
    call: NormalizedCall,
    nowMs: number,
    resetAfterMs: number,
  ): void {
    const { hi, lo } = caller
    // The list is a new object in every version of the rules.
    if (by !== this.#by) this.countBy(by)
    if (outcome === 'refused') {
      const place = this.refusals.add(hi, lo, 1, nowMs)
      if (place !== -1) {
        this.refusals.setLabel(place, this.labelOf(caller, call))
        this.refusals.setCall(place, refusedCallText(call))
      }
    } else if (outcome === 'allowed' && cost > 0) {
      const place = this.use.add(hi, lo, cost, nowMs)
      if (place !== -1) this.use.setLabel(place, this.labelOf(caller, call))
    }
    if (left === LEFT_UNKNOWN || outcome === 'shadow_refused') return
    if (left > 0) {
      this.#exhausted.recordRemaining(this.number, hi, lo, nowMs)
      // Refused although budget is left: the cost exceeded it.
      if (outcome !== 'refused') return
    } else {
      const isRefused = outcome === 'refused'
      const slot = this.#exhausted.recordExhausted(
        this.number,
        hi,
        lo,
        isRefused,
        nowMs,
        resetAfterMs,
      )
      if (slot !== -1) this.describeExhausted(slot, isRefused, caller, call)
    }
    const slot = this.#hours.record(this.number, hi, lo, nowMs)
    if (slot !== -1) this.#hours.table.setLabel(slot, this.labelOf(caller, call))
  }

  private describeExhausted(
    slot: number,
    isRefused: boolean,
    caller: Hash64,
    call: NormalizedCall,
  ): void {
    this.#exhausted.table.setLabel(slot, this.labelOf(caller, call))
    // Reuses the text of the sketch, if the caller is in it.
    const refused = isRefused ? (this.refusedCallOf(caller) ?? refusedCallText(call)) : undefined
    if (refused !== undefined) this.#exhausted.setCall(slot, refused)
  }

  recordShadowRefusal(refusal: ShadowRefusal, nowMs: number): void {
    const { mode, by, caller, call } = refusal
    if (by !== this.#by) this.countBy(by)
    const top = mode === 'candidate' ? this.candidateRefusals : this.shadowRefusals
    const place = top.add(caller.hi, caller.lo, 1, nowMs)
    if (place === -1) return
    top.setLabel(place, this.labelOf(caller, call))
    top.setCall(place, refusedCallText(call))
  }

  /** A recently refused call of the caller, as text. */
  refusedCallOf({ hi, lo }: Hash64): string | undefined {
    return this.refusals.callOf(hi, lo)
  }

  /** A recently refused call of the caller with most refusals. */
  mostRefusedCall(): string | undefined {
    const [most] = this.refusals.highest(1)
    return most && this.refusedCallOf(most)
  }

  /** The label in any table; undefined if there is none. */
  knownLabelOf({ hi, lo }: Hash64): string | undefined {
    const { shadowRefusals, candidateRefusals, refusals, use, number } = this
    return (
      refusals.labelOf(hi, lo) ??
      use.labelOf(hi, lo) ??
      shadowRefusals.labelOf(hi, lo) ??
      candidateRefusals.labelOf(hi, lo) ??
      this.#hours.table.labelOf(number, hi, lo) ??
      this.#exhausted.table.labelOf(number, hi, lo)
    )
  }

  /** Drops all callers when `by` changes, because hashes then identify other callers. */
  private countBy(by: readonly string[]): void {
    const previous = this.#by
    this.#by = by
    if (previous === undefined || isSameList(by, previous)) return
    this.refusals.clear()
    this.use.clear()
    this.shadowRefusals.clear()
    this.candidateRefusals.clear()
    this.#exhausted.table.removeRule(this.number)
    this.#hours.table.removeRule(this.number)
  }

  /** Returns the label of the current period from any sketch, or makes it. */
  private labelOf({ hi, lo }: Hash64, call: NormalizedCall): string {
    return (
      this.refusals.presentLabelOf(hi, lo) ??
      this.use.presentLabelOf(hi, lo) ??
      this.shadowRefusals.presentLabelOf(hi, lo) ??
      this.candidateRefusals.presentLabelOf(hi, lo) ??
      makeLabel(this.by, call)
    )
  }
}

function isSameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((name, place) => name === b[place])
}
