/**
 * A reservation that expires stays charged, except for rules with `onExpiry: refund`: the node that
 * made it, or last extended it, gives their units back, once, after its expiry by the store's clock
 * and only if it has not ended by then. So it does with places, whatever the rule says. A node
 * answers `expired` only after the expiry, once the store has told it the time. In runs without
 * faults every such reservation is given back in the end.
 */
import type { ReservationHandle } from '@sluice/core'
import type { GroundTruth } from '../ground-truth.js'
import {
  addUnits,
  endOf,
  isOfPlaces,
  type KnownHandle,
  requestsOf,
  type SimReservation,
  type StoreEnd,
} from '../reservation-truth.js'
import { nameOf } from '../sim-counter.js'
import type { MakeInvariant } from './invariant.js'

/** How far a node's estimate of the present may be off. */
const CLOCK_US = 3000

export const reservationExpiry: MakeInvariant = (truth) => ({
  name: 'an expired reservation is given back if its rule says so',
  onExecution: () => {
    const end = truth.reservations.lastEnd
    if (end?.reservation === undefined || !end.isMarked) return undefined
    return requestsOf(end).length > 0 ? undefined : givenBackEarly(end, end.reservation, truth)
  },
  onSettlement: ({ reservation, request, settlement, storeUs }) => {
    const { node, known, isClockKnown } = request
    const isKnown = isClockKnown && Number.isFinite(known.decided.uncertaintyUs)
    if (settlement.reason !== 'expired' || !isKnown || isUnknowable(truth, node)) return undefined
    if (storeUs + CLOCK_US >= known.handle.expiresAt) return undefined
    return `${node} says that reservation ${reservation.number} has expired, which it has not`
  },
  atEnd: () => {
    if (!truth.isCalm) return undefined
    for (const reservation of truth.reservations.all) {
      const isOpen = endOf(reservation) === undefined
      const last = reservation.handles.at(-1)
      if (!isOpen || last === undefined || expiredChanges(last.handle, truth).size === 0) continue
      return `reservation ${reservation.number} expired, and nobody gave it back`
    }
    return undefined
  },
})

/** What the expiry of a handle gives back, by the name of the counter. */
export function expiredChanges(
  { entries }: ReservationHandle,
  { scenario }: GroundTruth,
): ReadonlyMap<string, number> {
  const changes = new Map<string, number>()
  for (const entry of entries) {
    const { rule, key, amount, isKept } = entry
    const spec = scenario.rules.find(({ id }) => id === rule)
    const isRefunded = spec?.onExpiry === 'refund' || isOfPlaces(entry)
    if (!isRefunded || amount === 0 || isKept) continue
    addUnits(changes, nameOf(key), -amount)
  }
  return changes
}

function givenBackEarly(
  { execution: { request, storeUs } }: StoreEnd,
  { number, handles }: SimReservation,
  truth: GroundTruth,
): string | undefined {
  if (isUnknowable(truth, request.node)) return undefined
  const isOver = handles.some((known) => {
    const isOwn = known.decided.call.node === request.node
    return isOwn && known.handle.expiresAt <= storeUs + CLOCK_US && !isExtended(known, handles)
  })
  return isOver ? undefined : `${request.node} gave back reservation ${number} before its expiry`
}

/** Whether the store knows of an extension; a repeated reserve has several first handles. */
function isExtended({ handle }: KnownHandle, handles: readonly KnownHandle[]): boolean {
  return handles.some(({ before, handle: next }) => {
    return before?.handle.extensions === handle.extensions && next.extensions > handle.extensions
  })
}

/** A node that slept, or whose store changed its clock, cannot know the time. */
function isUnknowable(truth: GroundTruth, node: string): boolean {
  return truth.disruptions.length > 0 || truth.wasSuspended(node)
}
