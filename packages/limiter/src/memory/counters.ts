/**
 * The counters of one process: states by key, with a maximum number.
 *
 * When it is full, it evicts, among the next few records, the one whose state expires soonest. A
 * blocked caller is never evicted for one that is not blocked; otherwise a flood of new names would
 * free it. If the scanned records are all blocked, a new counter is not stored, so its caller
 * passes uncounted. If a whole round finds only blocked callers, the one that is free soonest is
 * evicted, and that is counted.
 */
import { algorithmOf, type CounterKey, gcd, layoutOf, type Limit } from '@sluice/core'
import { HashIndex } from './hash-index.js'
import { LimitRegistry } from './limit-registry.js'
import { RECORD_BYTES, Slab } from './slab.js'

export interface CounterStats {
  readonly counters: number
  readonly bytes: number
  /** Counters evicted because the store was full, before they expired. */
  readonly evicted: number
  /** Those of them that belonged to blocked callers: the store is too small for the attack. */
  readonly evictedBlocked: number
  /** Takes that were admitted without being stored. */
  readonly unstored: number
}

/** One counter as it leaves this store: for a snapshot, or for another member of a ring. */
export interface StoredState {
  readonly key: CounterKey
  readonly limit: Limit
  readonly state: unknown
  /** Whether it survives a restart. */
  readonly isDurable: boolean
}

/** Records scanned per new counter in a full store. */
const SCANS_FULL = 16
/**
 * Records scanned per new counter otherwise, so that expired ones are dropped before it is full.
 */
const SCANS = 2
/** About a millisecond of scanning. */
const SCANS_PER_TURN = 16_384
const FORMAT_SHIFT = 24
const FORMAT_MASK = 0x7f
const LIMIT_MASK = 0xffffff
/** The counter is part of a snapshot. */
const DURABLE = 1 << 31
/** A number of a state that is a list: a log or places. */
const LIST_NUMBER_BYTES = 8

export class Counters {
  readonly #capacity: number
  readonly #keepsEnded: boolean
  readonly #slab = new Slab()
  readonly #index = new HashIndex(this.#slab)
  readonly #limits = new LimitRegistry()
  readonly #lists = new Map<number, readonly number[]>()
  #listNumbers = 0
  #hand = 0
  #stride = 1
  #strideOf = 0
  #blockedInARow = 0
  #evicted = 0
  #evictedBlocked = 0
  #unstored = 0
  #drops = 0

  /** With `keepsEnded`, an expired counter is kept for one more window of its limit. */
  constructor(capacity: number, keepsEnded = false) {
    this.#capacity = capacity
    this.#keepsEnded = keepsEnded
  }

  /**
   * The total of dropped records: while it does not change, a record that was found stays valid.
   */
  get drops(): number {
    return this.#drops
  }

  /** Returns the record of a key, or -1. Valid until the next `write` of another key. */
  find(key: CounterKey): number {
    return this.#index.find(key.hi, key.lo)
  }

