/**
 * Records what became of reservations: the handles that clients got, what they asked for, and what
 * the store did in the name of each.
 */
import {
  extendedKey,
  handleKey,
  isConcurrency,
  madeKey,
  type MatchedRule,
  readHandle,
  reservationId,
  settledKey,
  type ReservationHandle,
  type ReservedEntry,
  sipKey,
  type Snapshot,
  type Take,
} from '@sluice/core'
import type { Give, Groups, Reservation, Settlement } from '@sluice/limiter'
import type { CallRecord, DecisionRecord } from './call-log.js'
import { SECRET } from './rule-timeline.js'
import type { Costs, ReserveStep } from './scenario.js'
import { nameOf } from './sim-counter.js'
import type { Execution } from './sim-server.js'

export interface SimReservation {
  readonly number: number
  readonly user: string
  /** Undefined if it is not repeated. */
  readonly idempotencyKey: string | undefined
  /** In the order in which clients got them. */
  readonly handles: KnownHandle[]
  /** Requests to end it, whatever came of them. */
  readonly requests: EndRequest[]
  /** What the store did when it was ended. */
  readonly ends: StoreEnd[]
  /** What the store did when it was made, under its idempotency key. */
  readonly made: StoreMade[]
  /** Reserves that nodes refused. */
  readonly refused: CallRecord[]
}

/** The store made a reservation under its idempotency key. */
interface StoreMade {
  readonly execution: Execution
  /** Whether its node admitted it by that. */
  isDecided: boolean
  /** Whether its mark, or units of it, were given back because its node had refused it. */
  isUnmarked: boolean
  isReturned: boolean
}

/** A handle that a client got. */
export interface KnownHandle {
  readonly text: string
  readonly handle: ReservationHandle
  readonly decided: DecisionRecord
  /** The reservation in the process that made it. */
  readonly held: Reservation
  /** The handle that was extended. */
  readonly before: KnownHandle | undefined
}

/** A client asks a node to settle or cancel. */
export interface EndRequest {
  readonly node: string
  readonly verb: 'settle' | 'cancel'
  readonly known: KnownHandle
  /** What each counter must be charged more, or less if below 0; by its name. */
  readonly changes: ReadonlyMap<string, number>
  /** Whether the store has told its node the time. */
  readonly isClockKnown: boolean
}

/** The store executed a request to end a reservation, or a change that belongs to none. */
export interface StoreEnd {
  readonly reservation: SimReservation | undefined
  readonly execution: Execution
  /** Whether its mark was free: then it ends the reservation. */
  readonly isMarked: boolean
  readonly changes: readonly EndChange[]
  /** Whether a failover has lost it. */
  isUndone: boolean
}

export interface EndChange {
  readonly take: Take
  readonly granted: number
}

/** A reserve or an extension was decided. */
export interface ReserveRecord {
  readonly reservation: SimReservation
  readonly decided: DecisionRecord
  /** Undefined if it was refused. */
  readonly known: KnownHandle | undefined
  /** Of an extension. */
  readonly before: KnownHandle | undefined
  /** Whether it was made before, under its idempotency key. */
  readonly isRepeated: boolean
}

/** A node answered a request to end a reservation. */
export interface SettlementRecord {
  readonly reservation: SimReservation
  readonly request: EndRequest
  readonly settlement: Settlement
  readonly storeUs: number
}

export class ReservationTruth {
  readonly all: SimReservation[] = []
  readonly #key = handleKey(sipKey(SECRET))
  /** By the names of its marks. */
  readonly #byMade = new Map<string, SimReservation>()
  readonly #bySettled = new Map<string, SimReservation>()
  readonly #byExtended = new Map<string, SimReservation>()
  /** What the last operation of the store ended. */
  lastEnd: StoreEnd | undefined

  add(user: string, isRepeated: boolean): SimReservation {
    const number = this.all.length
    const idempotencyKey = isRepeated ? `request ${number}` : undefined
    const lists = { handles: [], requests: [], ends: [], made: [], refused: [] }
    const reservation = { number, user, idempotencyKey, ...lists }
    this.all.push(reservation)
    return reservation
  }

