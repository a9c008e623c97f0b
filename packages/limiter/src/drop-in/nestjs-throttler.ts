/**
 * A storage for @nestjs/throttler 6. The guard decides and this storage counts: a window begins
 * with a client's first request. A client that goes over its limit is blocked, in the store, so
 * that all nodes refuse it.
 */
import { monotonicMs } from '../clock.js'
import { type DropInOptions, readDropInOptions } from './drop-in-options.js'
import { HitCounter, type HitName, type Hits } from './hit-counter.js'

/** Options of `SluiceThrottlerStorage`. */
export type ThrottlerStorageOptions = DropInOptions

/** What the guard reads; times are whole seconds, rounded up. */
export interface ThrottlerHits {
  totalHits: number
  timeToExpire: number
  isBlocked: boolean
  timeToBlockExpire: number
}

interface RememberedBlock {
  readonly hits: number
  readonly untilMs: number
  /** When the store is asked again. */
  readonly forgetMs: number
}

const HOST = 'nestjs-throttler'
/** The most blocked clients that are refused without the store. */
const BLOCKS_MAX = 10_000
/** How long a block is believed without the store: then a client costs one call a second. */
const BLOCK_MEMORY_MS = 1000

/**
 * Counts for @nestjs/throttler.
 *
 * @example
 * ThrottlerModule.forRoot({
 *   throttlers: [{ ttl: 60_000, limit: 100 }],
 *   storage: new SluiceThrottlerStorage({ store: redisStore({ url: 'redis://127.0.0.1:6379' }) }),
 * })
 */
export class SluiceThrottlerStorage {
  readonly #counter: HitCounter
  readonly #blocks = new Map<string, RememberedBlock>()

  constructor(options: ThrottlerStorageOptions = {}) {
    this.#counter = new HitCounter(HOST, readDropInOptions(options, HOST))
  }

  /**
   * Counts one request. `ttl` and `blockDuration` are milliseconds. Requests of a blocked client
   * are not counted, and its hits begin anew after the block. With `blockDuration` 0 a client is
   * only refused until its window ends.
   */
  async increment(
    key: string,
    ttl: number,
    limit: number,
    blockDuration: number,
    throttlerName: string,
  ): Promise<ThrottlerHits> {
    const name = [throttlerName, key]
    if (blockDuration <= 0) return this.incrementWithoutBlock(name, ttl, limit)
    const remembered = this.recall(name)
    if (remembered !== undefined) return remembered
    const counted = await this.#counter.count(name, { windowMs: ttl, amount: 1, holds: true })
    if (counted.isHeld) return this.blocked(name, counted.hits, counted.resetMs)
    if (counted.hits <= limit) {
      const { hits, resetMs } = counted
      return {
        totalHits: hits,
        timeToExpire: seconds(resetMs),
        isBlocked: false,
        timeToBlockExpire: 0,
      }
    }
    this.block(name, counted, blockDuration)
    return this.blocked(name, counted.hits, blockDuration)
  }

  /** Resolves when the store has started; requests are counted in this process before. */
  ready(): Promise<void> {
    return this.#counter.ready()
  }

  /** Called by Nest; closes the store, unless another drop-in store uses it. */
  onApplicationShutdown(): Promise<void> {
    return this.#counter.close()
  }

  private async incrementWithoutBlock(
    name: HitName,
    ttl: number,
    limit: number,
  ): Promise<ThrottlerHits> {
    const max = Math.max(0, Math.floor(limit))
    const counted = await this.#counter.count(name, { windowMs: ttl, amount: 1, max })
    const { hits, isCounted } = counted
    // A window that has not begun, because nothing may be counted, ends in one ttl.
    const timeToExpire = seconds(counted.resetMs === 0 ? ttl : counted.resetMs)
    return {
      totalHits: isCounted ? hits : max + 1,
      timeToExpire,
      isBlocked: !isCounted,
      timeToBlockExpire: isCounted ? 0 : timeToExpire,
    }
  }

  private block(name: HitName, counted: Hits, blockDuration: number): void {
    // This process remembers the block already, so the answer need not wait for the store.
    this.#counter.hold(name, counted.hits, blockDuration, counted.at).catch(() => {})
  }

  private blocked(name: HitName, hits: number, blockMs: number): ThrottlerHits {
    this.remember(name, hits, blockMs)
    const timeToExpire = seconds(blockMs)
    return { totalHits: hits, timeToExpire, isBlocked: true, timeToBlockExpire: timeToExpire }
  }

  private remember(name: HitName, hits: number, blockMs: number): void {
    if (this.#counter.isInProcess) return
    const nowMs = monotonicMs()
    const forgetMs = nowMs + Math.min(blockMs, BLOCK_MEMORY_MS)
    this.#blocks.set(nameText(name), { hits, untilMs: nowMs + blockMs, forgetMs })
    const [oldest] = this.#blocks.keys()
    if (this.#blocks.size > BLOCKS_MAX && oldest !== undefined) this.#blocks.delete(oldest)
  }

  private recall(name: HitName): ThrottlerHits | undefined {
    if (this.#blocks.size === 0) return undefined
    const text = nameText(name)
    const block = this.#blocks.get(text)
    if (block === undefined) return undefined
    const nowMs = monotonicMs()
    if (nowMs >= block.forgetMs) {
      this.#blocks.delete(text)
      return undefined
    }
    const timeToExpire = seconds(block.untilMs - nowMs)
    const { hits } = block
    return { totalHits: hits, timeToExpire, isBlocked: true, timeToBlockExpire: timeToExpire }
  }
}

function nameText(name: HitName): string {
  return JSON.stringify(name)
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1000)
}
