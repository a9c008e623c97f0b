/**
 * `coordination: split`: node i of n owns floor((i+1) * x / n) - floor(i * x / n) of a limit's max,
 * burst and queue, which sum to the limit exactly, and counts it alone. If the burst is below n,
 * each node still has one unit, so that it can admit its part of the rate. No call uses the store.
 * Unused budget of one node is not available to others: this suits evenly spread traffic.
 */
import {
  type CompiledLimit,
  type CounterKey,
  defineLimit,
  type Limit,
  type Outcome,
  partUnderCeiling,
  type PlannedTake,
  resizeLimit,
  wholeLimit,
  withoutWaiting,
} from '@sluice/core'
import { type MemoryStore, placedStore } from '../../memory/memory-store.js'
import type { Give } from '../../store.js'
import type {
  NodeDecider,
  NodeOutcome,
  CoordinationStats,
  CoordinationDeps,
} from '../node-decider.js'
import { nodesOf } from '../local/local-sync.js'
import { StatsByRule } from '../coordination-stats.js'

/** The most counters kept; a full store drops the least important, never a blocked caller first. */
const COUNTERS_MAX = 100_000

interface SplitLimit {
  readonly nodes: number
  readonly place: number
  /** Undefined if this node owns nothing of the limit. */
  readonly limit: Limit | undefined
  readonly immediate: Limit | undefined
}

export class SplitLimits implements NodeDecider {
  readonly #deps: CoordinationDeps
  readonly #known = new WeakMap<CompiledLimit, SplitLimit>()
  readonly #statsByRule = new StatsByRule()
  readonly #counters: MemoryStore
  /** The time of the current limit: near the edge of a window each limit has its own. */
  #now = 0
  #isClosed = false

  constructor(deps: CoordinationDeps) {
    this.#deps = deps
    this.#counters = placedStore({ maxCounters: COUNTERS_MAX, clock: { now: () => this.#now } })
  }

  get stats(): ReadonlyMap<string, CoordinationStats> {
    return this.#statsByRule.all
  }

  take(take: PlannedTake): NodeOutcome | undefined {
    if (this.#isClosed) return undefined
    const limit = this.ownLimit(take)
    if (limit === undefined) return nothingGranted(take, this.#now)
    const { key, amount } = take
    const [[outcome] = []] = this.#counters.sync.take([[{ key, limit, amount }]])
    return outcome === undefined ? undefined : toNodeOutcome(outcome, take)
  }

  isReady(): boolean {
    return !this.#isClosed
  }

  putBack(take: PlannedTake, { granted, at }: NodeOutcome): void {
    const limit = this.ownLimit(take)
    if (limit === undefined) return
    this.#counters.sync.give({ key: take.key, limit, amount: granted, at, undone: true })
  }

  peek(take: PlannedTake): (NodeOutcome & { readonly state: unknown }) | undefined {
    if (this.#isClosed) return undefined
    const limit = this.ownLimit(take)
    if (limit === undefined) return { ...nothingGranted(take, this.#now), state: undefined }
    const { key, amount } = take
    const [[peeked] = []] = this.#counters.sync.peek([[{ key, limit, amount }]])
    return peeked === undefined
      ? undefined
      : { ...toNodeOutcome(peeked, take), state: peeked.state }
  }

  /** Always true: the store never counted the units. */
  refund(give: Give): boolean {
    this.#now = this.#deps.placeInWindow(give.limit)
    this.#counters.sync.give(give)
    return true
  }

  forget(key: CounterKey): void {
    this.#counters.sync.reset(key)
  }

  async close(): Promise<void> {
    this.#isClosed = true
  }

  /** The part of the limit that this node owns; also sets the time for what follows. */
  private ownLimit({ limit, compiled }: PlannedTake): Limit | undefined {
    this.#now = this.#deps.placeInWindow(limit)
    const nodes = nodesOf(this.#deps)
    const place = Math.min(nodes - 1, Math.max(0, Math.floor(this.#deps.fleetPlace())))
    let splitLimit = this.#known.get(compiled)
    if (splitLimit === undefined || splitLimit.nodes !== nodes || splitLimit.place !== place) {
      const whole = splitLimitOf(wholeLimit(compiled).limit, nodes, place)
      const own = whole && partUnderCeiling(whole, compiled)
      const immediate = own === undefined ? undefined : withoutWaiting(own)
      splitLimit = { nodes, place, limit: own, immediate }
      this.#known.set(compiled, splitLimit)
    }
    return limit === compiled.limit ? splitLimit.limit : splitLimit.immediate
  }
}

/** The units that one node owns; those of all nodes sum to `units`. */
export function nodeUnits(units: number, nodes: number, place: number): number {
  const whole = Math.floor(units / nodes)
  const rest = units % nodes
  // In two steps, because (place + 1) * units may exceed 2^53.
  const upTo = (many: number) => Math.floor((many * rest) / nodes)
  return whole + upTo(place + 1) - upTo(place)
}

function splitLimitOf(limit: Limit, nodes: number, place: number): Limit | undefined {
  if (nodes === 1 || limit.max === 0) return limit
  const max = nodeUnits(limit.max, nodes, place)
  if (max === 0) return undefined
  // A bucket without capacity could never admit what it regains.
  const size = Math.max(1, nodeUnits(limit.capacity, nodes, place))
  const part = resizeLimit(limit, max, size)
  if (part !== undefined) return part
  // A part may be too small to count exactly where the whole limit is not; a fixed window always
  // can.
  const { name, windowMs } = limit
  return defineLimit({ algorithm: 'fixed-window', name, windowMs, max: Math.min(max, size) })
}

/** A node that owns nothing may own something once the fleet changes, so the wait is finite. */
function nothingGranted({ limit, amount }: PlannedTake, at: number): NodeOutcome {
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

/** A call above this node's part, but within the limit, may pass later. */
function toNodeOutcome(outcome: Outcome, { limit, amount }: PlannedTake): NodeOutcome {
  const { granted, remaining, resetAfterMs, delayMs, at } = outcome
  const isNever = outcome.retryAfterMs === null && amount <= limit.capacity
  const retryAfterMs = isNever ? limit.windowMs : outcome.retryAfterMs
  return { granted, remaining, resetAfterMs, retryAfterMs, delayMs, at, staleMs: 0 }
}
