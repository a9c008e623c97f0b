/**
 * A limit split over the nodes: node i of n has floor((i+1) * x / n) - floor(i * x / n) of its max,
 * burst and queue, which sum to the limit exactly, and counts that by itself. Only of a burst below
 * n each node has one unit, so that it can admit its part of the rate. No call ever asks the store.
 * What one node does not use, no other can: it is for traffic that is spread evenly.
 */
import {
  type CompiledLimit,
  type CounterKey,
  defineLimit,
  findLimitProblem,
  type Limit,
  type LimitSpec,
  type Outcome,
  type PlannedTake,
  withoutWaiting,
} from '@sluice/core'
import { type MemoryStore, placedStore } from '../memory/memory-store.js'
import type { Give } from '../store.js'
import type { Here, HereOutcome, HereStats, NodeParts } from './here.js'
import { nodesOf } from './local-sync.js'
import { Tallies } from './tally.js'

/** Counters kept; in a full store what means least goes, and never a blocked caller first. */
const COUNTERS_MAX = 100_000

interface Allowance {
  readonly nodes: number
  readonly place: number
  /** Undefined: nothing of the limit is this node's. */
  readonly limit: Limit | undefined
  readonly immediate: Limit | undefined
}

export class Allowances implements Here {
  readonly #parts: NodeParts
  readonly #known = new WeakMap<CompiledLimit, Allowance>()
  readonly #tallies = new Tallies()
  readonly #counters: MemoryStore
  /** The time of the limit at hand: each has its own, near the edge of its window. */
  #now = 0
  #isClosed = false

  constructor(parts: NodeParts) {
    this.#parts = parts
    this.#counters = placedStore({ maxCounters: COUNTERS_MAX, clock: { now: () => this.#now } })
  }

  get stats(): ReadonlyMap<string, HereStats> {
    return this.#tallies.all
  }

  take(take: PlannedTake): HereOutcome | undefined {
    if (this.#isClosed) return undefined
    const limit = this.own(take)
    if (limit === undefined) return nothingOf(take, this.#now)
    const { key, amount } = take
    const [[outcome] = []] = this.#counters.sync.take([[{ key, limit, amount }]])
    return outcome === undefined ? undefined : told(outcome, take)
  }

  isReady(): boolean {
    return !this.#isClosed
  }

  putBack(take: PlannedTake, { granted, at }: HereOutcome): void {
    const limit = this.own(take)
    if (limit === undefined) return
    this.#counters.sync.give({ key: take.key, limit, amount: granted, at, undone: true })
  }

  look(take: PlannedTake): (HereOutcome & { readonly state: unknown }) | undefined {
    if (this.#isClosed) return undefined
    const limit = this.own(take)
    if (limit === undefined) return { ...nothingOf(take, this.#now), state: undefined }
    const { key, amount } = take
    const [[peeked] = []] = this.#counters.sync.peek([[{ key, limit, amount }]])
    return peeked === undefined ? undefined : { ...told(peeked, take), state: peeked.state }
  }

  /** The store never counted them. */
  refund(give: Give): boolean {
    this.#now = this.#parts.placeAt(give.limit)
    this.#counters.sync.give(give)
    return true
  }

  forget(key: CounterKey): void {
    this.#counters.sync.reset(key)
  }

  async close(): Promise<void> {
    this.#isClosed = true
  }

  /** What of the limit is this node's now; sets the time for what follows. */
  private own({ limit, of }: PlannedTake): Limit | undefined {
    this.#now = this.#parts.placeAt(limit)
    const nodes = nodesOf(this.#parts)
    const place = Math.min(nodes - 1, Math.max(0, Math.floor(this.#parts.fleetPlace())))
    let allowance = this.#known.get(of)
    if (allowance === undefined || allowance.nodes !== nodes || allowance.place !== place) {
      const own = allowanceOf(of.limit, nodes, place)
      const immediate = own === undefined ? undefined : withoutWaiting(own)
      allowance = { nodes, place, limit: own, immediate }
      this.#known.set(of, allowance)
    }
    return limit === of.limit ? allowance.limit : allowance.immediate
  }
}

/** The part of `units` that is of one node; those of all nodes sum to it. */
export function partOf(units: number, nodes: number, place: number): number {
  const whole = Math.floor(units / nodes)
  const rest = units % nodes
  // In two steps, as (place + 1) * units may be more than can be counted.
  const upTo = (many: number) => Math.floor((many * rest) / nodes)
  return whole + upTo(place + 1) - upTo(place)
}

function allowanceOf(limit: Limit, nodes: number, place: number): Limit | undefined {
  if (nodes === 1 || limit.max === 0) return limit
  const { algorithm, name, windowMs } = limit
  const max = partOf(limit.max, nodes, place)
  if (max === 0) return undefined
  // A bucket that holds nothing could never admit what it regains.
  const size = Math.max(1, partOf(limit.capacity, nodes, place))
  const spec: LimitSpec = { algorithm, name, windowMs, max, ...sizeOf(limit, size) }
  if (findLimitProblem(spec) === undefined) return defineLimit(spec)
  // A part may be too fine to count where the whole is not; a window has no such numbers.
  return defineLimit({ algorithm: 'fixed-window', name, windowMs, max: Math.min(max, size) })
}

function sizeOf({ algorithm, maxWaitUs }: Limit, size: number): Partial<LimitSpec> {
  const waitMs = maxWaitUs / 1000
  if (algorithm === 'leaky-bucket') return { queue: size, maxWaitMs: waitMs }
  const isBucket = algorithm === 'token-bucket' || algorithm === 'gcra'
  return isBucket ? { burst: size, waitMs } : {}
}

/** A node with nothing to grant may have something once the fleet has changed: not never. */
function nothingOf({ limit, amount }: PlannedTake, at: number): HereOutcome {
  const waitMs = amount === 0 ? 0 : limit.windowMs
  const isTooLarge = amount > limit.capacity
  return {
    granted: 0,
    remaining: 0,
    resetAfterMs: waitMs,
    retryAfterMs: isTooLarge ? null : waitMs,
    delayMs: 0,
    at,
    staleMs: 0,
  }
}

/** What is more than this node can ever hold, but not more than the limit can, may pass later. */
function told(outcome: Outcome, { limit, amount }: PlannedTake): HereOutcome {
  const { granted, remaining, resetAfterMs, delayMs, at } = outcome
  const isNever = outcome.retryAfterMs === null && amount <= limit.capacity
  const retryAfterMs = isNever ? limit.windowMs : outcome.retryAfterMs
  return { granted, remaining, resetAfterMs, retryAfterMs, delayMs, at, staleMs: 0 }
}
