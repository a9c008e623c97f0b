/**
 * A store for express-rate-limit 6 or later, and for hono-rate-limiter, whose stores have the same
 * members. The middleware decides and this store counts: a window begins with a client's first
 * request, and refused requests count too.
 */
import { show } from '@sluice/core'
import {
  type DropInOptions,
  type DropInSettings,
  invalidOption,
  readDropInOptions,
} from './drop-in-options.js'
import { HitCounter, type Hits } from './hit-counter.js'

/** Options of `SluiceStore`. */
export interface SluiceStoreOptions extends DropInOptions {
  /** The window, for a host that never calls `init`. @default `windowMs` of the middleware */
  readonly windowMs?: number | undefined
}

/** What the middlewares give to `init`, as far as this store reads it. */
export interface SluiceStoreInit {
  readonly windowMs: number
  readonly skipFailedRequests?: boolean | undefined
  readonly skipSuccessfulRequests?: boolean | undefined
}

/** The hits of a client in its present window. */
export interface ClientHits {
  totalHits: number
  resetTime: Date
}

const HOST = 'express-rate-limit'
/** The most clients whose last request is remembered for a `decrement`. */
const CLIENTS_MAX = 100_000

/**
 * Counts for express-rate-limit or hono-rate-limiter. Each limiter needs a `SluiceStore` of its
 * own; several may share one `redisStore`, each with its own `prefix`.
 *
 * @example
 * const store = new SluiceStore({ store: redisStore({ url: 'redis://127.0.0.1:6379' }) })
 * app.use(rateLimit({ windowMs: 60_000, limit: 100, store }))
 */
export class SluiceStore {
  /** True for counters in this process: another instance never counts the same request. */
  readonly localKeys: boolean
  /** Separates the limiters that share a store. */
  readonly prefix: string
  /** Forgets all clients; undefined for a shared store, which cannot list its counters. */
  readonly resetAll?: () => Promise<void>
  readonly #settings: DropInSettings
  readonly #counter: HitCounter
  /** The last request of a client, to decrement only the window that it was counted in. */
  readonly #last = new Map<string, Hits>()
  #windowMs: number | undefined
  /** Whether the middleware decrements, so that last requests must be remembered. */
  #decrements = true

  constructor(options: SluiceStoreOptions = {}) {
    this.#settings = readDropInOptions(options, HOST, ['windowMs'])
    this.#windowMs = options.windowMs === undefined ? undefined : readWindow(options.windowMs)
    this.#counter = new HitCounter(HOST, this.#settings)
    this.prefix = this.#settings.prefix
    this.localKeys = this.#counter.isInProcess
    if (this.localKeys) this.resetAll = async () => this.#counter.resetAll()
  }

  /** Called by the middleware with its options. */
  init({ windowMs, skipFailedRequests, skipSuccessfulRequests }: SluiceStoreInit): void {
    this.#windowMs = readWindow(windowMs)
    this.#decrements = skipFailedRequests !== false || skipSuccessfulRequests !== false
  }

  async increment(key: string): Promise<ClientHits> {
    const counted = await this.#counter.count([String(key)], {
      windowMs: this.windowMs(),
      amount: 1,
    })
    if (this.#decrements) this.remember(key, counted)
    return this.clientHits(counted)
  }

  /**
   * Takes back the last request of a client, only from the window that it was counted in, and never
   * below 0.
   */
  async decrement(key: string): Promise<void> {
    const counted = this.#last.get(key)
    await this.#counter.subtract([String(key)], this.windowMs(), 1, counted)
  }

  /** The hits of a client; undefined if it has none. */
  async get(key: string): Promise<ClientHits | undefined> {
    const counted = await this.#counter.read([String(key)], this.windowMs())
    return counted.hits === 0 ? undefined : this.clientHits(counted)
  }

  async resetKey(key: string): Promise<void> {
    this.#last.delete(key)
    await this.#counter.reset([String(key)])
  }

  /** Resolves when the store has started; requests are counted in this process before. */
  ready(): Promise<void> {
    return this.#counter.ready()
  }

  /** Closes the store, unless another drop-in store uses it. */
  shutdown(): Promise<void> {
    return this.#counter.close()
  }

  private windowMs(): number {
    if (this.#windowMs !== undefined) return this.#windowMs
    throw invalidOption('windowMs', 'none', 'init({ windowMs }), or the option windowMs')
  }

  /** A fresh date each time: the middleware hands it out. */
  private clientHits({ hits, resetMs }: Hits): ClientHits {
    const nowMs = Math.floor(this.#settings.clock.now() / 1000)
    return { totalHits: hits, resetTime: new Date(nowMs + resetMs) }
  }

  private remember(key: string, counted: Hits): void {
    // The client seen longest ago goes; a decrement for it counts in its present window.
    this.#last.delete(key)
    this.#last.set(key, counted)
    const [oldest] = this.#last.keys()
    if (this.#last.size > CLIENTS_MAX && oldest !== undefined) this.#last.delete(oldest)
  }
}

function readWindow(windowMs: number): number {
  if (typeof windowMs === 'number' && windowMs > 0) return windowMs
  throw invalidOption('windowMs', show(windowMs), 'a number of milliseconds above 0')
}
