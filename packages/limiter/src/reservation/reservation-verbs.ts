/** The verbs of reservations, as the limiter has them: decides, composes and ends them. */
import type {
  Attributes,
  Call,
  Decision,
  DecisionExtras,
  Outcome,
  Plan,
  Snapshot,
  Source,
} from '@sluice/core'
import type { DecideOptions } from '../pending-decision.js'
import type { RemoteDecider } from '../remote-decider.js'
import type { SecretWait } from '../secret-wait.js'
import { isEmpty } from '../store-answer.js'
import type { Groups, PeekOptions, Store } from '../store.js'
import type { ReservePlan } from './reserve-plan.js'
import { ReservationDecision, type ReservationEnds } from './reservation-decision.js'
import { readExtendRequest, readReserveOptions, type ReserveRequest } from './reserve-options.js'
import { type HeldReservation, Reservations, type ReservationsDeps } from './reservations.js'
import type { ReservationStats } from './reservation-stats.js'
import type {
  ActualCosts,
  ExtendOptions,
  Reservation,
  ReserveOptions,
  Settlement,
} from './reservation-types.js'
import { requireActual } from './settlement.js'

/** A decision that needs no counter. */
export type Settled = Decision & { readonly groups?: undefined }

type SharedDeps = Pick<
  ReservationsDeps,
  'snapshot' | 'time' | 'holdPlaces' | 'keepPlaces' | 'scheduler'
>

export interface ReservationVerbsDeps extends SharedDeps {
  readonly store: Store
  /** The takes of a call; its decision if it needs none. */
  readonly plan: (call: Call, request: ReserveRequest) => Plan | Settled
  /** Undefined for a store in this process. */
  readonly decider: () => RemoteDecider | undefined
  readonly secretWait: () => SecretWait | undefined
  /** Throws if the limiter is closed, or has no rules. */
  readonly requireRules: () => void
  /** Rejects if the names of the counters do not become known in time. */
  readonly requireKey: () => Promise<void>
}

const RESERVES: DecideOptions = { purpose: 'reserve' }
const WITH_STATES: PeekOptions = { states: true }

export class ReservationVerbs implements ReservationEnds {
  readonly #deps: ReservationVerbsDeps
  readonly #reservations: Reservations
  /** The decision as a reservation: only one that reserved something is one already. */
  readonly #reservationOf = (decision: Decision): Reservation =>
    decision instanceof ReservationDecision
      ? decision
      : new ReservationDecision(decision, undefined, this)

