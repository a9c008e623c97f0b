/** What is seen of the callers of one rule. */
import type { Hash64, NormalizedCall, RuleOutcome, ShadowRefusal } from '@sluice/core'
import type { HourCallers } from './hours.js'
import { makeName } from './names.js'
import { refusedCallText } from './refused-call.js'
import { RuleTop } from './rule-top.js'
import type { TopPlaces } from './top-places.js'
import type { ZeroCallers } from './zero.js'

const LEFT_UNKNOWN = -1
const NO_ATTRIBUTES: readonly string[] = []
const KEEPS_CALLS = true

/** What the callers of all rules share. */
export interface SharedTables {
  readonly refusalPlaces: TopPlaces
  readonly usePlaces: TopPlaces
  /** Of would-be refusals: apart, so that they take no place from refusals. */
  readonly shadowPlaces: TopPlaces
  readonly zero: ZeroCallers
  readonly hours: HourCallers
}

export interface RuleCallers {
  /**
   * One decision. `cost` is what was taken: 0 where another rule refused the call. `left` is the
   * smallest share left of the rule's limits, -1 where nobody knows, as in shadow or by posture.
   * `resetAfterMs` is the time until the limits with nothing left are whole again.
   */
  seen(
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
  wouldRefuse(refusal: ShadowRefusal, nowMs: number): void
}

/** Of rules beyond those that can be known. */
export const UNTRACKED: RuleCallers = { seen: () => {}, wouldRefuse: () => {} }

export class TrackedRule implements RuleCallers {
  readonly rule: string
  /** What stands for the rule in the tables. */
  readonly number: number
  readonly refusals: RuleTop
  readonly use: RuleTop
  /** What it would have refused in shadow, and what its candidate would have. */
  readonly shadowRefusals: RuleTop
  readonly candidateRefusals: RuleTop
  readonly #zero: ZeroCallers
  readonly #hours: HourCallers
  /** Undefined: nobody was seen, and nothing restored. */
  #by: readonly string[] | undefined

  constructor(rule: string, number: number, shared: SharedTables) {
    this.rule = rule
    this.number = number
    this.refusals = new RuleTop(shared.refusalPlaces, KEEPS_CALLS)
    this.use = new RuleTop(shared.usePlaces)
    this.shadowRefusals = new RuleTop(shared.shadowPlaces, KEEPS_CALLS)
    this.candidateRefusals = new RuleTop(shared.shadowPlaces, KEEPS_CALLS)
    this.#zero = shared.zero
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
  takesBy(by: readonly string[]): boolean {
    this.#by ??= by
    return isSameList(by, this.#by)
  }

  seen(
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
        this.refusals.setName(place, this.nameOf(caller, call))
        this.refusals.setCall(place, refusedCallText(call))
      }
    } else if (outcome === 'allowed' && cost > 0) {
      const place = this.use.add(hi, lo, cost, nowMs)
      if (place !== -1) this.use.setName(place, this.nameOf(caller, call))
    }
    if (left === LEFT_UNKNOWN || outcome === 'shadow_refused') return
    if (left > 0) {
      this.#zero.hadRoom(this.number, hi, lo, nowMs)
      // Refused though something is left: it asked for more than that.
      if (outcome !== 'refused') return
    } else {
      const isRefused = outcome === 'refused'
      const slot = this.#zero.reached(this.number, hi, lo, isRefused, nowMs, resetAfterMs)
      if (slot !== -1) this.describeZero(slot, isRefused, caller, call)
    }
    const slot = this.#hours.reached(this.number, hi, lo, nowMs)
    if (slot !== -1) this.#hours.table.setName(slot, this.nameOf(caller, call))
  }

  private describeZero(
    slot: number,
    isRefused: boolean,
    caller: Hash64,
    call: NormalizedCall,
  ): void {
    this.#zero.table.setName(slot, this.nameOf(caller, call))
    // The same text as in the sketch, where the caller has a place there.
    const refused = isRefused ? (this.refusedCallOf(caller) ?? refusedCallText(call)) : undefined
    if (refused !== undefined) this.#zero.setCall(slot, refused)
  }

  wouldRefuse(refusal: ShadowRefusal, nowMs: number): void {
    const { mode, by, caller, call } = refusal
    if (by !== this.#by) this.countBy(by)
    const top = mode === 'candidate' ? this.candidateRefusals : this.shadowRefusals
    const place = top.add(caller.hi, caller.lo, 1, nowMs)
    if (place === -1) return
    top.setName(place, this.nameOf(caller, call))
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
  knownNameOf({ hi, lo }: Hash64): string | undefined {
    const { shadowRefusals, candidateRefusals, refusals, use, number } = this
    return (
      refusals.nameOf(hi, lo) ??
      use.nameOf(hi, lo) ??
      shadowRefusals.nameOf(hi, lo) ??
      candidateRefusals.nameOf(hi, lo) ??
      this.#hours.table.nameOf(number, hi, lo) ??
      this.#zero.table.nameOf(number, hi, lo)
    )
  }

  /** What is kept was told of others: a rule that counts by something else has other callers. */
  private countBy(by: readonly string[]): void {
    const before = this.#by
    this.#by = by
    if (before === undefined || isSameList(by, before)) return
    this.refusals.clear()
    this.use.clear()
    this.shadowRefusals.clear()
    this.candidateRefusals.clear()
    this.#zero.table.removeRule(this.number)
    this.#hours.table.removeRule(this.number)
  }

  /** The same text wherever the caller is kept; made anew in each period. */
  private nameOf({ hi, lo }: Hash64, call: NormalizedCall): string {
    return (
      this.refusals.presentNameOf(hi, lo) ??
      this.use.presentNameOf(hi, lo) ??
      this.shadowRefusals.presentNameOf(hi, lo) ??
      this.candidateRefusals.presentNameOf(hi, lo) ??
      makeName(this.by, call)
    )
  }
}

function isSameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((name, place) => name === b[place])
}
