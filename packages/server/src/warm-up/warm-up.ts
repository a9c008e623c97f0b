/**
 * Runs the whole decision path before a node is ready: code that has never run is slow, and a burst
 * at the start would miss the deadline although the store is healthy. So scripts are loaded and
 * every entry point is called, over HTTP or gRPC and against the real store, until that gets no
 * faster.
 */
import { Agent, request } from 'node:http'
import { memoryStore, type Store } from '@sluice/limiter'
import { warmUpRequests, WarmUpClient } from '../entrypoints/envoy/warm-up-calls.js'
import { isLoopback } from '../lib/loopback.js'
import { monotonicMs } from '../lib/wall-clock.js'
import type { Config } from '../config/config.js'
import { openWarmUpServer, type WarmUpServer, WARM_UP_PATHS } from './warm-up-server.js'
import { PlateauDetector } from './plateau-detector.js'

/** After this time the node is ready, warm or not. */
const WARM_UP_MS_MAX = 1000
/**
 * Concurrent calls of a round to each entry point. The first rounds are the slowest, so they begin
 * with one call and double in each round: a node with a fraction of a core finishes them in time.
 */
const CALLS_AT_ONCE = 8

/** How many calls of warm-up were answered. */
export interface WarmUpCounts {
  readonly http: number
  readonly grpc: number
}

const NOTHING: WarmUpCounts = { http: 0, grpc: 0 }
/** Of a store that only warm-up uses. */
const COUNTERS_MAX = 1000

/**
 * Never rejects. Does nothing if the store has not answered yet. Where the store is in this
 * process, only Envoy gives up on a slow answer, so only its rate limit service is called, with a
 * store of its own; and nothing is, if nothing is configured for Envoy.
 */
export async function warmUp(
  config: Config,
  store: Store,
  withinMs = WARM_UP_MS_MAX,
): Promise<WarmUpCounts> {
  const work = workOf(config, store)
  if (work === undefined) return NOTHING
  let timer: NodeJS.Timeout | undefined
  const timeUp = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, withinMs)
  })
  await Promise.race([work.run(), timeUp])
  clearTimeout(timer)
  await work.stop()
  return work.counts
}

function workOf(config: Config, store: Store): WarmUp | undefined {
  if (store.remote === undefined) {
    if (!servesEnvoy(config)) return undefined
    return new WarmUp(config, memoryStore({ maxCounters: COUNTERS_MAX }), { isGrpcOnly: true })
  }
  const warmUpStore = store.health?.().remote?.state === 'ready' ? store.warmUpStore?.() : undefined
  return warmUpStore && new WarmUp(config, warmUpStore, { isGrpcOnly: false })
}

function servesEnvoy({ envoy: { config, xds, listen } }: Config): boolean {
  return config !== undefined || xds !== undefined || !isLoopback(listen.host)
}

class WarmUp {
  readonly #config: Config
  readonly #store: Store
  readonly #isGrpcOnly: boolean
  #http = 0
  #grpc = 0
  #client: WarmUpClient | undefined
  #server: WarmUpServer | undefined
  readonly #agent = new Agent({ keepAlive: true, maxSockets: CALLS_AT_ONCE })
  /**
   * Before that, rules would decide by their postures, and the path to the store would stay cold.
   */
  readonly #answering: Promise<void>
  #isStopped = false
  #requests = 0

  constructor(config: Config, store: Store, { isGrpcOnly }: { readonly isGrpcOnly: boolean }) {
    this.#config = config
    this.#store = store
    this.#isGrpcOnly = isGrpcOnly
    const { remote } = store
    this.#answering =
      remote === undefined
        ? Promise.resolve()
        : new Promise((resolve) => remote.onAnswering(resolve))
  }

  get counts(): WarmUpCounts {
    return { http: this.#http, grpc: this.#grpc }
  }

  /** Ends when the time of rounds has settled, or when something fails. */
  async run(): Promise<void> {
    try {
      const server = await openWarmUpServer(this.#config, this.#store)
      this.#server = server
      if (this.#isStopped) await server.close()
      await this.#answering
      const client = new WarmUpClient(server.grpc)
      this.#client = client
      if (this.#isStopped) return client.close()
      const plateau = new PlateauDetector()
      let calls = 1
      while (!this.#isStopped && !plateau.isSettled) {
        const startedMs = monotonicMs()
        if (!this.#isGrpcOnly) await this.callHttp(server, calls)
        await this.callGrpc(client, calls)
        if (calls === CALLS_AT_ONCE) plateau.record(monotonicMs() - startedMs)
        calls = Math.min(CALLS_AT_ONCE, calls * 2)
      }
    } catch {
      // The node serves nevertheless.
    }
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#agent.destroy()
    this.#client?.close()
    await this.#server?.close().catch(() => {})
  }

  /** Calls the rate limit service, as a burst. */
  private async callGrpc(client: WarmUpClient, calls: number): Promise<void> {
    const requests = Array.from({ length: calls }, () => this.nextRequest())
    await Promise.all(requests.map((each) => client.call(each)))
    this.#grpc += calls
  }

  private nextRequest(): Buffer {
    this.#requests += 1
    return REQUESTS[this.#requests % REQUESTS.length] ?? Buffer.alloc(0)
  }

  /** Calls every entry point of HTTP in turn, as a burst. */
  private async callHttp({ gateway, api, token }: WarmUpServer, calls: number): Promise<void> {
    const body = (path: string) => JSON.stringify({ attributes: { ip: CLIENT, path } })
    const authorization = `Bearer ${token}`
    await burst(calls, (path) => this.call(`${gateway}${path}`, {}))
    await burst(calls, (path) => this.call(`${api}/v1/check`, { authorization }, body(path)))
    await burst(calls, (path) => this.call(`${api}/v1/forward-auth`, this.forwarded(path)))
  }

  private forwarded(path: string): Record<string, string> {
    const { forwardedHeader } = this.#config
    const client = forwardedHeader === 'forwarded' ? `for=${CLIENT}` : CLIENT
    return { 'x-forwarded-uri': path, [forwardedHeader]: client }
  }

  /** Ignores the response: the code that creates it has run. */
  private call(url: string, headers: Record<string, string>, body?: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const method = body === undefined ? 'GET' : 'POST'
      const sent = request(url, { agent: this.#agent, method, headers }, (response) => {
        const end = () => {
          this.#http += 1
          resolve()
        }
        response.on('end', end).on('error', reject).resume()
      })
      sent.on('error', reject).end(body)
    })
  }
}

const REQUESTS = warmUpRequests(WARM_UP_PATHS)
/** An address reserved for documentation: no caller has it. */
const CLIENT = '192.0.2.1'

async function burst(calls: number, call: (path: string) => Promise<void>): Promise<void> {
  const pathOf = (place: number) => WARM_UP_PATHS[place % WARM_UP_PATHS.length] ?? '/'
  await Promise.all(Array.from({ length: calls }, (_, place) => call(pathOf(place))))
}
