/**
 * Remembers since when each node of a remote store does not answer, for the banner, `/healthz` and
 * the nodes page. Readiness does not depend on it.
 */
import type { RemoteHealth } from '@sluice/limiter'
import type { WallClock } from '../lib/wall-clock.js'
import { STORES_MAX } from './store-metrics.js'

export class StoreOutageTimes {
  readonly #health: () => RemoteHealth
  readonly #clock: WallClock
  readonly #beganMs: number
  /** By address, when the node was first found not answering. */
  readonly #silentSince = new Map<string, number>()
  /** Since when no node is known at all; undefined while one is. */
  #emptySince: number | undefined

  constructor(health: () => RemoteHealth, clock: WallClock) {
    this.#health = health
    this.#clock = clock
    this.#beganMs = clock.now()
  }

  /** Called every second: a node that stops answering causes no event. */
  poll(): RemoteHealth {
    const health = this.#health()
    const nowMs = this.#clock.now()
    const silent = health.nodes.filter(({ isAnswering }) => !isAnswering).slice(0, STORES_MAX)
    const addresses = new Set(silent.map(({ address }) => address))
    for (const address of this.#silentSince.keys()) {
      if (!addresses.has(address)) this.#silentSince.delete(address)
    }
    for (const address of addresses) {
      if (!this.#silentSince.has(address)) this.#silentSince.set(address, nowMs)
    }
    this.#emptySince = health.nodes.length > 0 ? undefined : (this.#emptySince ?? nowMs)
    return health
  }

  /** `redis: answering`, `redis: not answering since 2026-01-02T03:04:05.678Z`. */
  describe(): string {
    const { state, nodes } = this.poll()
    if (state === 'unfit') return 'redis: unfit, see the log'
    if (state === 'refused') return 'redis: refuses this node, see the log'
    if (state === 'starting') return `redis: not answering since ${timeOf(this.#beganMs)}`
    const silent = this.#silentSince.size
    if (silent === 0 && this.#emptySince === undefined) return 'redis: answering'
    const since = timeOf(this.#emptySince ?? Math.min(...this.#silentSince.values()))
    const some = silent < nodes.length ? `${silent} of ${nodes.length} nodes ` : ''
    return `redis: ${some}not answering since ${since}`
  }
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString()
}
