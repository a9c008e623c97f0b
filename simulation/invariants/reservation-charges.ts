/**
 * The budget is conserved: a reservation is charged for what was used, for its reserve, or for
 * nothing, as its end says.
 *
 * The reserve is charged when it is made, which other invariants check. Its end changes each
 * counter by what was used less what was reserved, into the window in which it was reserved:
 * everything that a client asked for, and nothing else. What is used beyond the reserve is charged
 * whole, unless the limit then owes its whole debt; a queue cannot owe. The answer says what was
 * charged. A reserve that a posture decided changes nothing.
 */
import { algorithmOf, type ReservationHandle, type Take, withDebt } from '@sluice/core'
import type { SettledCost, Settlement } from '@sluice/limiter'
import type { GroundTruth } from '../ground-truth.js'
import {
  addUnits,
  changesAsked,
  endOf,
  isSameChange,
  type KnownHandle,
  requestsOf,
  reservedBy,
  type SettlementRecord,
  type StoreEnd,
} from '../reservation-truth.js'
import { nameOf } from '../sim-counter.js'
import type { MakeInvariant } from './invariant.js'
import { expiredChanges } from './reservation-expiry.js'

export const reservationCharges: MakeInvariant = (truth) => ({
  name: 'a reservation is charged for its use or its reserve',
  onExecution: () => {
    const end = truth.reservations.lastEnd
    if (end?.reservation === undefined || !end.isMarked) return undefined
    const { number } = end.reservation
    const origins = originsOf(end, truth)
    if (origins.length === 0) return `reservation ${number} ended as nobody asked for`
    const isPlaced = origins.some(({ handle }) => isInPlace(end, handle))
    if (!isPlaced) return `reservation ${number} gave back into another window`
    return dropped(end, truth)
  },
  onSettlement: (record) => {
    const { request, settlement, reservation } = record
    const { number } = reservation
    const { reason } = settlement
    if (request.known.handle.isByPosture) {
      const isUnchanged = reason === 'posture' && settlement.charged === 0
      return isUnchanged ? undefined : `reservation ${number} of a posture was ${reason}`
    }
    if (reason === 'settled' || reason === 'cancelled') return reportedWrongly(record, truth)
    return undefined
  },
})

/** The handles that may have been ended, by a client or by their expiry on the same node. */
function originsOf(end: StoreEnd, truth: GroundTruth): readonly KnownHandle[] {
  const { reservation, execution, changes } = end
  const expired = (reservation?.handles ?? []).filter(({ decided, handle }) => {
    const isOwn = decided.call.node === execution.request.node
    return isOwn && isSameChange(expiredChanges(handle, truth), changesAsked(changes))
  })
  return [...requestsOf(end).map(({ known }) => known), ...expired]
}

/** Whether units are given back as of the time at which they were reserved. */
function isInPlace({ changes }: StoreEnd, { entries }: ReservationHandle): boolean {
  const left = new Map<string, number>()
  for (const { key, amount, at } of entries) addUnits(left, placeOf(key, at), amount)
  return changes.every(({ take }) => {
    return take.amount >= 0 || addUnits(left, placeOf(take.key, take.at), take.amount) >= 0
  })
}

/** What was used is charged, unless the limit owes all that it may. */
function dropped({ changes, reservation }: StoreEnd, truth: GroundTruth): string | undefined {
  for (const { take, granted } of changes) {
    if (take.amount <= 0 || granted === take.amount || !mayOwe(take, truth)) continue
    return `reservation ${reservation?.number} used ${take.amount} more and was charged ${granted}`
  }
  return undefined
}

function mayOwe({ key, limit }: Take, { server }: GroundTruth): boolean {
  if (limit.capacity === 0 || algorithmOf(limit).family === 'queue') return false
  const [[peeked] = []] = server.counters.sync.peek([[{ key, limit: withDebt(limit), amount: 1 }]])
  return peeked?.retryAfterMs === 0
}

/** The answer says what each cost was charged, by the limit where it weighs most. */
function reportedWrongly(
  { reservation, request, settlement }: SettlementRecord,
  truth: GroundTruth,
): string | undefined {
  const { number, ends } = reservation
  const { handle } = request.known
  if (handle.entries.length === 0) return undefined
  const end = endOf(reservation) ?? ends.find(({ isUndone }) => isUndone)
  if (end === undefined) return `reservation ${number} was ended, and the store knows nothing of it`
  const granted = new Map<string, number>()
  for (const change of end.changes) addUnits(granted, nameOf(change.take.key), change.granted)
  const expected: Record<string, SettledCost> = {}
  const reserved = reservedBy(handle)
  for (const { key, cost = 'cost', isShadow, isKept } of handle.entries) {
    const name = nameOf(key)
    const change = request.changes.get(name) ?? 0
    const before = reserved.get(name) ?? 0
    const more = change > 0 ? (granted.get(name) ?? 0) : change
    const known = expected[cost]
    if (isShadow || isKept || truth.counters.get(name) === undefined) continue
    expected[cost] = {
      charged: Math.max(known?.charged ?? 0, before + more),
      givenBack: Math.max(known?.givenBack ?? 0, -Math.min(0, change)),
      owed: settlement.costs[cost]?.owed ?? 0,
    }
  }
  return differing(settlement, expected, number)
}

/** Only the costs that come from attributes are reported, if there are any. */
function differing(
  { costs }: Settlement,
  expected: Readonly<Record<string, SettledCost>>,
  number: number,
): string | undefined {
  for (const [cost, { charged, givenBack }] of Object.entries(costs)) {
    // What only nodes count keeps its estimate.
    const { charged: units = charged, givenBack: back = 0 } = expected[cost] ?? {}
    if (charged === units && givenBack === back) continue
    return `reservation ${number} was charged ${units} for ${cost} and given back ${back}, and its answer says ${charged} and ${givenBack}`
  }
  return undefined
}

function placeOf(key: Take['key'], at: number | undefined): string {
  return `${nameOf(key)} ${at}`
}
