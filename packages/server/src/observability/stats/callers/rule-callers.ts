/** What is seen of the callers of one rule. */
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

/** What the callers of all rules share. */
export interface SharedTables {
  readonly refusalSlots: SketchSlots
  readonly useSlots: SketchSlots
  /** Of would-be refusals: apart, so that they take no place from refusals. */
  readonly shadowSlots: SketchSlots
  readonly exhausted: ExhaustedCallers
  readonly hours: HoursAtLimit
}

export interface RuleCallers {
  /**
   * One decision. `cost` is what was taken: 0 where another rule refused the call. `left` is the
   * smallest share left of the rule's limits, -1 where nobody knows, as in shadow or by posture.
   * `resetAfterMs` is the time until the limits with nothing left are whole again.
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
  /** A call that passed, and that the rule in shadow, or its candidate, would have refused. */
  recordShadowRefusal(refusal: ShadowRefusal, nowMs: number): void
}

/** Of rules beyond those that can be known. */
export const UNTRACKED: RuleCallers = { record: () => {}, recordShadowRefusal: () => {} }

export class TrackedRule implements RuleCallers {
  readonly rule: string
  /** What stands for the rule in the tables. */
  readonly number: number
  readonly refusals: RuleTop
  readonly use: RuleTop
  /** What it would have refused in shadow, and what its candidate would have. */
  readonly shadowRefusals: RuleTop
  readonly candidateRefusals: RuleTop
  readonly #exhausted: ExhaustedCallers
  readonly #hours: HoursAtLimit
  /** Undefined: nobody was seen, and nothing restored. */
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

  /** The attributes that make its callers. */
  get by(): readonly string[] {
    return this.#by ?? NO_ATTRIBUTES
  }

  /** It has one counter for all of its calls. */
  get isEverybody(): boolean {
    return this.#by?.length === 0
  }

  /** Whether what was kept of callers by these attributes can be taken in. */
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
    // Every version of the rules has lists of its own.
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
      // Refused though something is left: it asked for more than that.
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
    // The same text as in the sketch, where the caller has a place there.
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

  /** A call of the caller that was refused lately, as text. */
  refusedCallOf({ hi, lo }: Hash64): string | undefined {
    return this.refusals.callOf(hi, lo)
  }

  /** The same of the caller with most refusals. */
  mostRefusedCall(): string | undefined {
    const [most] = this.refusals.highest(1)
    return most && this.refusedCallOf(most)
  }

  /** In any table; undefined: in none, or without a name. */
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

  /** What is kept was told of others: a rule that counts by something else has other callers. */
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

  /** The same text wherever the caller is kept; made anew in each period. */
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