  /** Returns a record's state; undefined if there is none or another algorithm wrote it. */
  read(record: number, limit: Limit): unknown {
    if (record === -1) return undefined
    const meta = this.#slab.meta(record)
    if (formatIn(meta) !== limit.format) return undefined
    const layout = layoutOf(limit)
    if (layout === undefined) return this.#lists.get(record)
    return layout.read(this.#slab.doubles(record), this.#slab.stateAt(record))
  }

  /** Returns the bytes of a counter without its index slot; undefined if there is none. */
  bytesOf(key: CounterKey): number | undefined {
    const record = this.find(key)
    if (record === -1) return undefined
    return RECORD_BYTES + (this.#lists.get(record)?.length ?? 0) * LIST_NUMBER_BYTES
  }

  /** Stores the state of a key with its known record (-1 if it has none yet). */
  write(key: CounterKey, record: number, limit: Limit, state: unknown, now: number): void {
    if (record !== -1) {
      const isOfAnother = formatIn(this.#slab.meta(record)) !== limit.format
      if (isOfAnother) this.bind(record, limit)
      this.store(record, limit, state)
      this.rebind(record, limit)
      return
    }
    if (!this.makeRoom(now)) {
      this.#unstored += 1
      return
    }
    const made = this.#slab.allocate(key.hi, key.lo, key.partition)
    this.#slab.setMeta(made, this.metaOf(limit))
    this.#index.insert(made)
    this.store(made, limit, state)
  }

  delete(key: CounterKey): void {
    const record = this.find(key)
    if (record !== -1) this.drop(record)
  }

  /** Marks a counter as durable until it is dropped. */
  markDurable(key: CounterKey): void {
    const record = this.find(key)
    if (record !== -1) this.#slab.setMeta(record, this.#slab.meta(record) | DURABLE)
  }

  /** Yields every durable counter that has not expired. */
  *durable(now: number): Generator<StoredState> {
    for (let record = 0; record < this.#slab.end; record++) {
      if ((this.#slab.meta(record) & DURABLE) === 0) continue
      const stored = this.stored(record, now)
      if (stored !== undefined) yield stored
    }
  }

  /**
   * Yields every counter of these partitions that has not expired, and undefined after each
   * `SCANS_PER_TURN` records, so that the caller can let others run. Counters may be added and
   * dropped meanwhile.
   */
  *inPartitions(
    isIncluded: (partition: number) => boolean,
    now: () => number,
  ): Generator<StoredState | undefined> {
    for (let record = 0; record < this.#slab.end; record++) {
      if (record % SCANS_PER_TURN === SCANS_PER_TURN - 1) yield undefined
      if (this.#slab.meta(record) === 0 || !isIncluded(this.#slab.partition(record))) continue
      const stored = this.stored(record, now())
      if (stored !== undefined) yield stored
    }
  }

  private stored(record: number, now: number): StoredState | undefined {
    const slab = this.#slab
    const meta = slab.meta(record)
    const limit = this.#limits.get(meta & LIMIT_MASK)
    const state = this.read(record, limit)
    if (state === undefined || algorithmOf(limit).expiresAt(state, limit) <= now) return undefined
    const key = { hi: slab.hi(record), lo: slab.lo(record), partition: slab.partition(record) }
    return { key, limit, state, isDurable: (meta & DURABLE) !== 0 }
  }

  stats(): CounterStats {
    return {
      counters: this.#slab.live,
      bytes: this.#slab.bytes + this.#index.bytes + this.#listNumbers * LIST_NUMBER_BYTES,
      evicted: this.#evicted,
      evictedBlocked: this.#evictedBlocked,
      unstored: this.#unstored,
    }
  }

  private store(record: number, limit: Limit, state: unknown): void {
    const layout = layoutOf(limit)
    const before = this.#lists.size > 0 ? this.#lists.get(record) : undefined
    if (before !== undefined) this.#listNumbers -= before.length
    if (layout !== undefined) {
      if (before !== undefined) this.#lists.delete(record)
      layout.write(state, this.#slab.doubles(record), this.#slab.stateAt(record))
      return
    }
    const list = state as readonly number[]
    this.#listNumbers += list.length
    this.#lists.set(record, list)
  }

  /**
   * Records the limit of a record, which determines when it expires. Limits of several tiers may
   * share a counter; the one under which it expires last is kept.
   */
  rebind(record: number, limit: Limit): void {
    if (record === -1) return
    const bound = this.#slab.meta(record) & LIMIT_MASK
    if (this.#limits.matches(bound, limit)) return
    const state = this.read(record, limit)
    if (state === undefined) return
    const algorithm = algorithmOf(limit)
    const keptUntil = algorithm.expiresAt(state, this.#limits.get(bound))
    if (algorithm.expiresAt(state, limit) >= keptUntil) this.bind(record, limit)
  }

  private bind(record: number, limit: Limit): void {
    const before = this.#slab.meta(record)
    this.#slab.setMeta(record, this.metaOf(limit) | (before & DURABLE))
    this.#limits.release(before & LIMIT_MASK)
  }

  private metaOf(limit: Limit): number {
    return (limit.format << FORMAT_SHIFT) | this.#limits.acquire(limit)
  }

  private drop(record: number): void {
    this.#drops += 1
    this.#index.remove(this.#slab.hi(record), this.#slab.lo(record))
    this.#limits.release(this.#slab.meta(record) & LIMIT_MASK)
    this.#listNumbers -= this.#lists.get(record)?.length ?? 0
    this.#lists.delete(record)
    this.#slab.free(record)
  }

  /** Returns whether there is room for a new counter; evicts one if needed. */
  private makeRoom(now: number): boolean {
    const full = this.#slab.live >= this.#capacity
    const scanned = this.scan(full ? SCANS_FULL : SCANS, full ? this.wideStride() : 1, now)
    if (!full || this.#slab.live < this.#capacity) return true
    if (scanned.unblocked !== -1) {
      this.#blockedInARow = 0
      this.#evicted += 1
      this.drop(scanned.unblocked)
      return true
    }
    this.#blockedInARow += SCANS_FULL
    if (scanned.blocked === -1 || this.#blockedInARow < this.#slab.end) return false
    this.#evicted += 1
    this.#evictedBlocked += 1
    this.drop(scanned.blocked)
    return true
  }

  /**
   * Scans the next records: drops expired ones, and returns, of the others, the unblocked one that
   * expires soonest and the blocked one that is free soonest.
   */
  private scan(
    scans: number,
    stride: number,
    now: number,
  ): { readonly unblocked: number; readonly blocked: number } {
    let unblocked = -1
    let blocked = -1
    let meansNothingAt = Infinity
    let freeInMs = Infinity
    for (let n = 0; n < scans && n < this.#slab.end; n++) {
      const record = this.advance(stride)
      const meta = this.#slab.meta(record)
      if (meta === 0) continue
      const limit = this.#limits.get(meta & LIMIT_MASK)
      const algorithm = algorithmOf(limit)
      const state = this.read(record, limit)
      const expiresAt = state === undefined ? 0 : algorithm.expiresAt(state, limit)
      if (expiresAt + (this.#keepsEnded ? limit.windowUs : 0) <= now) {
        this.drop(record)
        this.#blockedInARow = 0
        continue
      }
      const waitMs = algorithm.peek(state, limit, 1, now).retryAfterMs ?? Infinity
      if (waitMs === 0 && expiresAt < meansNothingAt) {
        meansNothingAt = expiresAt
        unblocked = record
      } else if (waitMs > 0 && waitMs <= freeInMs) {
        freeInMs = waitMs
        blocked = record
      }
    }
    return { unblocked, blocked }
  }

  /** Returns the next record of a round that visits every record once. */
  private advance(stride: number): number {
    const { end } = this.#slab
    const record = this.#hand % end
    this.#hand = (record + stride) % end
    return record
  }

  /**
   * Returns the stride in a full store. It is wide, because the blocked callers of one attack are
   * adjacent and a scan should reach others too. A stride coprime to the length of the round visits
   * every record.
   */
  private wideStride(): number {
    const { end } = this.#slab
    if (this.#strideOf !== end) {
      this.#strideOf = end
      this.#stride = Math.max(1, Math.floor(end * 0.618))
      while (gcd(this.#stride, end) !== 1) this.#stride += 1
    }
    return this.#stride
  }
}

function formatIn(meta: number): number {
  return (meta >>> FORMAT_SHIFT) & FORMAT_MASK
}
