/** A reservation as its caller sees it: the decision, the handle, and the verbs that end it. */
import type {
  Attributes,
  BindingCaller,
  CallerVisit,
  Decision,
  Policy,
  PostureName,
  Postures,
  Reason,
  RuleExplanation,
  RuleOutcome,
  ShadowRefusal,
  Source,
} from '@sluice/core'
import type { HeldReservation } from './reservations.js'
import type { ActualCosts, ExtendOptions, Reservation, Settlement } from './reservation-types.js'
import { REFUSED, reservedCosts } from './settlement.js'

/** What the limiter does for a reservation of its own. */
export interface ReservationEnds {
  /** The signed text of a handle. */
  textOf(held: HeldReservation): string
  settleHeld(held: HeldReservation, actual: ActualCosts): Promise<Settlement>
  /** Without `held` it rejects: nothing was reserved. */
  extendHeld(
    held: HeldReservation | undefined,
    attributes: Attributes,
    options?: ExtendOptions,
  ): Promise<Reservation>
  cancelHeld(held: HeldReservation): Promise<Settlement>
}

/**
 * Has the fields of the decision and passes on its methods. A class with a getter, not an object
 * with functions of its own: those would cost more than the decision.
 */
export class ReservationDecision implements Reservation {
  readonly allowed: boolean
  readonly reason: Reason
  readonly rule: string | null
  readonly limitName: string | null
  readonly limit: number | null
  readonly remaining: number | null
  readonly resetAfterMs: number | null
  readonly retryAfterMs: number | null
  readonly delayMs: number
  readonly shadow: readonly string[]
  readonly source: Source
  declare readonly priority?: string
  declare readonly staleMs?: number
  declare readonly explain?: readonly RuleExplanation[]
  declare readonly postures?: Postures
  readonly #decision: Decision
  readonly #held: HeldReservation | undefined
  readonly #ends: ReservationEnds

  /** `held` is undefined if nothing was reserved. */
  constructor(decision: Decision, held: HeldReservation | undefined, ends: ReservationEnds) {
    this.allowed = decision.allowed
    this.reason = decision.reason
    this.rule = decision.rule
    this.limitName = decision.limitName
    this.limit = decision.limit
    this.remaining = decision.remaining
    this.resetAfterMs = decision.resetAfterMs
    this.retryAfterMs = decision.retryAfterMs
    this.delayMs = decision.delayMs
    this.shadow = decision.shadow
    this.source = decision.source
    const { priority, staleMs, explain, postures } = decision
    if (priority !== undefined) this.priority = priority
    if (staleMs !== undefined) this.staleMs = staleMs
    if (explain !== undefined) this.explain = explain
    if (postures !== undefined) this.postures = postures
    this.#decision = decision
    this.#held = held
    this.#ends = ends
  }

  get reservation(): string | undefined {
    return this.#held && this.#ends.textOf(this.#held)
  }

  reserved(): Readonly<Record<string, number>> {
    return this.#held === undefined ? {} : reservedCosts(this.#held.handle)
  }

  holdsPlaces(): boolean {
    return this.#held?.hasPlaces === true
  }

  settle(actual: ActualCosts): Promise<Settlement> {
    if (this.#held === undefined) return Promise.resolve(REFUSED)
    return this.#ends.settleHeld(this.#held, actual)
  }

  extend(attributes: Attributes, options?: ExtendOptions): Promise<Reservation> {
    return this.#ends.extendHeld(this.#held, attributes, options)
  }

  cancel(): Promise<Settlement> {
    if (this.#held === undefined) return Promise.resolve(REFUSED)
    return this.#ends.cancelHeld(this.#held)
  }

  /** The handle is no field of its own: it is written when it is read. */
  toJSON(): object {
    return Object.assign({}, this, { reservation: this.reservation })
  }

  policies(): readonly Policy[] {
    return this.#decision.policies()
  }

  policyField(): string {
    return this.#decision.policyField()
  }

  leftField(jitterMs: number): string {
    return this.#decision.leftField(jitterMs)
  }

  eachRule(visit: (rule: string, outcome: RuleOutcome) => void): void {
    this.#decision.eachRule(visit)
  }

  eachCaller(visit: CallerVisit): void {
    this.#decision.eachCaller(visit)
  }

  bound(): BindingCaller | undefined {
    return this.#decision.bound()
  }

  shadowRefusals(): readonly ShadowRefusal[] {
    return this.#decision.shadowRefusals()
  }

  tags(): readonly string[] {
    return this.#decision.tags()
  }

  degraded(visit: (rule: string, posture: PostureName) => void): void {
    this.#decision.degraded(visit)
  }

  dropped(visit: (rule: string, units: number) => void): void {
    this.#decision.dropped(visit)
  }
}
