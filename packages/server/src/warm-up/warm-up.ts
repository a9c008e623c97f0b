/**
 * Runs the whole decision path before a node is ready: code that has never run is slow, and a burst
 * at the start would miss the deadline although the store is healthy. So scripts are loaded and
 * every entry point is called, over HTTP and against the real store, until that gets no faster.
 */
import { Agent, request } from 'node:http'
import type { Store } from '@sluice/limiter'
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

/** Never rejects. Does nothing if the store is in this process, or has not answered yet. */
export async function warmUp(
  config: Config,
  store: Store,
  withinMs = WARM_UP_MS_MAX,
): Promise<void> {
  const warmUpStore = store.health?.().remote?.state === 'ready' ? store.warmUpStore?.() : undefined
  if (warmUpStore === undefined) return
  const work = new WarmUp(config, warmUpStore)
  let timer: NodeJS.Timeout | undefined
  const timeUp = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, withinMs)
  })
  await Promise.race([work.run(), timeUp])
  clearTimeout(timer)
  await work.stop()
}

class WarmUp {
  readonly #config: Config
  readonly #store: Store
  #server: WarmUpServer | undefined
  readonly #agent = new Agent({ keepAlive: true, maxSockets: CALLS_AT_ONCE })
  /**
   * Before that, rules would decide by their postures, and the path to the store would stay cold.
   */
  readonly #answering: Promise<void>
  #isStopped = false

  constructor(config: Config, store: Store) {
    this.#config = config
    this.#store = store
    this.#answering = new Promise((resolve) => store.remote?.onAnswering(resolve))
  }

  /** Ends when the time of rounds has settled, or when something fails. */
  async run(): Promise<void> {
    try {
      const server = await openWarmUpServer(this.#config, this.#store)
      this.#server = server
      if (this.#isStopped) await server.close()
      await this.#answering
      const plateau = new PlateauDetector()
      let calls = 1
      while (!this.#isStopped && !plateau.isSettled) {
        const startedMs = monotonicMs()
        await this.callAll(server, calls)
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
    await this.#server?.close().catch(() => {})
  }

  /** Calls every entry point in turn, as a burst. */
  private async callAll({ gateway, api, token }: WarmUpServer, calls: number): Promise<void> {
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
        response.on('end', resolve).on('error', reject).resume()
      })
      sent.on('error', reject).end(body)
    })
  }
}

/** An address reserved for documentation: no caller has it. */
const CLIENT = '192.0.2.1'

async function burst(calls: number, call: (path: string) => Promise<void>): Promise<void> {
  const pathOf = (place: number) => WARM_UP_PATHS[place % WARM_UP_PATHS.length] ?? '/'
  await Promise.all(Array.from({ length: calls }, (_, place) => call(pathOf(place))))
}
