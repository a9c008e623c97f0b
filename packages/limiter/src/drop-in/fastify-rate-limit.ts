/**
 * A store for @fastify/rate-limit 11. The plugin decides and this store counts: a window begins
 * with a client's first request, and refused requests count too.
 */
import { WINDOW_MS_MAX } from '@sluice/core'
import { type DropInOptions, readDropInOptions } from './drop-in-options.js'
import { HitCounter, type HitName, type Hits } from './hit-counter.js'

/** Options of `sluiceStore`. */
export type FastifyStoreOptions = DropInOptions

type Callback = (error: Error | null, result?: FastifyHits) => void

/** What the plugin reads: hits of the present window, and milliseconds until it ends. */
export interface FastifyHits {
  readonly current: number
  readonly ttl: number
}

/** The options of the plugin or of a route, as far as this store reads them. */
export interface FastifyStoreParams {
  readonly continueExceeding?: boolean | undefined
  readonly exponentialBackoff?: boolean | undefined
  readonly groupId?: string | undefined
  readonly routeInfo?:
    | {
        readonly method?: string | readonly string[] | undefined
        readonly url?: string | undefined
      }
    | undefined
}

export interface FastifyStore {
  incr(key: string, callback: Callback, timeWindow: number, max: number): void
  read(key: string, callback: Callback, timeWindow: number, max: number): void
  /** `params` are those of a route: see `FastifyStoreParams`. */
  child(params: object): FastifyStore
}

/**
 * The class that the plugin's option `store` takes. Each registration of the plugin makes an
 * instance, which counts apart.
 */
export interface FastifyStoreClass {
  new (params: FastifyStoreParams): FastifyStore
  /** Resolves when the store has started; requests are counted in this process before. */
  ready(): Promise<void>
  /** Closes the store, unless another drop-in store uses it; for the hook `onClose`. */
  close(): Promise<void>
}

const HOST = 'fastify-rate-limit'

/**
 * Returns a store class for @fastify/rate-limit.
 *
 * @example
 * const store = sluiceStore({ store: redisStore({ url: 'redis://127.0.0.1:6379' }) })
 * await app.register(rateLimit, { max: 100, timeWindow: '1 minute', store })
 * app.addHook('onClose', () => store.close())
 */
export function sluiceStore(options: FastifyStoreOptions = {}): FastifyStoreClass {
  const counter = new HitCounter(HOST, readDropInOptions(options, HOST))
  const order = { plugins: 0, limiters: 0 }
  return class SluiceFastifyStore extends RouteStore {
    constructor(params: FastifyStoreParams) {
      order.plugins += 1
      super(counter, params, pluginScope(order.plugins), order)
    }

    static ready(): Promise<void> {
      return counter.ready()
    }

    static close(): Promise<void> {
      return counter.close()
    }
  }
}

/** How many instances and limiters without a route a store class has made. */
interface Order {
  plugins: number
  limiters: number
}

/**
 * Names a registration of the plugin by its order, which is the same on all nodes of one program.
 */
function pluginScope(order: number): HitName {
  return order === 1 ? ['plugin'] : ['plugin', String(order)]
}

/** The counters of the plugin, or of one route. */
class RouteStore implements FastifyStore {
  readonly #counter: HitCounter
  readonly #params: FastifyStoreParams
  readonly #scope: HitName
  readonly #order: Order

  constructor(counter: HitCounter, params: FastifyStoreParams, scope: HitName, order: Order) {
    this.#counter = counter
    this.#params = params
    this.#scope = scope
    this.#order = order
  }

  incr(key: string, callback: Callback, timeWindow: number, max: number): void {
    respond(this.count(key, timeWindow, max), callback)
  }

  read(key: string, callback: Callback, timeWindow: number): void {
    const holds = this.#params.exponentialBackoff === true
    respond(this.#counter.read(this.nameOf(key), timeWindow, holds).then(fastifyHits), callback)
  }

  /**
   * A route counts on its own, and so does a group of routes with the same `groupId`. A limiter
   * without a route is named by its order, which is the same on all nodes of one program.
   */
  child(params: FastifyStoreParams): FastifyStore {
    return new RouteStore(this.#counter, params, this.scopeOf(params), this.#order)
  }

  private scopeOf({ groupId, routeInfo = {} }: FastifyStoreParams): HitName {
    if (groupId !== undefined) return ['group', groupId]
    const { method, url } = routeInfo
    if (url !== undefined) return ['route', String(method), url]
    this.#order.limiters += 1
    return ['limiter', String(this.#order.limiters)]
  }

  private async count(key: string, timeWindow: number, max: number): Promise<FastifyHits> {
    const { continueExceeding, exponentialBackoff } = this.#params
    const name = this.nameOf(key)
    const holds = exponentialBackoff === true && continueExceeding !== true
    const request = { windowMs: timeWindow, amount: 1, holds, countsHeld: holds }
    const counted = await this.#counter.count(name, request)
    const isExtended = counted.hits > max && !counted.isLocal
    if (isExtended && continueExceeding === true) {
      background(this.#counter.restart(name, timeWindow, counted))
      return { current: counted.hits, ttl: timeWindow }
    }
    if (isExtended && holds) return this.extend(name, counted, timeWindow, max)
    return fastifyHits(counted)
  }

  /** Doubles the window with each request above `max`, and keeps the count until its end. */
  private extend(name: HitName, counted: Hits, timeWindow: number, max: number): FastifyHits {
    const doubled = timeWindow * 2 ** (counted.hits - max - 1)
    const ttl = Math.min(doubled, WINDOW_MS_MAX)
    background(this.#counter.hold(name, counted.hits, ttl, counted.at))
    return { current: counted.hits, ttl }
  }

  private nameOf(key: string): HitName {
    return [...this.#scope, String(key)]
  }
}

function fastifyHits({ hits, resetMs }: Hits): FastifyHits {
  return { current: hits, ttl: resetMs }
}

/** The next request is sent after this change, so the answer need not wait for it. */
function background(change: Promise<void>): void {
  change.catch(() => {})
}

function respond(counted: Promise<FastifyHits>, callback: Callback): void {
  counted.then(
    (hits) => callback(null, hits),
    (error: Error) => callback(error),
  )
}