  constructor(deps: ReservationVerbsDeps) {
    const { store, time, decider } = deps
    this.#deps = deps
    this.#reservations = new Reservations({
      ...deps,
      isStoreHere: store.sync !== undefined,
      take: (groups) => store.sync?.take(groups) ?? store.take(groups),
      peek: (groups, options) => store.peek(groups, options),
      change: ({ key, limit, amount, at }) =>
        amount < 0
          ? store.give({ key, limit, amount: -amount, at })
          : store.charge({ key, limit, amount, at: time(), debt: limit.debt }),
      onGivenBack: (key) => decider()?.invalidateEverywhere(key),
      reservationOf: (decision, held) => new ReservationDecision(decision, held, this),
    })
  }

  /** Not an async function: a promise less for each reserve. */
  reserve(call: Call, options: ReserveOptions): Promise<Reservation> {
    try {
      const request = readReserveOptions(options)
      const decision = this.decide(() => {
        const planned = this.#deps.plan(call, request)
        return planned.groups === undefined
          ? this.#reservations.withoutCounters(planned, request)
          : this.#reservations.planReserve(planned, request)
      })
      return decision instanceof Promise
        ? decision.then(this.#reservationOf)
        : Promise.resolve(this.#reservationOf(decision))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  async extend(
    reservation: string,
    attributes: Attributes,
    options: ExtendOptions = {},
  ): Promise<Reservation> {
    await this.requireUsable()
    return this.extendHeld(this.#reservations.read(reservation), attributes, options)
  }

  async settle(reservation: string, actual: ActualCosts): Promise<Settlement> {
    requireActual(actual)
    return this.end(reservation, actual)
  }

  async cancel(reservation: string): Promise<Settlement> {
    return this.end(reservation, undefined)
  }

  /** Composes the decision of a plan that reserves. */
  compose(
    plan: ReservePlan,
    outcomes: Groups<Outcome>,
    source: Source,
    extras?: DecisionExtras,
  ): Decision {
    return this.#reservations.compose(plan, outcomes, source, extras, (mark) => {
      // Only a store in this process does not say what it refused by.
      const [peeked] = this.#deps.store.sync?.peek([[mark]])[0] ?? []
      return peeked?.state
    })
  }

  get stats(): ReservationStats {
    return this.#reservations.counts
  }

  close(): void {
    this.#reservations.close()
  }

  textOf(held: HeldReservation): string {
    return this.#reservations.textOf(held)
  }

  async extendHeld(
    held: HeldReservation | undefined,
    attributes: Attributes,
    options: ExtendOptions = {},
  ): Promise<Reservation> {
    if (held === undefined) return this.extend('', attributes, options)
    const request = readExtendRequest(attributes, options)
    const plan = () => this.#reservations.planExtend(held, request)
    const decision = await this.decide(plan)
    if (!(decision instanceof ReservationDecision)) {
      this.#reservations.counts.count('extension-refused')
    }
    return this.#reservationOf(decision)
  }

  cancelHeld(held: HeldReservation): Promise<Settlement> {
    return this.endHeld(held, undefined)
  }

  /** Decides a plan that reserves, once the names of its counters are known. */
  private decide(makePlan: () => ReservePlan | Settled): Decision | Promise<Decision> {
    const { sync } = this.#deps.store
    const decider = this.#deps.decider()
    const plan = makePlan()
    if (plan.groups === undefined) return plan
    if (decider === undefined) return this.compose(plan, sync?.take(plan.groups) ?? [], 'store')
    const key = this.#deps.secretWait()
    if (key === undefined || key.isKnown || isEmpty(plan.groups)) {
      return this.decideRemotely(plan, decider)
    }
    return key.isKnownWithin(decider.deadlineOf(plan)).then((isKnown) => {
      if (!isKnown) return decider.decideWithoutStore(plan, RESERVES)
      const named = makePlan()
      return named.groups === undefined ? named : this.decideRemotely(named, decider)
    })
  }

  private decideRemotely(plan: ReservePlan, decider: RemoteDecider): Decision | Promise<Decision> {
    const decision = decider.decide(plan, this.needs(), RESERVES)
    return plan.reserve.once === undefined ? decision : this.askIfMade(plan, decision)
  }

  /**
   * A node refuses by what it counts itself, but only the store knows if the reserve was made
   * before. If it does not say so in time, the refusal stands.
   */
  private async askIfMade(
    plan: ReservePlan,
    deciding: Decision | Promise<Decision>,
  ): Promise<Decision> {
    const decision = await deciding
    const isByNode = decision.source === 'lease' || decision.source === 'local'
    if (decision.allowed || !isByNode) return decision
    const [enforced = []] = plan.groups
    const peeked = await this.#deps.store.peek([enforced], WITH_STATES).catch(() => undefined)
    const isMade = (peeked?.[0]?.[0]?.retryAfterMs ?? 0) !== 0
    return peeked === undefined || !isMade ? decision : this.compose(plan, peeked, 'store')
  }

  /** A promise only while the names of the counters are not known. */
  private requireUsable(): Promise<void> | undefined {
    this.#deps.requireRules()
    const key = this.#deps.secretWait()
    return key === undefined || key.isKnown ? undefined : this.#deps.requireKey()
  }

  private needs(): Snapshot['needs'] {
    return this.#deps.snapshot().needs
  }

  private async end(reservation: string, actual: ActualCosts | undefined): Promise<Settlement> {
    await this.requireUsable()
    return this.#reservations.end(this.#reservations.read(reservation), actual)
  }

  /** Not an async function: a promise less for each settle. */
  settleHeld(held: HeldReservation, actual: ActualCosts): Promise<Settlement> {
    try {
      requireActual(actual)
    } catch (error) {
      return Promise.reject(error)
    }
    return this.endHeld(held, actual)
  }

  /** Without `actual` everything is given back. */
  private endHeld(held: HeldReservation, actual: ActualCosts | undefined): Promise<Settlement> {
    try {
      const waiting = this.requireUsable()
      if (waiting === undefined) return this.#reservations.end(held, actual)
      return waiting.then(() => this.#reservations.end(held, actual))
    } catch (error) {
      return Promise.reject(error)
    }
  }
}
