/**
 * `coordination: node`: each process has the whole limit for itself and counts it in its own
 * memory. No call uses the store. A fleet of n nodes thus admits up to n times the limit: this
 * suits what each process must be protected from, such as its own calls in flight.
 */
import {
  type CounterKey,
  type Limit,
  type Outcome,
  type PlannedTake,
  PLACES_RETRY_MS,
  windowEndOf,
} from '@sluice/core'
import { ProcessLimits, withinLease } from '../concurrency/process-limits.js'
import { type MemoryStore, placedStore } from '../memory/memory-store.js'
import type { Give } from '../store.js'
import type {
  NodeDecider,
  NodeOutcome,
  CoordinationStats,
  CoordinationDeps,
} from './node-decider.js'
import { StatsByRule } from './coordination-stats.js'

/** The most counters kept; a full store drops the least important, never a blocked caller first. */
const COUNTERS_MAX = 100_000

export class NodeCounts implements NodeDecider {
  protected readonly deps: CoordinationDeps
  readonly #statsByRule = new StatsByRule()
  readonly #counters: MemoryStore
  readonly #processLimits = new ProcessLimits()
  /** The time of the current limit: near the edge of a window each limit has its own. */
  #now = 0
  #isClosed = false

  constructor(deps: CoordinationDeps) {
    this.deps = deps
    this.#counters = placedStore({ maxCounters: COUNTERS_MAX, clock: { now: () => this.#now } })
  }

  get stats(): ReadonlyMap<string, CoordinationStats> {
    return this.#statsByRule.all
  }

  take(take: PlannedTake): NodeOutcome | undefined {
    if (this.#isClosed) return undefined
    const limit = this.begin(take)
    if (limit === undefined) return nothingGranted(take, this.#now)
    const { key, amount, gate, holder } = take
    const [[outcome] = []] = this.#counters.sync.take([[{ key, limit, amount, gate, holder }]])
    return outcome === undefined ? undefined : toNodeOutcome(outcome, take)
  }

  isReady(): boolean {
    return !this.#isClosed
  }

  putBack(take: PlannedTake, { granted, at }: NodeOutcome): void {
    const limit = this.begin(take)
    if (limit === undefined) return
    this.#counters.sync.give({ key: take.key, limit, amount: granted, at, undone: true })
  }

  peek(take: PlannedTake): (NodeOutcome & { readonly state: unknown }) | undefined {
    if (this.#isClosed) return undefined
    const limit = this.begin(take)
    if (limit === undefined) return { ...nothingGranted(take, this.#now), state: undefined }
    const { key, amount } = take
    const [[peeked] = []] = this.#counters.sync.peek([[{ key, limit, amount }]])
    return peeked === undefined
      ? undefined
      : { ...toNodeOutcome(peeked, take), state: peeked.state }
  }

  /** Always true: the store never counted the units. */
  refund(give: Give): boolean {
    this.#now = this.deps.placeInWindow(give.limit)
    this.#counters.sync.give({ ...give, limit: this.#processLimits.get(give.limit) })
    return true
  }

  forget(key: CounterKey): void {
    this.#counters.sync.reset(key)
  }

  async close(): Promise<void> {
    this.#isClosed = true
  }

  /** The limit that this node counts by; undefined if it may admit nothing. @default the whole */
  protected ownLimit({ limit }: PlannedTake): Limit | undefined {
    return limit
  }

  /** Sets the time for what follows, and returns the limit that is counted. */
  private begin(take: PlannedTake): Limit | undefined {
    this.#now = this.deps.placeInWindow(take.limit)
    const own = this.ownLimit(take)
    return own && this.#processLimits.get(own)
  }
}

/**
 * The wait of a call that this node may never admit, but another one, or this one later: one
 * window, or until the end of a calendar window.
 */
function laterMs(limit: Limit, at: number): number {
  const { windowMs, calendar } = limit
  if (calendar !== undefined) return Math.ceil((windowEndOf(limit, at) - at) / 1000)
  return windowMs === 0 ? PLACES_RETRY_MS : windowMs
}

/** A node that owns nothing may own something once the fleet changes, so the wait is finite. */
function nothingGranted({ limit, amount, gate }: PlannedTake, at: number): NodeOutcome {
  const waitMs = amount === 0 && gate !== true ? 0 : laterMs(limit, at)
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

/** A call above what this node owns, but within the limit, may pass later. */
function toNodeOutcome(outcome: Outcome, { limit, amount }: PlannedTake): NodeOutcome {
  const { granted, remaining, delayMs, at } = outcome
  const isNever = outcome.retryAfterMs === null && amount <= limit.capacity
  const retryAfterMs = isNever ? laterMs(limit, at) : outcome.retryAfterMs
  const resetAfterMs = withinLease(outcome.resetAfterMs, limit)
  return { granted, remaining, resetAfterMs, retryAfterMs, delayMs, at, staleMs: 0 }
}
