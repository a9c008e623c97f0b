/** Keeps counters in this process: the default store, and the only synchronous one. */
import {
  algorithmOf,
  type CounterKey,
  formatHash,
  isBlock,
  isChargedOnRefusal,
  isCount,
  type Limit,
  type Outcome,
  owedStep,
  passes,
  peekOf,
  SluiceError,
  type Step,
  stepOf,
  type Take,
} from '@sluice/core'
import { type Clock, systemClock } from '../clock.js'
import type {
  Charge,
  Give,
  PeekOutcome,
  Store,
  StoredCounter,
  StoreHealth,
  SyncStore,
} from '../store.js'
import { requireOptions } from '../limiter-options.js'
import { Counters, type CounterStats, type StoredState } from './counters.js'
import { RECORDS_MAX } from './hash-index.js'
import { mergeStates } from './merge-states.js'
import { readSnapshot, writeSnapshot } from './memory-snapshot.js'

/**
 * Options of `memoryStore`.
 *
 * @example
 * const store = memoryStore({ maxCounters: 10_000_000 })
 */
export interface MemoryStoreOptions {
  /**
   * The most counters kept, up to `MEMORY_COUNTERS_MAX`; each takes at most 48 bytes, except logs.
   *
   * @default MEMORY_COUNTERS_DEFAULT
   */
  readonly maxCounters?: number | undefined
  /** The time that windows follow. @default the wall clock */
  readonly clock?: Clock | undefined
}

export interface MemoryStore extends Store {
  readonly sync: SyncStore
  health(): StoreHealth
  stats(): CounterStats
  /**
   * Returns the counters of rules with `durable: true`, to restore after a restart. Keys are
   * hashes: only a limiter with the same secret finds them again.
   */
  snapshot(): Uint8Array
  /**
   * Restores the result of `snapshot`, except counters that have expired since or exist here
   * already, and returns how many were restored. Damaged or foreign bytes throw and change nothing.
   */
  restore(snapshot: Uint8Array): number
}

export const MEMORY_COUNTERS_DEFAULT = 1_000_000
/** The most counters of one memory store, the capacity of its index. */
export const MEMORY_COUNTERS_MAX = RECORDS_MAX

/**
 * Keeps counters in this process: the default store, and the one that `checkSync` needs.
 *
 * @example
 * const limiter = createLimiter({ rules, store: memoryStore({ maxCounters: 100_000 }) })
 * const { allowed } = limiter.checkSync({ attributes: { ip: '192.0.2.7' } })
 */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  return openStore(options, false)
}

/**
 * Makes a memory store for a clock that may place one limit in its previous window and another in
 * its present one: a counter that expired for one limit may still be needed for the other.
 */
export function placedStore(options: MemoryStoreOptions): MemoryStore {
  return openStore(options, true)
}

/** The counters that this process holds of a ring. */
export function openCounters(options: MemoryStoreOptions): MemoryCounterStore {
  return openSync(options, false)
}

function openSync(options: MemoryStoreOptions, keepsEnded: boolean): MemoryCounterStore {
  requireOptions(options, '{ maxCounters, clock }')
  const { maxCounters = MEMORY_COUNTERS_DEFAULT, clock = systemClock } = options
  if (!isCount(maxCounters) || maxCounters < 1 || maxCounters > MEMORY_COUNTERS_MAX) {
    throw new SluiceError(
      'OPTION_INVALID',
      `maxCounters: found ${maxCounters}; accepted: a whole number from 1 to ${MEMORY_COUNTERS_MAX}`,
    )
  }
  return new MemoryCounterStore(new Counters(maxCounters, keepsEnded), clock)
}

function openStore(options: MemoryStoreOptions, keepsEnded: boolean): MemoryStore {
  const sync = openSync(options, keepsEnded)
  return {
    sync,
    take: async (groups) => sync.take(groups),
    peek: async (groups) => sync.peek(groups),
    give: async (give) => sync.give(give),
    charge: async (charge) => sync.charge(charge),
    reset: async (key) => sync.reset(key),
    close: async () => {},
    inspector: { inspect: async (key) => sync.inspect(key) },
    health: () => healthOf(sync.stats()),
    stats: () => sync.stats(),
    snapshot: () => sync.snapshot(),
    restore: (snapshot) => sync.restore(snapshot),
  }
}

