/**
 * A handle says what was reserved: of every limit, the units that the reserve and its extensions
 * took, and when. It has nothing of a reserve that a posture decided, because
 * nobody knows what that took; and a refused reserve has no handle.
 *
 * A reserve that is repeated under its idempotency key gets the same reservation, on whatever node,
 * also if the limits have no room left.
 *
 * A shadow rule passes without a report if the store does not answer, so shadow rules are checked
 * only in runs without faults. A repeated reserve does not know if they had room.
 */
import { type ReservationHandle, windowNumberOf } from '@sluice/core'
import type { GroundTruth } from '../ground-truth.js'
import { type ReserveRecord, reservedBy } from '../reservation-truth.js'
import { isAligned, nameOf } from '../sim-counter.js'
import type { MakeInvariant } from './invariant.js'

/** Rounding to milliseconds, and the time of a lease that the store granted just before. */
const ROUNDING_US = 2000

export const reservationHandles: MakeInvariant = (truth) => ({
  name: 'a handle says what was reserved',
  onReserve: (record) => {
    const { decided, known, before, isRepeated } = record
    const { call, decision } = decided
    if (!decision.allowed) return known === undefined ? refusedWrongly(record, truth) : 'refused'
    if (known === undefined) return `call ${call.id} was admitted without a handle`
    const { handle } = known
    const isByPosture = decision.postures !== undefined
    if (before === undefined && isByPosture !== handle.isByPosture) {
      return `the handle of call ${call.id} says ${handle.isByPosture ? '' : 'not '}by posture`
    }
    const reserved = unitsOf(handle)
    const expected = new Map(before === undefined ? [] : unitsOf(before.handle))
    for (const { account, amount } of isByPosture ? [] : takenBy(record, truth)) {
      expected.set(account.counter.name, (expected.get(account.counter.name) ?? 0) + amount)
    }
    for (const name of new Set([...expected.keys(), ...reserved.keys()])) {
      const counter = truth.counters.get(name)
      const isUnsure = counter?.isShadow === true && (isRepeated || !truth.isCalm)
      const [units, right] = [reserved.get(name) ?? 0, expected.get(name) ?? 0]
      if (counter === undefined || isUnsure || units === right) continue
      return `call ${call.id} has ${units} of ${counter.rule} in its handle, not ${right}`
    }
    return repeatedWrongly(record, truth) ?? placedWrongly(record, truth)
  },
})

/** All units of a handle, by the name of the counter. */
function unitsOf(handle: ReservationHandle): ReadonlyMap<string, number> {
  const units = new Map(reservedBy(handle))
  for (const [name, kept] of reservedBy(handle, true)) {
    units.set(name, (units.get(name) ?? 0) + kept)
  }
  return units
}

/** What the store was asked for, then and now. */
function takenBy({ decided, isRepeated }: ReserveRecord, { isCalm }: GroundTruth) {
  const takes = isRepeated
    ? decided.call.takes.flat().filter(({ shadow }) => shadow === undefined)
    : decided.spent.flatMap(({ take, byPosture }) => (byPosture ? [] : take))
  return takes.filter(({ shadow }) => shadow === undefined || isCalm)
}

/** The store knows that the reservation was made before, and refuses it now. */
function refusedWrongly(
  { reservation, decided: { call, decision }, before }: ReserveRecord,
  truth: GroundTruth,
): string | undefined {
  if (before !== undefined || decision.postures !== undefined) return undefined
  const wasMade = reservation.made.some(({ execution, isUnmarked }) => {
    return !isUnmarked && execution.trueUs < call.startedUs
  })
  // A node that refuses by its own counts may not get an answer of the store.
  const isByNode = decision.source !== 'store' && !truth.isCalm
  if (!wasMade || isByNode || truth.disruptions.length > 0) return undefined
  return `call ${call.id} was refused, and reservation ${reservation.number} had been made`
}

/** A reserve that was refused and given back is not repeated: it is made anew. */
function repeatedWrongly(
  { reservation, decided, isRepeated }: ReserveRecord,
  truth: GroundTruth,
): string | undefined {
  const isMade = reservation.made.some(({ isReturned }) => !isReturned)
  if (!isRepeated || isMade || truth.disruptions.length > 0) return undefined
  return `call ${decided.call.id} repeats reservation ${reservation.number}, whose units were given back`
}

/** An entry belongs to the window in which the store counted it. */
function placedWrongly(
  { reservation, decided, known, before, isRepeated }: ReserveRecord,
  truth: GroundTruth,
): string | undefined {
  const { call } = decided
  if (truth.disruptions.length > 0 || truth.wasSuspended(call.node)) return undefined
  const count = before?.handle.entries.length ?? 0
  for (const { rule, key, at, isKept } of known?.handle.entries.slice(count) ?? []) {
    const counter = truth.counters.get(nameOf(key))
    const [{ limit } = {}] = counter?.variants ?? []
    if (isKept || counter === undefined || limit === undefined || !isAligned(counter)) continue
    const windowOf = (us: number) => windowNumberOf(limit, us)
    const [earliestUs, latestUs] = [
      call.startedStoreUs - ROUNDING_US,
      decided.storeUs + ROUNDING_US,
    ]
    const isOwn = windowOf(at) >= windowOf(earliestUs) && windowOf(at) <= windowOf(latestUs)
    const isMade = reservation.made.some(({ execution }) => {
      return windowOf(execution.storeUs) === windowOf(at)
    })
    if (isMade || (isOwn && !isRepeated)) continue
    return `call ${call.id} has units of ${rule} in its handle at ${at}, when it took none`
  }
  return undefined
}