  /** Learns the mark of a reserve that may be repeated, before it is sent. */
  recordAttempt(
    reservation: SimReservation,
    matched: readonly MatchedRule[],
    groups: Groups<Take>,
  ): void {
    const [first] = groups.flat()
    if (reservation.idempotencyKey === undefined || first === undefined) return
    const callers = matched.map(({ caller }) => caller)
    const id = reservationId(sipKey(SECRET), callers, reservation.idempotencyKey)
    const made = madeKey(id, first.key.partition)
    this.#byMade.set(nameOf(made), reservation)
  }

  /** Whether a node that admits a reserve now was told that it was made before. */
  isRepeat({ idempotencyKey, made }: SimReservation, { node, startedUs }: CallRecord): boolean {
    if (idempotencyKey === undefined) return false
    const own = made.find(({ execution: { request }, isDecided }) => {
      return !isDecided && request.node === node && request.sentUs === startedUs
    })
    if (own !== undefined) own.isDecided = true
    return own === undefined
  }

  recordHandle(
    reservation: SimReservation,
    decided: DecisionRecord,
    held: Reservation,
    before: KnownHandle | undefined,
  ): KnownHandle | undefined {
    const text = held.reservation
    if (text === undefined) return undefined
    const handle = readHandle(text, this.#key)
    const known = { text, handle, decided, held, before }
    reservation.handles.push(known)
    const settled = settledKey(handle.id, handle.partition)
    this.#bySettled.set(nameOf(settled), reservation)
    const extended = extendedKey(handle.id, handle.partition, handle.extensions)
    this.#byExtended.set(nameOf(extended), reservation)
    return known
  }

  recordExecution(execution: Execution): void {
    this.lastEnd = undefined
    const { request, reply } = execution
    const { operation } = request
    if (operation.verb === 'give' && !reply.late) this.recordGive(operation.give, request.node)
    if (operation.verb !== 'take' || reply.late) return
    const { groups } = operation
    const answers = reply.answers ?? []
    const [first] = groups[0] ?? []
    const [answer] = answers[0] ?? []
    const isFree = typeof answer === 'object' && answer.granted > 0
    const made = first && this.#byMade.get(nameOf(first.key))
    if (made !== undefined && isFree) {
      made.made.push({ execution, isDecided: false, isUnmarked: false, isReturned: false })
    }
    const reservation = first?.amount === 1 ? this.#bySettled.get(nameOf(first.key)) : undefined
    const taken = reservation === undefined ? groups : groups.slice(1)
    if (reservation === undefined && !taken.flat().some(isEndTake)) return
    const changes = grantedBy(execution).filter(({ take }) =>
      taken.some((row) => row.includes(take)),
    )
    const isMarked = reservation !== undefined && isFree
    this.lastEnd = { reservation, execution, isMarked, changes, isUndone: false }
    reservation?.ends.push(this.lastEnd)
  }

  /** A node gives back what the store had made after the node had refused it. */
  private recordGive({ key, limit, at, undone }: Give, node: string): void {
    // Places have no time by which it is known whose they were.
    if (undone !== true || isConcurrency(limit)) return
    for (const { made, refused } of this.all) {
      for (const each of made) {
        const { request, reply } = each.execution
        if (!refused.some(({ startedUs }) => startedUs === request.sentUs)) continue
        const taken = request.operation.verb === 'take' ? request.operation.groups.flat() : []
        const place = taken.findIndex((take) => nameOf(take.key) === nameOf(key))
        const answer = reply.answers?.flat()[place]
        if (request.node !== node || typeof answer !== 'object' || answer.at !== at) continue
        if (place === 0) each.isUnmarked = true
        else each.isReturned = true
      }
    }
  }

  /** A replica took over that lacks the last operations. */
  recordUndone(executions: readonly Execution[]): void {
    const undone = new Set(executions)
    for (const reservation of this.all) {
      for (const end of reservation.ends) if (undone.has(end.execution)) end.isUndone = true
    }
  }

  /** Units of a counter that a node took for reservations, refused, and did not give back. */
  markedUnits(node: string, counter: string): number {
    let units = 0
    for (const { made } of this.all) {
      for (const { execution, isDecided, isReturned } of made) {
        if (execution.request.node !== node || isDecided || isReturned) continue
        for (const { take, granted } of grantedBy(execution)) {
          if (nameOf(take.key) === counter) units += granted
        }
      }
    }
    return units
  }

  /** The name of a mark in the log. */
  labelOf(name: string): string | undefined {
    const made = this.#byMade.get(name)
    if (made !== undefined) return `the mark that reservation ${made.number} was made`
    const settled = this.#bySettled.get(name)
    if (settled !== undefined) return `the mark that reservation ${settled.number} was settled`
    const extended = this.#byExtended.get(name)
    return extended && `the mark that reservation ${extended.number} was extended`
  }
}

/** Whether it ends a reservation: it gives back, or overdraws and was not planned for a call. */
export function isEndTake(take: Take): boolean {
  return take.amount < 0 || (take.overdraw === true && !('compiled' in take))
}

/** The takes of an operation, with what each was granted. */
function grantedBy({ request: { operation }, reply }: Execution): readonly EndChange[] {
  if (operation.verb !== 'take') return []
  return operation.groups.flatMap((takes, g) =>
    takes.flatMap((take, i) => {
      const answer = reply.answers?.[g]?.[i]
      return typeof answer === 'object' ? { take, granted: answer.granted } : []
    }),
  )
}

/** The end of a reservation, as far as the store knows it now. */
export function endOf({ ends }: SimReservation): StoreEnd | undefined {
  return ends.find(({ isMarked, isUndone }) => isMarked && !isUndone)
}

/** The requests of clients that the store may have executed: of the same node, and alike. */
export function requestsOf({ reservation, execution, changes }: StoreEnd): readonly EndRequest[] {
  const requested = changesAsked(changes)
  return (reservation?.requests ?? []).filter(({ node, changes: wanted }) => {
    return node === execution.request.node && isSameChange(wanted, requested)
  })
}

/** What was asked of each counter, by its name. */
export function changesAsked(changes: readonly EndChange[]): ReadonlyMap<string, number> {
  const sums = new Map<string, number>()
  for (const { take } of changes) addUnits(sums, nameOf(take.key), take.amount)
  return sums
}

export function isSameChange(
  a: ReadonlyMap<string, number>,
  b: ReadonlyMap<string, number>,
): boolean {
  for (const name of new Set([...a.keys(), ...b.keys()])) {
    if ((a.get(name) ?? 0) !== (b.get(name) ?? 0)) return false
  }
  return true
}

/** Adds to one of several sums, and returns it. */
export function addUnits(sums: Map<string, number>, name: string, units: number): number {
  const sum = (sums.get(name) ?? 0) + units
  sums.set(name, sum)
  return sum
}

/** Units of a handle, by the name of the counter: those to settle, and with `kept` the others. */
export function reservedBy(
  { entries }: ReservationHandle,
  kept = false,
): ReadonlyMap<string, number> {
  const reserved = new Map<string, number>()
  for (const { key, amount, isKept } of entries) {
    if (isKept === kept) addUnits(reserved, nameOf(key), amount)
  }
  return reserved
}

/** What the end of a reservation changes, by counter; without costs everything is given back. */
export function changesOf(
  handle: ReservationHandle,
  costs: Costs | undefined,
  snapshot: Snapshot,
): ReadonlyMap<string, number> {
  const changes = new Map<string, number>()
  for (const [name, reserved] of reservedBy(handle)) {
    const entry = handle.entries.find(({ key }) => nameOf(key) === name)
    if (entry === undefined) continue
    const used = isOfPlaces(entry) ? 0 : usedOf(entry, costs, snapshot, reserved)
    changes.set(name, used - reserved)
  }
  return changes
}

/** Whether an entry holds places, which are free when the reservation ends in any way. */
export function isOfPlaces({ windowMs }: ReservedEntry): boolean {
  return windowMs === 0
}

/** What a counter is to be charged for in the end. */
function usedOf(
  { cost, rule }: ReservedEntry,
  costs: Costs | undefined,
  { byId }: Snapshot,
  reserved: number,
): number {
  if (costs === undefined) return 0
  const actual = costs[cost ?? 'cost']
  if (actual === undefined) return reserved
  const factor = byId.get(rule)?.rule.cost
  return cost === undefined && typeof factor === 'number' ? actual * factor : actual
}

/** The costs that an extension adds units of, by the newest handle. */
export function isExtendable({ handle }: KnownHandle, { costs }: ReserveStep): boolean {
  return handle.entries.some(({ cost }) => cost !== undefined && (costs[cost] ?? 0) > 0)
}
