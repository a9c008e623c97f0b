/** Since when which nodes of Redis do not answer: for people, never for readiness. */
import type { RedisStats } from '@sluice/limiter/redis'
import type { WallClock } from '../lib/wall-clock.js'
import { STORES_MAX } from './store-metrics.js'

export class StoreHealth {
  readonly #stats: () => RedisStats
  readonly #clock: WallClock
  readonly #beganMs: number
  /** By address, when it was first seen not to answer. */
  readonly #silentSince = new Map<string, number>()
  /** When no node was known at all. */
  #loneSince: number | undefined

  constructor(stats: () => RedisStats, clock: WallClock) {
    this.#stats = stats
    this.#clock = clock
    this.#beganMs = clock.now()
  }

  /** Asked every second: nobody tells when a node falls silent. */
  poll(): RedisStats {
    const stats = this.#stats()
    const nowMs = this.#clock.now()
    const silent = stats.nodes.filter(({ isAnswering }) => !isAnswering).slice(0, STORES_MAX)
    const addresses = new Set(silent.map(({ address }) => address))
    for (const address of this.#silentSince.keys()) {
      if (!addresses.has(address)) this.#silentSince.delete(address)
    }
    for (const address of addresses) {
      if (!this.#silentSince.has(address)) this.#silentSince.set(address, nowMs)
    }
    this.#loneSince = stats.nodes.length > 0 ? undefined : (this.#loneSince ?? nowMs)
    return stats
  }

  /** `redis: answering`, `redis: not answering since 2026-01-02T03:04:05.678Z`. */
  describe(): string {
    const { state, nodes } = this.poll()
    if (state === 'unfit') return 'redis: unfit, the log says why'
    if (state === 'refused') return 'redis: refuses this node, the log says why'
    if (state === 'starting') return `redis: not answering since ${timeOf(this.#beganMs)}`
    const silent = this.#silentSince.size
    if (silent === 0 && this.#loneSince === undefined) return 'redis: answering'
    const since = timeOf(this.#loneSince ?? Math.min(...this.#silentSince.values()))
    const some = silent < nodes.length ? `${silent} of ${nodes.length} nodes ` : ''
    return `redis: ${some}not answering since ${since}`
  }
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString()
}
