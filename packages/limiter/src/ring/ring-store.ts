/**
 * Counters in the processes of a ring: each partition is held by one of them, in its memory. A call
 * whose counters are all here is decided at once; any other is sent to their owners, as to the
 * nodes of a Redis Cluster.
 */
import {
  type CounterKey,
  isBlock,
  isChargedOnRefusal,
  isConcurrency,
  layoutOf,
  type Log,
  type Outcome,
  shortenLog,
  type Take,
} from '@sluice/core'
import { systemClock } from '../clock.js'
import { type MemoryCounterStore, openCounters } from '../memory/memory-store.js'
import { BatchingStore } from '../redis/batching-store.js'
import {
  guardObserver,
  silentObserver,
  type StoreObserver,
} from '../redis/pipeline/redis-observer.js'
import type { RedisChannel } from '../redis/connection/driver.js'
import { isMarked, markOf } from '../redis/request/hold-marks.js'
import type { StoreSession } from '../redis/server/warm-up-session.js'
import { nodeStats } from '../redis/server/redis-stats.js'
import {
  type Answer,
  type Charge,
  DEFAULT_DEADLINE_MS,
  type Give,
  type Groups,
  type Inspector,
  type NodeExchange,
  type PeekOptions,
  type PeekOutcome,
  type Remote,
  type Silence,
  type Store,
  type StoreHealth,
  type StoreNodeHealth,
  type TakeOptions,
} from '../store.js'
import { BatchFrames } from './batch-frame.js'
import { needsState } from './peer-commands.js'
import { type RingOptions, RingSession, type RingStats } from './ring-session.js'

/** Options of `ringStore`. */
export interface RingStoreOptions extends RingOptions {
  /** The most counters of this process. @default that of `memoryStore` */
  readonly maxCounters?: number | undefined
  /** How long a decision waits for another member, in milliseconds. @default 50 */
  readonly deadlineMs?: number | undefined
  /** Callbacks for metrics and logs; they must be brief and are never awaited. */
  readonly observer?: Partial<StoreObserver> | undefined
}

export interface RingStore extends Store {
  readonly remote: Remote
  readonly exchange: NodeExchange
  readonly inspector: Inspector
  /** Resolves when this process is a member. Rejects if it cannot listen. */
  readonly ready: Promise<void>
  health(): StoreHealth
  ringStats(): RingStats
  /** The durable counters of this process, as `memoryStore` gives them. */
  snapshot(): Uint8Array
  /**
   * Adds them to what is here, as calls may have come, and what others kept, before this member
   * restores its own; those that another member owns are sent to it.
   */
  restore(snapshot: Uint8Array): number
  /**
   * Leaves the ring: the other members take over the counters of this process. It still answers
   * them until it is closed, which leaves too.
   */
  leave(): Promise<void>
}

interface RingStoreDeps {
  readonly observer: StoreObserver
  readonly member?: RingSession | undefined
}

type KnownAnswer = Exclude<Answer, Silence>

/** Code that runs for the first time is slow, and warm-up is there to wait for it. */
const WARM_UP_DEADLINE_MS = 1000
/** Clocks of one machine are one clock. */
const CLOCK_TOLERANCE_MS = 100

/** Opens the counters of this process as a member of a ring. */
export function ringStore(options: RingStoreOptions): RingStore {
  const { maxCounters, clock } = options
  const observer = guardObserver(options.observer)
  return new RingCounterStore(options, openCounters({ maxCounters, clock }), { observer })
}

class RingCounterStore implements RingStore {
  readonly remote: Remote
  readonly inspector: Inspector
  /** Sends what is not decided here. */
  readonly #batching: BatchingStore<StoreSession>
  readonly #session: RingSession
  readonly #options: RingStoreOptions
  readonly #counters: MemoryCounterStore

  /** With `member`, another store over the connections of that one. */
  constructor(
    options: RingStoreOptions,
    counters: MemoryCounterStore,
    { observer, member }: RingStoreDeps,
  ) {
    const { deadlineMs = DEFAULT_DEADLINE_MS, clock, secret } = options
    this.#options = options
    this.#counters = counters
    let session = member
    this.#batching = new BatchingStore(
      { deadlineMs, denyCacheMs: 0, clockToleranceMs: CLOCK_TOLERANCE_MS, clock },
      {
        observer,
        codec: new BatchFrames(),
        openSession: (deps) => {
          if (member !== undefined) return member.openWarmUp(deps)
          session = new RingSession(options, counters, deps)
          return session
        },
      },
    )
    if (session === undefined) throw new Error('A ring without a session')
    this.#session = session
    const now = () => (clock ?? systemClock).now()
    this.remote = {
      ...this.#batching.remote,
      secret: Promise.resolve(secret),
      time: now,
      latestTime: now,
      uncertaintyUs: () => 0,
    }
    this.inspector = { inspect: (key) => this.#session.inspect(key) }
  }

  get ready(): Promise<void> {
    return this.#session.ready
  }

  get exchange(): NodeExchange {
    return this.#session.exchange
  }