function healthOf({ counters, bytes, evicted, evictedBlocked }: CounterStats): StoreHealth {
  const memory = { usedBytes: bytes, maxBytes: 0, counters, evicted, evictedBlocked }
  return { remote: undefined, memory, isPersistent: false }
}

/** Whether the limit of the block at this place was refused for a time, and not by held units. */
function isLimitRefused(
  takes: readonly Take[],
  steps: readonly Step<unknown>[],
  place: number,
): boolean {
  const isAfterMarks = takes[place]?.isAfterMarks === true
  const marks = isAfterMarks ? takes[place - 1] : undefined
  if (marks !== undefined && (steps[place - 1]?.remaining ?? 0) < marks.limit.capacity) return false
  return (steps[place - (isAfterMarks ? 2 : 1)]?.retryAfterMs ?? 0) !== 0
}

export class MemoryCounterStore implements SyncStore {
  readonly #counters: Counters
  readonly #clock: Clock

  constructor(counters: Counters, clock: Clock) {
    this.#counters = counters
    this.#clock = clock
  }

  take(groups: readonly (readonly Take[])[]): readonly (readonly Outcome[])[] {
    const now = this.#clock.now()
    const first = this.takeGroup(groups[0] ?? [], now)
    if (groups.length <= 1) return [first]
    const open = passes(first)
    const others = groups
      .slice(1)
      .map((takes) => (open ? this.takeGroup(takes, now) : this.peekAll(takes, now)))
    return [first, ...others]
  }

  peek(groups: readonly (readonly Take[])[]): readonly (readonly PeekOutcome[])[] {
    const now = this.#clock.now()
    return groups.map((takes) =>
      takes.map((take) => ({ ...this.peekOne(take, now), state: this.read(take.key, take.limit) })),
    )
  }

  give({ key, limit, amount, at, undone }: Give): void {
    const now = this.#clock.now()
    const record = this.#counters.find(key)
    const state = this.#counters.read(record, limit)
    const next = algorithmOf(limit).give(state, limit, amount, now, at, undone)
    if (next !== undefined) this.#counters.write(key, record, limit, next, now)
  }

