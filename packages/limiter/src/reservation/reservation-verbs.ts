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
import { readExtendRequest, readReserveOptions, type ReserveRequest } from './reserve-options.js'
import { type HeldReservation, Reservations, type ReservationsDeps } from './reservations.js'
import type { ReservationFate, ReservationStats } from './reservation-stats.js'
import type {
  ActualCosts,
  ExtendOptions,
  Reservation,
  ReserveOptions,
  Settlement,
} from './reservation-types.js'
import { REFUSED, requireActual, reservedCosts } from './settlement.js'

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
const WRITE_TEXT = Symbol('writes the handle')

/** A reservation object, with what its getter needs. */
interface Holder {
  readonly [WRITE_TEXT]: (() => string) | undefined
}

/** Shared by all reservations, and listed in their JSON. */
const TEXT: PropertyDescriptor & ThisType<Holder> = {
  get() {
    return this[WRITE_TEXT]?.()
  },
  enumerable: true,
  configurable: true,
}

export class ReservationVerbs {
  readonly #deps: ReservationVerbsDeps
  readonly #reservations: Reservations

  constructor(deps: ReservationVerbsDeps) {
    const { store, time, decider } = deps
    this.#deps = deps
    this.#reservations = new Reservations({
      ...deps,
      isStoreHere: store.sync !== undefined,
      take: (groups) => store.take(groups),
      peek: (groups, options) => store.peek(groups, options),
      change: ({ key, limit, amount, at }) =>
        amount < 0
          ? store.give({ key, limit, amount: -amount, at })
          : store.charge({ key, limit, amount, at: time(), debt: limit.debt }),
      onGivenBack: (key) => decider()?.invalidateEverywhere(key),
    })
  }

  async reserve(call: Call, options: ReserveOptions): Promise<Reservation> {
    const request = readReserveOptions(options)
    const decision = await this.decide(() => {
      const planned = this.#deps.plan(call, request)
      return planned.groups === undefined
        ? this.#reservations.withoutCounters(planned, request)
        : this.#reservations.planReserve(planned, request)
    })
    const held = this.#reservations.heldBy(decision)
    if (held !== undefined) this.#reservations.counts.count(held.isRepeated ? 'repeated' : 'made')
    return this.reservationOf(decision, held)
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

  private async extendHeld(
    held: HeldReservation,
    attributes: Attributes,
    options: ExtendOptions = {},
  ): Promise<Reservation> {
    const request = readExtendRequest(attributes, options)
    const decision = await this.decide(() => this.#reservations.planExtend(held, request))
    const extended = this.#reservations.heldBy(decision)
    this.#reservations.counts.count(fateOfExtension(extended))
    return this.reservationOf(decision, extended)
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

  /** The decision as a reservation, with the verbs that end it. */
  private reservationOf(decision: Decision, held: HeldReservation | undefined): Reservation {
    // Decisions that need no counter are shared, and not changed.
    const own = Object.isFrozen(decision) ? { ...decision } : decision
    const ended = async () => REFUSED
    const reservation: Omit<Reservation, 'reservation'> = Object.assign(own, {
      [WRITE_TEXT]: held && (() => this.#reservations.textOf(held)),
      reserved: () => (held === undefined ? {} : reservedCosts(held.handle)),
      holdsPlaces: () => held?.hasPlaces === true,
      settle: held === undefined ? ended : (actual: ActualCosts) => this.settleHeld(held, actual),
      extend: (attributes: Attributes, options?: ExtendOptions) =>
        held === undefined
          ? this.extend('', attributes, options)
          : this.extendHeld(held, attributes, options),
      cancel: held === undefined ? ended : () => this.endHeld(held, undefined),
    })
    return Object.defineProperty(reservation as Reservation, 'reservation', TEXT)
  }

  private async end(reservation: string, actual: ActualCosts | undefined): Promise<Settlement> {
    await this.requireUsable()
    return this.#reservations.end(this.#reservations.read(reservation), actual)
  }

  /** Not an async function: a promise less for each settle. */
  private settleHeld(held: HeldReservation, actual: ActualCosts): Promise<Settlement> {
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

/** Undefined: the extension was refused. */
function fateOfExtension(extended: HeldReservation | undefined): ReservationFate {
  if (extended === undefined) return 'extension-refused'
  return extended.isRepeated ? 'repeated' : 'extended'
}
