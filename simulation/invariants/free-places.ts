/**
 * No place is lost. When all calls have ended, all places are free, and no node counts a call as in
 * flight. The places of a node that was killed or shut down are free one lease after its last
 * request at the latest. In runs without faults, a place is free as soon as its call has ended and
 * the give that may cross a renewal is repaired: the store never counts more than the node's calls
 * had or asked for within that time. Both are checked where no reservation holds places, which
 * other nodes may keep and give back.
 */
import type { GroundTruth } from '../ground-truth.js'
import { leaseUsOf, type NodePlaces, type PlaceCounter } from '../place-truth.js'
import { nameOf } from '../sim-counter.js'
import type { MakeInvariant, NodeAtEnd } from './invariant.js'

/** A record is repaired this long after a request that may have crossed another, and a sweep. */
const GRACE_US = 250_000
const SWEEPS_PER_LEASE = 6
/** How many messages may follow each other until a place is given back. */
const TRIPS = 4

export const freePlaces: MakeInvariant = (truth) => ({
  name: 'every place is free again after its call',
  onExecution: ({ request: { operation }, reply, storeUs, trueUs }) => {
    if (operation.verb !== 'take' || reply.late || truth.disruptions.length > 0) return undefined
    for (const { key } of operation.groups.flat()) {
      const counter = truth.places.counters.get(nameOf(key))
      if (counter === undefined) continue
      for (const places of counter.nodes.values()) {
        const wrong = keptTooLong(counter, places, storeUs, trueUs, truth)
        if (wrong !== undefined) return wrong
      }
    }
    return undefined
  },
  atEnd: (nodes) => leftAtEnd(nodes, truth),
})

function keptTooLong(
  counter: PlaceCounter,
  places: NodePlaces,
  storeUs: number,
  trueUs: number,
  truth: GroundTruth,
): string | undefined {
  const { node } = places
  const leaseUs = leaseUsOf(counter)
  const goneUs = truth.places.goneUs.get(node)
  if (truth.hasReservations) return undefined
  if (goneUs !== undefined && storeUs > goneUs + leaseUs + delayedUs(truth)) {
    const counted = truth.places.countedFor(counter, places)
    if (counted > 0) return `${node} is gone, and has ${counted} places of ${counter.rule}`
  }
  if (!truth.isCalm) return undefined
  const sinceUs = trueUs - GRACE_US - leaseUs / SWEEPS_PER_LEASE - TRIPS * truth.reachMs * 1000
  const most = mostSince(places, sinceUs)
  const counted = truth.places.countedFor(counter, places)
  if (counted <= most) return undefined
  return `the store counts ${counted} places of ${counter.rule} on ${node}, whose calls had ${most}`
}

/** How much later than it was sent a request of a node may still run. */
function delayedUs({ scenario, reachMs }: GroundTruth): number {
  let ms = scenario.settings.deadlineMs + reachMs
  for (const fault of scenario.faults) {
    if (fault.kind === 'stall' || fault.kind === 'store-pause') ms += fault.forMs
  }
  return ms * 1000
}

/** The most that the calls of a node had or asked for at any time since then. */
function mostSince({ history }: NodePlaces, sinceUs: number): number {
  let most = 0
  for (let i = history.length - 1; i >= 0; i--) {
    const entry = history[i]
    if (entry === undefined) continue
    most = Math.max(most, entry.units)
    if (entry.us < sinceUs) break
  }
  return most
}

function leftAtEnd(nodes: readonly NodeAtEnd[], truth: GroundTruth): string | undefined {
  for (const { name, inFlight } of nodes) {
    if (inFlight > 0) return `${name} counts ${inFlight} calls in flight`
  }
  // A clock that was set far back keeps records for that much longer.
  if (truth.hasFault('store-jump')) return undefined
  for (const counter of truth.places.counters.values()) {
    for (const places of counter.nodes.values()) {
      const counted = truth.places.countedFor(counter, places)
      if (counted > 0) return `${counted} places of ${counter.rule} are left on ${places.node}`
    }
  }
  return undefined
}