  charge({ key, limit, amount, at, debt }: Charge): void {
    this.chargeAt(key, limit, amount, this.#clock.now(), at, debt)
  }

  reset(key: CounterKey): void {
    this.#counters.delete(key)
  }

  inspect(key: CounterKey): StoredCounter {
    const bytes = this.#counters.bytesOf(key) ?? null
    return { key: formatHash(key), node: null, ttlMs: null, bytes }
  }

  stats(): CounterStats {
    return this.#counters.stats()
  }

  snapshot(): Uint8Array {
    return writeSnapshot(this.#counters.durable(this.#clock.now()))
  }

  restore(snapshot: Uint8Array): number {
    const now = this.#clock.now()
    let restored = 0
    for (const stored of readSnapshot(snapshot)) {
      if (this.#counters.find(stored.key) === -1 && this.add(stored, now)) restored += 1
    }
    return restored
  }

  /** Every counter of these partitions: see `Counters.inPartitions`. */
  inPartitions(
    isIncluded: (partition: number) => boolean,
  ): Generator<StoredState | undefined, void, undefined> {
    return this.#counters.inPartitions(isIncluded, () => this.#clock.now())
  }

  /**
   * Adds counters that another process kept, or this one before it was restarted, to those that are
   * here. Returns how many still meant anything.
   */
  merge(counters: Iterable<StoredState>): number {
    const now = this.#clock.now()
    let merged = 0
    for (const stored of counters) {
      const { key, limit, isDurable } = stored
      const record = this.#counters.find(key)
      const own = this.#counters.read(record, limit)
      if (own === undefined) {
        if (record === -1 && this.add(stored, now)) merged += 1
        continue
      }
      const both = mergeStates(own, stored.state, limit, now)
      if (both !== undefined) this.#counters.write(key, record, limit, both, now)
      if (isDurable) this.#counters.markDurable(key)
      merged += 1
    }
    return merged
  }

  /** Adds the counters of a snapshot: see `merge`. */
  mergeSnapshot(snapshot: Uint8Array): number {
    return this.merge(readSnapshot(snapshot))
  }

  /** The state of a counter as the algorithm keeps it; undefined if there is none. */
  read(key: CounterKey, limit: Limit): unknown {
    return this.#counters.read(this.#counters.find(key), limit)
  }

  /** Stores a counter that is not here; returns whether it means anything and there was room. */
  private add({ key, limit, state, isDurable }: StoredState, now: number): boolean {
    if (algorithmOf(limit).expiresAt(state, limit) <= now) return false
    this.#counters.write(key, -1, limit, state, now)
    if (isDurable) this.#counters.markDurable(key)
    return this.#counters.find(key) !== -1
  }

  private takeGroup(takes: readonly Take[], now: number): readonly Outcome[] {
    const only = takes[0]
    if (only !== undefined && takes.length === 1) return this.takeOne(only, takes, now)
    const { drops } = this.#counters
    const records = takes.map(({ key }) => this.#counters.find(key))
    const steps = takes.map((take, i) =>
      stepOf(take, this.#counters.read(records[i] ?? -1, take.limit), now),
    )
    if (!passes(steps)) return this.refuse(takes, steps, records, now)
    for (let i = 0; i < takes.length; i++) {
      const take = takes[i]
      const state = steps[i]?.state
      if (take === undefined || state === undefined) continue
      // Looked up again if making room for the previous counter may have dropped this one.
      const kept = this.#counters.drops === drops
      const record = kept ? (records[i] ?? -1) : this.#counters.find(take.key)
      this.#counters.write(take.key, record, take.limit, state, now)
      if (take.durable === true) this.#counters.markDurable(take.key)
    }
    return steps
  }

  /** Takes a group of one limit, the most common case, with a single lookup. */
  private takeOne(take: Take, takes: readonly Take[], now: number): readonly Outcome[] {
    const { key, limit } = take
    const record = this.#counters.find(key)
    const step = stepOf(take, this.#counters.read(record, limit), now)
    if (step.retryAfterMs !== 0) return this.refuse(takes, [step], [record], now)
    if (step.state !== undefined) {
      this.#counters.write(key, record, limit, step.state, now)
      if (take.durable === true) this.#counters.markDurable(key)
    }
    return [step]
  }

  /**
   * Charges takes that overdraw, limits with `onRefusal: charge` and the blocks of limits that
   * refuse; stores rebased states.
   */
  private refuse(
    takes: readonly Take[],
    steps: readonly Step<unknown>[],
    records: readonly number[],
    now: number,
  ): readonly Outcome[] {
    takes.forEach(({ limit }, i) => this.#counters.rebind(records[i] ?? -1, limit))
    return takes.map((take, i) => {
      const { key, limit, amount } = take
      const step = steps[i]
      if (step?.rebased !== undefined) {
        this.#counters.write(key, this.#counters.find(key), limit, step.rebased, now)
      }
      const fits = step?.retryAfterMs === 0
      if (fits && isBlock(limit) && isLimitRefused(takes, steps, i)) {
        this.chargeAt(key, limit, amount, now, now, 0)
        if (take.durable === true) this.#counters.markDurable(key)
        return this.peekOne(take, now)
      }
      if (take.overdraw === true && step !== undefined) return this.keepOwed(take, step, now)
      if (isChargedOnRefusal(take)) {
        this.chargeAt(key, limit, amount, now, now, 0)
        if (fits) return { ...this.peekOne({ key, limit, amount: 0 }, now), granted: amount }
        return this.peekOne(take, now)
      }
      return step === undefined || fits ? this.peekOne(take, now) : step
    })
  }

  /** Charges a take that overdraws in a refused group. */
  private keepOwed(take: Take, step: Step<unknown>, now: number): Outcome {
    const { key, limit } = take
    const owed = owedStep(take, step, this.read(key, limit), now)
    if (owed.granted > 0) {
      this.#counters.write(key, this.#counters.find(key), limit, owed.state, now)
      if (take.durable === true) this.#counters.markDurable(key)
    }
    return owed
  }

  private chargeAt(
    key: CounterKey,
    limit: Limit,
    amount: number,
    now: number,
    at: number,
    debt: number,
  ): void {
    const record = this.#counters.find(key)
    const state = this.#counters.read(record, limit)
    const next = algorithmOf(limit).charge(state, limit, amount, now, at, debt)
    if (next !== undefined) this.#counters.write(key, record, limit, next, now)
  }

  private peekAll(takes: readonly Take[], now: number): readonly Outcome[] {
    return takes.map((take) => this.peekOne(take, now))
  }

  private peekOne(take: Take, now: number): Outcome {
    return peekOf(take, this.read(take.key, take.limit), now)
  }
}
