/**
 * Reservations: an estimate is taken now, and what was really used is settled later, on any node.
 *
 * A reserve is a decision like any other, with a signed handle of what it took. Settling is one
 * take of the store: its first group is a counter that admits one take only, and opens the groups
 * that give back or overdraw. So a second settle changes nothing, and a settle whose answer was
 * lost may be sent again.
 */
import {
  type CompiledLimit,
  type CounterKey,
  type Decision,
  type DecisionExtras,
  handleKey,
  type Limit,
  type Outcome,
  passes,
  type Plan,
  type PlannedTake,
  readHandle,
  type ReservationHandle,
  type ReservedEntry,
  type SipKey,
  SluiceError,
  type Snapshot,
  type Source,
  type Take,
  withDebt,
  writeHandle,
} from '@sluice/core'
import type { HoldOptions } from '../concurrency/in-flight-calls.js'
import type { Scheduler } from '../periodic.js'
import { RandomHashes } from '../random.js'
import { findLimit } from '../refund.js'
import { combineSpread } from '../shed/combine-spread.js'
import type { Answer, Groups, PeekOptions, PeekOutcome } from '../store.js'
import { type MadeMark, readMark, settledTake, unextendedTake } from './once-counters.js'
import { OpenReservations } from './open-reservations.js'
import { ReservationCounts } from './reservation-stats.js'
import {
  planExtend,
  type PlannedReserve,
  planReserve,
  type Reserved,
  reservedOf,
  type ReservePlan,
  UnmarkedReserve,
  withoutMarks,
} from './reserve-plan.js'
import type { ExtendRequest, ReserveRequest } from './reserve-options.js'
import type { ActualCosts, Reservation, Settlement } from './reservation-types.js'
import { joinEntries } from './reserved-entries.js'
import { SettlementPlan, type SettlingTake, unchanged } from './settlement.js'

export interface ReservationsDeps {
  readonly snapshot: () => Snapshot
  /** The best estimate of the store's time, in microseconds. */
  readonly time: () => number
  /** Whether the counters are in this process. */
  readonly isStoreHere: boolean
  readonly take: (groups: Groups<Take>) => Groups<Answer> | Promise<Groups<Answer>>
  readonly peek: (groups: Groups<Take>, options?: PeekOptions) => Promise<Groups<PeekOutcome>>
  /** Sends a change that certainly did not run, once more. */
  readonly change: (take: Take) => Promise<void>
  /**
   * Counts the places of an admitted reserve as in flight. Returns what gives back those that the
   * store did not grant; undefined if it holds none.
   */
  readonly holdPlaces: (
    plan: Plan,
    outcomes: Groups<Outcome>,
    options: HoldOptions,
  ) => (() => void) | undefined
  /** Keeps places that the store granted for so long; returns what ends that. */
  readonly keepPlaces: (entry: ReservedEntry, limit: Limit, ms: number) => () => void
  /** Units were given back to a counter that may have refused calls. */
  readonly onGivenBack: (key: CounterKey) => void
  /** Makes the reservation that its caller gets. */
  readonly reservationOf: (decision: Decision, held: HeldReservation) => Reservation
  readonly scheduler: Scheduler
}

/**
 * A reservation in this process. Its text is written only if somebody asks for it, and its limits
 * need no search while the rules stay the same: both cost more than a decision.
 */
export interface HeldReservation {
  readonly handle: ReservationHandle
  /** The limit of each entry, found in `snapshot`. */
  readonly limits: readonly (CompiledLimit | undefined)[]
  readonly snapshot: Snapshot
  /** Whether this node ends something with it: places that it holds. */
  readonly hasPlaces: boolean
  text: string | undefined
}

/** What a decision reserved: what can be settled anywhere, and what only this node can end. */
interface NewReserve {
  readonly reserved: Reserved
  readonly release: (() => void) | undefined
  readonly isByPosture: boolean
  readonly isRepeated: boolean
}

