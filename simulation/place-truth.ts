/**
 * Counts the calls in flight from outside: which calls hold places of which counter on which node,
 * and whether the store can still know of them.
 */
import {
  type CompiledLimit,
  type CounterKey,
  type Decision,
  isConcurrency,
  type Limit,
  placeHolders,
  type Places,
  type PlannedTake,
  type ReservationHandle,
} from '@sluice/core'
import type { Groups } from '@sluice/limiter'
import { nameOf } from './sim-counter.js'
import type { Execution, SimServer } from './sim-server.js'

/** A counter of calls in flight. */
export interface PlaceCounter {
  readonly key: CounterKey
  readonly rule: string
  readonly isShadow: boolean
  /** The limits by which calls have used it. */
  readonly limits: Set<Limit>
  readonly nodes: Map<string, NodePlaces>
  /** The places of reservations that the store must know, by the number of the reservation. */
  readonly reserved: Map<number, ReservedPlaces>
  wasReset: boolean
}

interface ReservedPlaces {
  readonly node: string
  readonly places: number
  /** Until then its node keeps them, by the store's clock. */
  readonly untilUs: number
}

/** What the calls on one node have of a counter. */
export interface NodePlaces {
  readonly node: string
  /** The places of calls in flight that the store granted. */
  held: number
  /** Those that the rule's posture granted. */
  byPosture: number
  /** Those that calls ask for, which are not decided yet. */
  pending: number
  /** The numbers under which the node takes places. */
  readonly holders: Set<number>
  /** When its record in the store expires, by the store's clock. */
  expiresUs: number
  /**
   * Whether the store may have forgotten places that it holds: its record expired, was reset or was
   * lost in a failover, and the node has not renewed it since.
   */
  isForgotten: boolean
  /** How many places its calls had or asked for, and since when in true time. */
  readonly history: { readonly us: number; readonly units: number }[]
}

/** A call that asks for places. */
export interface PlaceCall {
  readonly node: string
  readonly parts: readonly PlacePart[]
}

interface PlacePart {
  readonly counter: PlaceCounter
  readonly compiled: CompiledLimit
  readonly places: NodePlaces
  readonly amount: number
  /** The name under which its would-be refusal is reported. */
  readonly shadow: string | undefined
  /** What it holds since it was admitted. */
  heldAs: 'held' | 'byPosture' | undefined
}

export class PlaceTruth {
  readonly counters = new Map<string, PlaceCounter>()
  /** When each node was killed or shut down, by the store's clock: its calls have ended. */
  readonly goneUs = new Map<string, number>()
  readonly #server: SimServer

  constructor(server: SimServer) {
    this.#server = server
  }

  labelOf(name: string): string | undefined {
    const counter = this.counters.get(name)
    return counter && `calls in flight of ${counter.rule} (${name})`
  }

  recordArrival(
    node: string,
    groups: Groups<PlannedTake>,
    shadows: readonly string[],
    trueUs: number,
  ): PlaceCall {
    const parts = groups.flatMap((takes, g) =>
      takes.flatMap((take): PlacePart[] => {
        const { compiled, amount } = take
        if (!isConcurrency(take.limit) || amount === 0) return []
        const shadow = shadows[g - 1]
        const counter = this.counterOf(take, shadow !== undefined)
        const places = placesOf(counter, node)
        return [{ counter, compiled, places, amount, shadow, heldAs: undefined }]
      }),
    )
    for (const { places, amount } of parts) {
      places.pending += amount
      remember(places, trueUs)
    }
    return { node, parts }
  }

  /** From now on the call holds what it was granted, until it ends. */
  recordDecision({ node, parts }: PlaceCall, decision: Decision, trueUs: number): void {
    for (const part of parts) {
      const { compiled, places, amount, shadow } = part
      places.pending -= amount
      const isRefused = shadow === undefined ? !decision.allowed : decision.shadow.includes(shadow)
      if (decision.allowed && !isRefused && !this.goneUs.has(node)) {
        const isByPosture = decision.postures?.[compiled.rule] !== undefined
        // Nobody else counts the places of a split.
        if (compiled.coordination === 'exact') part.heldAs = isByPosture ? 'byPosture' : 'held'
        if (part.heldAs !== undefined) places[part.heldAs] += amount
      }
      remember(places, trueUs)
    }
  }

  recordEnd({ node, parts }: PlaceCall, trueUs: number): void {
    if (this.goneUs.has(node)) return
    for (const part of parts) {
      const { places, amount, heldAs } = part
      if (heldAs === undefined) continue
      places[heldAs] -= amount
      part.heldAs = undefined
      remember(places, trueUs)
    }
  }

  /** A reserve is sent, which may take places. */
  recordReserve(groups: Groups<PlannedTake>, shadows: readonly string[]): void {
    for (const [g, takes] of groups.entries()) {
      for (const take of takes) {
        if (isConcurrency(take.limit)) this.counterOf(take, shadows[g - 1] !== undefined)
      }
    }
  }

