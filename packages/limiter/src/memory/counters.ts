/**
 * The counters of one process: states by key, bounded in number.
 *
 * When it is full, what means least goes: of the next few records the one whose state means nothing
 * soonest. A blocked caller is never dropped for one that is not, or a flood of new names would
 * free it. While only blocked ones are in sight, a new counter is not kept, so its caller is let
 * through uncounted; when a whole round has shown nothing else, the blocked caller that is free
 * soonest goes, and that is counted.
 */
import { algorithmOf, type CounterKey, gcd, layoutOf, type Limit, type Log } from '@sluice/core'
import { HashIndex } from './hash-index.js'
import { LimitRegistry } from './limit-registry.js'
import { RECORD_BYTES, Slab } from './slab.js'

export interface CounterStats {
  readonly counters: number
  readonly bytes: number
  /** Counters dropped, because the store was full, that still meant something. */
  readonly evicted: number
  /** Of these, counters of blocked callers: the store is too small for the attack. */
  readonly evictedBlocked: number
  /** Takes that were admitted without being kept. */
  readonly unstored: number
}

/** One counter as a snapshot has it. */
export interface DurableCounter {
  readonly hi: number
  readonly lo: number
  readonly limit: Limit
  readonly state: unknown
}

/** Records looked at for one new counter in a full store. */
const SCANS_FULL = 16
/** Records looked at for one new counter otherwise, so that dead ones go before it is full. */
const SCANS = 2
const FORMAT_SHIFT = 24
const FORMAT_MASK = 0x7f
const LIMIT_MASK = 0xffffff
/** The counter is part of a snapshot. */
const DURABLE = 1 << 31
const LOG_PAIR_BYTES = 16

export class Counters {
  readonly #capacity: number
  readonly #keepsEnded: boolean
  readonly #slab = new Slab()
  readonly #index = new HashIndex(this.#slab)
  readonly #limits = new LimitRegistry()
  readonly #logs = new Map<number, Log>()
  #logNumbers = 0
  #hand = 0
  #stride = 1
  #strideOf = 0
  #blockedInARow = 0
  #evicted = 0
  #evictedBlocked = 0
  #unstored = 0
  #drops = 0

  /** With `keepsEnded`, what means nothing any more is kept for a window of its limit. */
  constructor(capacity: number, keepsEnded = false) {
    this.#capacity = capacity
    this.#keepsEnded = keepsEnded
  }

  /** How many records were ever dropped: while it stands still, a record found stays valid. */
  get drops(): number {
    return this.#drops
  }

  /** The record of a key, or -1. Valid until the next `write` of another key. */
  find(key: CounterKey): number {
    return this.#index.find(key.hi, key.lo)
  }

  /** A record's state; undefined where there is none, or another algorithm wrote it. */
  read(record: number, limit: Limit): unknown {
    if (record === -1) return undefined
    const meta = this.#slab.meta(record)
    if (formatIn(meta) !== limit.format) return undefined
    const layout = layoutOf(limit)
    if (layout === undefined) return this.#logs.get(record)
    return layout.read(this.#slab.doubles(record), this.#slab.stateAt(record))
  }

  /** What a counter takes beside its place in the index; undefined where there is none. */
  bytesOf(key: CounterKey): number | undefined {
    const record = this.find(key)
    if (record === -1) return undefined
    return RECORD_BYTES + (this.#logs.get(record)?.length ?? 0) * (LOG_PAIR_BYTES / 2)
  }

  /** Stores a state under a key, whose record is known (-1: there is none yet). */
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
    const made = this.#slab.allocate(key.hi, key.lo)
    this.#slab.setMeta(made, this.metaOf(limit))
    this.#index.insert(made)
    this.store(made, limit, state)
  }

  delete(key: CounterKey): void {
    const record = this.find(key)
    if (record !== -1) this.drop(record)
  }

  /** A counter that was marked stays so until it is forgotten. */
  markDurable(key: CounterKey): void {
    const record = this.find(key)
    if (record !== -1) this.#slab.setMeta(record, this.#slab.meta(record) | DURABLE)
  }

  /** Every marked counter that still means something. */
  *durable(now: number): Generator<DurableCounter> {
    for (let record = 0; record < this.#slab.end; record++) {
      const meta = this.#slab.meta(record)
      if ((meta & DURABLE) === 0) continue
      const limit = this.#limits.get(meta & LIMIT_MASK)
      const state = this.read(record, limit)
      if (state === undefined || algorithmOf(limit).expiresAt(state, limit) <= now) continue
      yield { hi: this.#slab.hi(record), lo: this.#slab.lo(record), limit, state }
    }
  }

  stats(): CounterStats {
    return {
      counters: this.#slab.live,
      bytes: this.#slab.bytes + this.#index.bytes + this.#logNumbers * (LOG_PAIR_BYTES / 2),
      evicted: this.#evicted,
      evictedBlocked: this.#evictedBlocked,
      unstored: this.#unstored,
    }
  }

  private store(record: number, limit: Limit, state: unknown): void {
    const layout = layoutOf(limit)
    const before = this.#logs.size > 0 ? this.#logs.get(record) : undefined
    if (before !== undefined) this.#logNumbers -= before.length
    if (layout !== undefined) {
      if (before !== undefined) this.#logs.delete(record)
      layout.write(state, this.#slab.doubles(record), this.#slab.stateAt(record))
      return
    }
    const log = state as Log
    this.#logNumbers += log.length
    this.#logs.set(record, log)
  }

  /**
   * Notes which limit a record is of, because that says when it means nothing any more. Limits of
   * several tiers may share a counter; then the one under which it means something longest is kept.
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
    this.#logNumbers -= this.#logs.get(record)?.length ?? 0
    this.#logs.delete(record)
    this.#slab.free(record)
  }

  /** Whether a new counter finds a place; drops what means least if that is needed. */
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
   * Looks at the next records: drops those that mean nothing, and names, of the others, the
   * unblocked one that will soonest and the blocked one that is free soonest.
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

  /** The next record of a round that meets every record once. */
  private advance(stride: number): number {
    const { end } = this.#slab
    const record = this.#hand % end
    this.#hand = (record + stride) % end
    return record
  }

  /**
   * In a full store the steps are wide: the blocked callers of one attack lie side by side, and a
   * look should see others too. A step that shares no divisor with the length of the round meets
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