/** A decision that needs no counter. */
type Uncounted = Decision & { readonly groups?: undefined }

const NOTHING_RESERVED: NewReserve = {
  reserved: { entries: [], limits: [] },
  release: undefined,
  isByPosture: false,
  isRepeated: false,
}

/**
 * A node remembers refusals of a counter only if a call asked for more than was left. Where more
 * than this share was left before the give-back, hardly any call can have, and nobody is told.
 */
const ANNOUNCED_SHARE = 0.5

export class Reservations {
  readonly counts = new ReservationCounts()
  readonly #deps: ReservationsDeps
  readonly #open: OpenReservations
  readonly #ids = new RandomHashes()
  #key: { readonly secret: SipKey; readonly derived: SipKey } | undefined

  constructor(deps: ReservationsDeps) {
    this.#deps = deps
    this.#open = new OpenReservations({
      time: deps.time,
      scheduler: deps.scheduler,
      onExpired: (handle) => this.refundExpired(handle),
    })
  }

  /** The signed text of a handle, for other nodes. */
  textOf(held: HeldReservation): string {
    held.text ??= writeHandle(held.handle, this.key(held.snapshot.secret))
    return held.text
  }

  read(text: string): HeldReservation {
    const snapshot = this.#deps.snapshot()
    const handle = readHandle(text, this.key(snapshot.secret))
    const limits = handle.entries.map((entry) => findLimit(snapshot, entry))
    return { handle, limits, snapshot, hasPlaces: false, text }
  }

  planReserve(plan: Plan, request: ReserveRequest): ReservePlan {
    return planReserve(plan, request, this.#deps.snapshot(), () => this.#ids.next())
  }

  planExtend({ handle }: HeldReservation, request: ExtendRequest): ReservePlan {
    if (handle.isByPosture) throw ended('made while the store did not answer')
    if (this.#deps.time() > handle.expiresAt) throw ended('expired')
    const isRefunded = this.isRefunded(handle.entries)
    return planExtend(handle, request, this.#deps.snapshot(), isRefunded)
  }

  /** The reservation of a call that no counter counts: it can be settled, and changes nothing. */
  withoutCounters(decision: Uncounted, { ttlMs }: ReserveRequest): Uncounted {
    if (!decision.allowed) return decision
    const reserve = new UnmarkedReserve(this.#ids.next(), 0, ttlMs)
    return this.hold(decision, reserve, NOTHING_RESERVED, this.#deps.time())
  }

  /**
   * Composes the decision of a reserve or an extension. One that was made before, under the same
   * idempotency key, is admitted again without a charge.
   */
  compose(
    plan: ReservePlan,
    outcomes: Groups<Exclude<Answer, string>>,
    source: Source,
    extras: DecisionExtras | undefined,
    readMarkState: (mark: PlannedTake) => unknown,
  ): Decision {
    const { marks, once, before } = plan.reserve
    if (marks.length === 0) return this.composeNew(plan, outcomes, source, extras)
    const [first = [], ...others] = outcomes
    const marked = once && first[0]
    const gate = before && first[once === undefined ? 0 : 1]
    if (gate !== undefined && isRefused(gate)) throw ended('settled')
    const rest = [first.slice(marks.length), ...others]
    const unmarked = withoutMarks(plan)
    if (once === undefined || marked === undefined || !isRefused(marked)) {
      return this.composeNew(unmarked, rest, source, extras)
    }
    // A call that is being decided has taken the mark, this one perhaps, and may yet be refused.
    if (marked.held === true) {
      return this.composeNew(unmarked, refusedLike(marked, rest), source, extras)
    }
    const made = readMark(marked.state ?? readMarkState(once))
    // The mark is gone since: the window of an old reservation has just ended.
    if (made === undefined) return this.composeNew(unmarked, rest, source, extras)
    if (made.count !== once.amount) throw differs()
    return this.composeRepeated(unmarked, rest, source, extras, made)
  }

  /** Ends a reservation; without `actual` it is cancelled, and everything is given back. */
  end(held: HeldReservation, actual: ActualCosts | undefined): Promise<Settlement> {
    const { handle } = held
    const snapshot = this.#deps.snapshot()
    const limits =
      held.snapshot === snapshot
        ? held.limits
        : handle.entries.map((entry) => findLimit(snapshot, entry))
    const plan = new SettlementPlan(handle.entries, limits, snapshot, actual)
    if (handle.isByPosture) {
      this.#open.end(handle)
      return Promise.resolve(this.counted(unchanged(handle, 'posture')))
    }
    if (this.#deps.time() > handle.expiresAt) {
      return Promise.resolve(this.counted(unchanged(handle, 'expired')))
    }
    this.#open.release(handle)
    return this.apply(handle, plan, { isExpired: false })
  }

  close(): void {
    this.#open.close()
  }

  private composeNew(
    plan: ReservePlan,
    outcomes: Groups<Outcome>,
    source: Source,
    extras: DecisionExtras | undefined,
  ): Decision {
    const decision = combineSpread(plan, outcomes, source, extras)
    if (!passes(outcomes[0] ?? [])) return decision
    const isByPosture = extras?.postures !== undefined
    const reserved = isByPosture
      ? NOTHING_RESERVED.reserved
      : reservedOf(plan, outcomes, this.#deps.isStoreHere)
    // Nothing of a reservation by posture is settled.
    const release = this.#deps.holdPlaces(plan, outcomes, { isSettled: !isByPosture })
    const made = { reserved, release, isByPosture, isRepeated: false }
    return this.hold(decision, plan.reserve, made, this.#deps.time())
  }

  private composeRepeated(
    plan: ReservePlan,
    outcomes: Groups<Outcome>,
    source: Source,
    extras: DecisionExtras | undefined,
    { start }: MadeMark,
  ): Decision {
    const [enforced = [], ...others] = outcomes
    const admitted = enforced.map((outcome) => ({ ...outcome, retryAfterMs: 0, delayMs: 0 }))
    // What was taken then is known from the amounts, which are the same. Whether a rule in shadow
    // had room is not known: without an outcome it keeps what it counted.
    const [takes = []] = plan.groups
    const taken = [
      takes.map(({ amount, holder = start }) => ({ ...GRANTED, granted: amount, at: holder })),
    ]
    const decision = combineSpread(plan, [admitted, ...others], source, extras)
    const reserved = reservedOf(plan, taken, this.#deps.isStoreHere)
    const made = { ...NOTHING_RESERVED, reserved, isRepeated: true }
    return this.hold(decision, plan.reserve, made, start)
  }

  /** Remembers what a decision reserved, beside what an extended reservation had before. */
  private hold(
    decision: Decision,
    { id, partition, ttlMs, before }: PlannedReserve,
    { reserved, release, isByPosture, isRepeated }: NewReserve,
    now: number,
  ): Reservation {
    const snapshot = this.#deps.snapshot()
    const isExtended = before !== undefined
    const entries = isExtended ? joinEntries(before.entries, reserved.entries) : reserved.entries
    const isRefunded = this.isRefunded(entries)
    // The store does not know of an extension by posture, so it does not delay the refund.
    const isDelayed = !(isExtended && isByPosture && isRefunded)
    const handle: ReservationHandle = {
      id,
      partition,
      expiresAt: isDelayed ? now + ttlMs * 1000 : before.expiresAt,
      ttlMs,
      extensions: isExtended ? before.extensions + (isByPosture ? 0 : 1) : 0,
      isByPosture: isByPosture && !isExtended,
      entries,
    }
    const limits = isExtended
      ? handle.entries.map((entry) => findLimit(snapshot, entry))
      : reserved.limits
    const keep = snapshot.needs.places ? () => this.keepPlaces(handle, limits) : undefined
    const hasPlaces = this.#open.add(handle, { isRefunded, release, keep })
    const fate = isExtended ? 'extended' : 'made'
    this.counts.count(isRepeated ? 'repeated' : fate)
    const held: HeldReservation = { handle, limits, snapshot, hasPlaces, text: undefined }
    return this.#deps.reservationOf(decision, held)
  }

  /** Keeps the places of a reservation that the store granted; returns what ends that. */
  private keepPlaces(
    { entries, ttlMs }: ReservationHandle,
    limits: readonly (CompiledLimit | undefined)[],
  ): (() => void) | undefined {
    const ends: (() => void)[] = []
    entries.forEach((entry, i) => {
      const compiled = limits[i]
      const isHeld = compiled?.isPlaces === true && entry.amount > 0 && !entry.isKept
      if (isHeld) ends.push(this.#deps.keepPlaces(entry, compiled.limit, ttlMs))
    })
    if (ends.length === 0) return undefined
    return () => {
      for (const end of ends) end()
    }
  }

  /** Whether a rule of the reservation gives back what expires. */
  private isRefunded(entries: readonly ReservedEntry[]): boolean {
    for (const entry of entries) if (this.isRefundedEntry(entry)) return true
    return false
  }

  private isRefundedEntry({ rule, amount, windowMs, isKept }: ReservedEntry): boolean {
    if (amount === 0 || isKept) return false
    // Places, which have no window, are free when the reservation ends in any way.
    if (windowMs === 0) return true
    return this.#deps.snapshot().byId.get(rule)?.rule.onExpiry === 'refund'
  }

  /**
   * Changes the counters, unless the reservation has ended before. Not an async function: a promise
   * less for each settle.
   */
  private apply(
    handle: ReservationHandle,
    plan: SettlementPlan,
    { isExpired }: { readonly isExpired: boolean },
  ): Promise<Settlement> {
    // They are refused if it has ended, or was extended.
    const marks = isExpired ? [settledTake(handle), unextendedTake(handle)] : [settledTake(handle)]
    if (handle.entries.length === 0) {
      this.#open.end(handle)
      return Promise.resolve(this.counted(plan.report([], NOTHING_OWED), isExpired))
    }
    try {
      const answers = this.#deps.take(plan.groupsAfter(marks))
      return answers instanceof Promise
        ? answers.then((later) => this.onApplied(handle, plan, later, isExpired))
        : Promise.resolve(this.onApplied(handle, plan, answers, isExpired))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  private onApplied(
    handle: ReservationHandle,
    plan: SettlementPlan,
    answers: Groups<Answer>,
    isExpired: boolean,
  ): Settlement | Promise<Settlement> {
    const { takes } = plan
    const marked = answers[0] ?? []
    if (typeof (marked[0] ?? 'unknown') === 'string') throw unanswered()
    this.#open.end(handle)
    if (marked.some(isRefused)) return this.counted(unchanged(handle, 'already-settled'), isExpired)
    const changes: (Answer | undefined)[] = []
    let isComplete = true
    for (let i = 0; i < takes.length; i++) {
      const answer = answers[i + 1]?.[0]
      changes.push(answer)
      if (typeof answer === 'string' || isOver(answer)) isComplete = false
      this.announce(takes[i], answer)
    }
    if (isComplete) return this.counted(plan.report(changes, NOTHING_OWED), isExpired)
    return this.reportOwed(plan, changes, isExpired)
  }

  /** Reports a settlement of which a part did not run, or exceeds a limit. */
  private async reportOwed(
    plan: SettlementPlan,
    changes: readonly (Answer | undefined)[],
    isExpired: boolean,
  ): Promise<Settlement> {
    const { takes } = plan
    await this.repeatUnsent(takes, changes)
    const owed = await this.owedBy(takes.filter((_, i) => isOver(changes[i])))
    return this.counted(
      plan.report(changes, (take) => owed.get(take) ?? 0),
      isExpired,
    )
  }

  private counted(settlement: Settlement, isExpired = false): Settlement {
    this.counts.countSettlement(settlement, isExpired)
    return settlement
  }

  /** Lets nodes that remember a refusal of a counter know that units came back. */
  private announce(take: SettlingTake | undefined, answer: Answer | undefined): void {
    if (take === undefined || take.amount >= 0) return
    const leftBefore = typeof answer === 'object' ? answer.remaining + take.amount : 0
    if (leftBefore < ANNOUNCED_SHARE * take.limit.capacity) this.#deps.onGivenBack(take.key)
  }

  /** The reservation is settled: a difference that certainly did not run is sent once more. */
  private async repeatUnsent(
    takes: readonly SettlingTake[],
    changes: readonly (Answer | undefined)[],
  ): Promise<void> {
    const unsent = takes.filter((_, i) => changes[i] === 'not-run')
    await Promise.allSettled(unsent.map((take) => this.#deps.change(take)))
  }

  /** How far the limits that were overdrawn are below empty. */
  private async owedBy(takes: readonly SettlingTake[]): Promise<ReadonlyMap<SettlingTake, number>> {
    if (takes.length === 0) return new Map()
    const raised = takes.map(({ key, limit }) => ({ key, limit: withDebt(limit), amount: 0 }))
    const outcomes = await this.#deps.peek([raised]).catch(() => undefined)
    return new Map(
      takes.map((take, i) => {
        const left = outcomes?.[0]?.[i]?.remaining ?? 0
        return [take, Math.max(0, take.limit.debt - left)]
      }),
    )
  }

  /** Gives back places, and what rules with `onExpiry: refund` count; the rest stays charged. */
  private refundExpired(handle: ReservationHandle): void {
    const snapshot = this.#deps.snapshot()
    const entries = handle.entries.filter((entry) => this.isRefundedEntry(entry))
    if (entries.length === 0) return
    const limits = entries.map((entry) => findLimit(snapshot, entry))
    const plan = new SettlementPlan(entries, limits, snapshot, undefined)
    this.apply({ ...handle, entries }, plan, { isExpired: true }).catch(() => {
      // The store does not answer: the reserve stays charged.
    })
  }

  private key(secret: SipKey): SipKey {
    if (this.#key?.secret !== secret) this.#key = { secret, derived: handleKey(secret) }
    return this.#key.derived
  }
}

const GRANTED: Outcome = {
  granted: 0,
  remaining: 0,
  resetAfterMs: 0,
  retryAfterMs: 0,
  delayMs: 0,
  at: 0,
}

const NOTHING_OWED = () => 0

function isRefused(answer: Answer): boolean {
  return typeof answer === 'string' || answer.retryAfterMs !== 0
}

/** The outcomes of a call whose mark was refused: where no limit refuses, the first does. */
function refusedLike(mark: Outcome, [limits = [], ...others]: Groups<Outcome>): Groups<Outcome> {
  const [first, ...rest] = limits
  if (first === undefined || !passes(limits)) return [limits, ...others]
  const { retryAfterMs } = mark
  return [[{ ...first, granted: 0, delayMs: 0, retryAfterMs }, ...rest], ...others]
}

/** Whether an overdraw did not fit within its limit. */
function isOver(answer: Answer | undefined): boolean {
  return typeof answer === 'object' && answer.granted > 0 && answer.retryAfterMs !== 0
}

function ended(how: string): SluiceError {
  return new SluiceError('RESERVATION_ENDED', `reservation: it was ${how} before`)
}

function differs(): SluiceError {
  return new SluiceError(
    'RESERVATION_DIFFERS',
    'idempotencyKey: it was used before, with other costs, limits or ttl',
  )
}

function unanswered(): SluiceError {
  return new SluiceError(
    'STORE_FAILED',
    'The store did not answer: the reservation can be settled again until it expires',
  )
}