  /** The store granted a reservation; its places are given back by whoever ends it. */
  recordReservation(number: number, node: string, handle: ReservationHandle): void {
    const { entries, expiresAt: untilUs } = handle
    for (const { key, amount: places, isKept } of entries) {
      const counter = isKept ? undefined : this.counters.get(nameOf(key))
      if (!this.goneUs.has(node)) counter?.reserved.set(number, { node, places, untilUs })
    }
  }

  recordReservationEnd(number: number): void {
    for (const { reserved } of this.counters.values()) reserved.delete(number)
  }

  /** A node was killed or shut down, and its calls with it. */
  recordGone(node: string): void {
    this.goneUs.set(node, this.#server.nowUs())
    for (const { nodes, reserved } of this.counters.values()) {
      for (const [number, each] of reserved) if (each.node === node) reserved.delete(number)
      const places = nodes.get(node)
      if (places === undefined) continue
      places.held = 0
      places.byPosture = 0
    }
  }

  /** A replica took over, or the store's clock stepped: records may be gone until a renewal. */
  recordDisruption(): void {
    for (const counter of this.counters.values()) forget(counter)
  }

  recordExecution({ request: { operation, node }, reply, storeUs }: Execution): void {
    if (reply.late) return
    if (operation.verb === 'reset') {
      const counter = this.counters.get(nameOf(operation.key))
      if (counter === undefined) return
      counter.wasReset = true
      forget(counter)
    } else if (operation.verb === 'charge') {
      const { key, limit, at, amount } = operation.charge
      const counter = this.counters.get(nameOf(key))
      // Without an amount it renews what others may have given back.
      if (counter === undefined || amount === 0) return
      const places = placesOf(counter, node)
      places.holders.add(at)
      // A renewal that crosses a take may restore one place too few.
      const isRestored = this.countedFor(counter, places) >= places.held + places.pending
      if (isRestored) places.isForgotten = false
      places.expiresUs = storeUs + limit.windowUs
    } else if (operation.verb === 'take') {
      for (const [g, takes] of operation.groups.entries()) {
        for (const [i, { key, limit, holder }] of takes.entries()) {
          const answer = reply.answers?.[g]?.[i]
          const counter = this.counters.get(nameOf(key))
          const isGranted = typeof answer === 'object' && answer.granted > 0
          if (counter === undefined || holder === undefined || !isGranted) continue
          const places = placesOf(counter, node)
          places.holders.add(holder)
          if (places.held > 0 && storeUs >= places.expiresUs) places.isForgotten = true
          places.expiresUs = storeUs + limit.windowUs
        }
      }
    }
  }

  /** The places that the store counts for a node, by its own clock. */
  countedFor({ key, limits }: PlaceCounter, { holders }: NodePlaces): number {
    const [limit] = limits
    if (limit === undefined) return 0
    const [[peeked] = []] = this.#server.counters.sync.peek([[{ key, limit, amount: 0 }]])
    const nowMs = this.#server.nowUs() / 1000
    let count = 0
    for (const record of placeHolders((peeked?.state ?? []) as Places)) {
      if (holders.has(record.holder) && record.expiresAtMs > nowMs) count += record.places
    }
    return count
  }

  private counterOf({ key, compiled }: PlannedTake, isShadow: boolean): PlaceCounter {
    const name = nameOf(key)
    const known = this.counters.get(name)
    const { rule } = compiled
    const counter = known ?? {
      key,
      rule,
      isShadow,
      limits: new Set<Limit>(),
      nodes: new Map<string, NodePlaces>(),
      reserved: new Map<number, ReservedPlaces>(),
      wasReset: false,
    }
    this.counters.set(name, counter)
    counter.limits.add(compiled.limit)
    return counter
  }
}

/** The most places that its limits have. */
export function maxOf({ limits }: PlaceCounter): number {
  return Math.max(...[...limits].map(({ max }) => max))
}

export function leaseUsOf({ limits }: PlaceCounter): number {
  return Math.max(...[...limits].map(({ windowUs }) => windowUs))
}

function placesOf({ nodes }: PlaceCounter, node: string): NodePlaces {
  const known = nodes.get(node)
  if (known !== undefined) return known
  const counts = { held: 0, byPosture: 0, pending: 0, expiresUs: 0, isForgotten: false }
  const made = { node, ...counts, holders: new Set<number>(), history: [] }
  nodes.set(node, made)
  return made
}

function forget({ nodes, reserved }: PlaceCounter): void {
  reserved.clear()
  for (const places of nodes.values()) places.isForgotten = true
}

function remember({ history, held, pending }: NodePlaces, us: number): void {
  history.push({ us, units: held + pending })
}