  take(groups: Groups<Take>, options: TakeOptions = {}): Promise<Groups<Answer>> {
    if (!this.isAllHere(groups)) return this.#batching.take(groups, options)
    const outcomes = this.#counters.take(groups)
    for (const takes of groups) for (const { key } of takes) this.#session.onUse(key.partition)
    if (options.states !== true && outcomes.every((row) => row.every(isAdmitted))) {
      return Promise.resolve(outcomes)
    }
    const heldPlaces = this.findHeld(groups[0] ?? [], outcomes[0] ?? [])
    // Nothing was charged, so the call may wait for the other one to be decided.
    const mayWait = heldPlaces.size > 0 && !(groups[0] ?? []).some(isChargedOnRefusal)
    if (mayWait) return this.#batching.take(groups, options)
    return Promise.resolve(
      outcomes.map((row, g) =>
        row.map((outcome, i) => {
          const take = groups[g]?.[i]
          if (take === undefined) return outcome
          const answer = this.withState(outcome, take, options.states === true)
          return g === 0 && heldPlaces.has(i) ? { ...answer, held: true } : answer
        }),
      ),
    )
  }

  peek(groups: Groups<Take>, options: PeekOptions = {}): Promise<Groups<PeekOutcome>> {
    if (!this.isAllHere(groups)) return this.#batching.peek(groups, options)
    return Promise.resolve(this.#counters.peek(groups))
  }

  async give(give: Give): Promise<void> {
    if (!this.isHere(give.key)) return this.#batching.give(give)
    this.#counters.give(give)
  }

  async charge(charge: Charge): Promise<void> {
    if (!this.isHere(charge.key)) return this.#batching.charge(charge)
    this.#counters.charge(charge)
    this.#session.onUse(charge.key.partition)
  }

  async reset(key: CounterKey): Promise<void> {
    if (!this.isHere(key)) return this.#batching.reset(key)
    this.#counters.reset(key)
  }

  ringStats(): RingStats {
    return this.#session.stats()
  }

  health(): StoreHealth {
    const { counters, bytes, evicted, evictedBlocked } = this.#counters.stats()
    const pipelines = new Map(this.#session.pipelines().map((each) => [each.channel, each]))
    const nodes = this.#session.driver.channels().map((channel) => {
      const pipeline = pipelines.get(channel)
      return pipeline === undefined ? neverReached(channel) : nodeStats(pipeline, undefined)
    })
    return {
      remote: { state: 'ready', nodes, fleet: { size: this.#session.fleetSize(), ageMs: 0 } },
      memory: { usedBytes: bytes, maxBytes: 0, counters, evicted, evictedBlocked },
      isPersistent: false,
    }
  }

  snapshot(): Uint8Array {
    return this.#counters.snapshot()
  }

  restore(snapshot: Uint8Array): number {
    const restored = this.#counters.mergeSnapshot(snapshot)
    this.#session.sendHome()
    return restored
  }

  leave(): Promise<void> {
    return this.#session.leave()
  }

  warmUpStore(): Store {
    const options = { ...this.#options, deadlineMs: WARM_UP_DEADLINE_MS }
    const deps = { observer: silentObserver, member: this.#session }
    return new RingCounterStore(options, this.#counters, deps)
  }

  close(): Promise<void> {
    return this.#batching.close()
  }

  private isHere(key: CounterKey): boolean {
    return !this.#batching.isClosed && this.#session.driver.isHere(key.partition)
  }

  private isAllHere(groups: Groups<Take>): boolean {
    if (this.#batching.isClosed) return false
    for (const takes of groups) {
      for (const { key } of takes) if (!this.#session.driver.isHere(key.partition)) return false
    }
    return true
  }

  private withState(outcome: Outcome, { key, limit }: Take, states: boolean): KnownAnswer {
    if (!needsState(outcome, limit, states)) return outcome
    const state = this.#counters.read(key, limit)
    const isLog = layoutOf(limit) === undefined && !isConcurrency(limit)
    return { ...outcome, state: isLog && state !== undefined ? shortenLog(state as Log) : state }
  }

  /** The places of enforced takes that may be refused only by units of calls still undecided. */
  private findHeld(takes: readonly Take[], outcomes: readonly Outcome[]): ReadonlySet<number> {
    const held = new Set<number>()
    for (const [i, { key, limit }] of takes.entries()) {
      const retryAfterMs = outcomes[i]?.retryAfterMs ?? 0
      if (retryAfterMs === 0 || retryAfterMs === null || isBlock(limit)) continue
      const [[mark] = []] = this.#counters.peek([[markOf(key, 0)]])
      if (mark !== undefined && isMarked(mark)) held.add(i)
    }
    return held
  }
}

/** A member that has not answered yet. */
function neverReached({ address }: RedisChannel): StoreNodeHealth {
  return {
    address,
    isAnswering: false,
    isBreakerOpen: false,
    breakerOpened: 0,
    clock: undefined,
    inFlight: 0,
    queuedTakes: 0,
  }
}

function isAdmitted({ retryAfterMs }: Outcome): boolean {
  return retryAfterMs === 0
}
