/**
 * Never more calls are in flight than `max`, by a count from outside, under every fault.
 *
 * It holds because the store counts, for every node, at least the places that its calls hold: a
 * node renews its record in time, and corrects it only when nothing else can change it. The store
 * may know less, and the fleet exceed `max` by that, only in these documented cases, until the node
 * renews its record:
 * - the record expired, because its node stood still or could not reach the store;
 * - a failover lost what happened within its lag, or the store's clock stepped;
 * - the caller was reset.
 * Reservations hold their places until they end or expire, and count as calls in flight where the
 * store always answers. Of rules that change, the largest `max` applies.
 *
 * While the store does not answer, a posture `local` admits its share on each node, and `closed`
 * nothing. A shadow rule passes without a report then, so its places are counted only in runs
 * without faults.
 */
import type { GroundTruth } from '../ground-truth.js'
import { maxOf, type PlaceCall, type PlaceCounter } from '../place-truth.js'
import type { Operation } from '../requests.js'
import { nameOf } from '../sim-counter.js'
import type { MakeInvariant } from './invariant.js'

export const callsInFlight: MakeInvariant = (truth) => ({
  name: 'no more calls are in flight than there are places',
  onExecution: ({ request: { operation }, reply, storeUs }) => {
    for (const name of reply.late ? [] : keysOf(operation)) {
      const counter = truth.places.counters.get(name)
      if (counter === undefined || !isCounted(counter, truth)) continue
      const wrong = undercounted(counter, storeUs, truth)
      if (wrong !== undefined) return wrong
    }
    return undefined
  },
  onPlaces: (call) => overcrowded(call, truth),
  onReserve: () => {
    for (const counter of truth.places.counters.values()) {
      const wrong = isCounted(counter, truth) ? overfull(counter, truth) : undefined
      if (wrong !== undefined) return wrong
    }
    return undefined
  },
})

function keysOf(operation: Operation): readonly string[] {
  if (operation.verb === 'take') return operation.groups.flat().map(({ key }) => nameOf(key))
  if (operation.verb === 'give') return [nameOf(operation.give.key)]
  return operation.verb === 'charge' ? [nameOf(operation.charge.key)] : []
}

function isCounted({ isShadow }: PlaceCounter, { isCalm }: GroundTruth): boolean {
  return !isShadow || isCalm
}

/** The store counts fewer places of a node than its calls hold. */
function undercounted(
  counter: PlaceCounter,
  storeUs: number,
  truth: GroundTruth,
): string | undefined {
  for (const places of counter.nodes.values()) {
    const { node, held, expiresUs } = places
    if (held === 0 || places.isForgotten) continue
    const counted = truth.places.countedFor(counter, places)
    if (counted >= held) continue
    // A reservation of the node may have renewed another record of it.
    const isExpired = storeUs >= expiresUs || truth.hasReservations
    if (isExpired && truth.mayBeSilent) {
      places.isForgotten = true
      continue
    }
    const why = isExpired ? ', which it did not renew in time' : ''
    return `calls on ${node} hold ${held} places of ${counter.rule}, and the store counts ${counted}${why}`
  }
  return undefined
}

function overcrowded({ node, parts }: PlaceCall, truth: GroundTruth): string | undefined {
  for (const { counter, compiled, places, heldAs } of parts) {
    if (heldAs === undefined || !isCounted(counter, truth)) continue
    const { rule, posture } = compiled
    if (heldAs === 'byPosture') {
      if (posture === 'closed') return `closed rule ${rule} admitted a call on ${node}`
      if (posture === 'open' || counter.wasReset) continue
      const factor = typeof posture === 'object' ? posture.local : 1
      const nodes = truth.fewestNodes.get(node) ?? 1
      const share = Math.max(1, Math.ceil((factor * maxOf(counter)) / nodes))
      if (places.byPosture <= share) continue
      return `${places.byPosture} calls of ${rule} are in flight on ${node} by posture, which has ${share}`
    }
    const wrong = overfull(counter, truth)
    if (wrong !== undefined) return wrong
  }
  return undefined
}

function overfull(counter: PlaceCounter, truth: GroundTruth): string | undefined {
  let inFlight = 0
  for (const { held, isForgotten } of counter.nodes.values()) if (!isForgotten) inFlight += held
  const storeUs = truth.server.nowUs()
  for (const { places, untilUs } of truth.mayBeSilent ? [] : counter.reserved.values()) {
    if (storeUs < untilUs) inFlight += places
  }
  const max = maxOf(counter)
  if (inFlight <= max) return undefined
  return `${inFlight} calls of ${counter.rule} are in flight, of at most ${max}`
}
