/** Opens the counter store: in this process, in all workers, or in a Redis that nodes share. */
import { memoryStore, type Limiter, type RegionalStore, type Store } from '@sluice/limiter'
import type { RingStats } from '@sluice/limiter/ring'
import type { Config } from '../config/config.js'
import { loadOrCreateKeySecret } from '../startup/stored-secrets.js'
import type { ReadableHistogram } from '../observability/metrics/histogram.js'
import type { BatchLatency } from './batch-latency.js'
import { openRedis } from './open-redis.js'
import { openRegions } from './open-regions.js'
import { openNodeRing, openWorkerRing, type RingPlace } from './open-ring.js'
import { CounterSnapshots, formerSnapshots, snapshotFile } from './counter-snapshots.js'
import { registerStoreMetrics } from './store-metrics.js'
import type { StoreDeps } from './store-observer.js'

export interface CounterStore {
  readonly store: Store
  /** The same where it is one of several, one in each region. */
  readonly regional?: RegionalStore | undefined
  /** Sets how the version of the active rules is read, which other regions are shown. */
  showRulesVersion?(read: () => number): void
  /** The key of all counter hashes. */
  readonly secret: Uint8Array
  /** Its location, without a password. */
  readonly name: string
  /** Its state in words, for `/readyz` and the nodes page. */
  describe(): string
  /** Undefined where no other process holds counters of this one. */
  readonly ring?: (() => RingStats) | undefined
  /** Store latency in seconds; undefined for counters in this process. */
  readonly times: ReadableHistogram | undefined
  /** Batches by store node; undefined for counters in this process. */
  readonly batchLatency: BatchLatency | undefined
  /**
   * Calls that failed without a connection, by store node; undefined for counters in this process.
   */
  connectionFailures(): ReadonlyMap<string, number> | undefined
  /** Sets the listener that is called when the breaker of a store node opens. */
  onBreakerOpened(listener: (store: string) => void): void
  /** Starts background work for the limiter; the returned function stops it. */
  startMaintenance(limiter: Limiter): () => Promise<void>
}

/** Rejects if counting would be wrong: with another secret, or on an unfit Redis. */
export function openStore(
  config: Config,
  deps: StoreDeps,
  worker?: RingPlace,
): Promise<CounterStore> {
  const { redis, regions } = config
  if (redis !== undefined) {
    const own = { ...config, redis }
    return regions === undefined ? openRedis(own, deps) : openRegions({ ...own, regions }, deps)
  }
  if (config.ring !== undefined) return openNodeRing({ ...config, ring: config.ring }, deps)
  if (worker?.ring !== undefined) {
    return openWorkerRing(config, { place: worker.place, ring: worker.ring }, deps)
  }
  return Promise.resolve(openMemory(config, deps))
}

/**
 * Rules shared by several nodes refer to secret attributes by a hash, which depends on the secret.
 */
const OWN_SECRET =
  'key hash secret: used by this data directory only, so overrides for an api_key, and rules that name one, have no effect on other nodes of the database; set SLUICE_KEY_SECRET to the same value on all nodes'

function openMemory(config: Config, deps: StoreDeps): CounterStore {
  const { log, registry } = deps
  const { dataDir, maxCounters } = config
  if (config.database !== undefined && config.keySecret === undefined) log.warn({}, OWN_SECRET)
  const store = memoryStore({ maxCounters })
  registerStoreMetrics(registry, { health: () => store.health(), name: 'memory' })
  return {
    store,
    secret: config.keySecret ?? loadOrCreateKeySecret(dataDir, log),
    name: 'memory',
    describe: () => 'memory',
    times: undefined,
    batchLatency: undefined,
    connectionFailures: () => undefined,
    onBreakerOpened: () => {},
    startMaintenance(limiter) {
      const hasDurable = () => limiter.hasDurable
      const snapshots = new CounterSnapshots({
        ...deps,
        store,
        file: snapshotFile(dataDir),
        former: formerSnapshots(dataDir, 1),
        hasDurable,
      })
      snapshots.restore()
      snapshots.start()
      return () => snapshots.close()
    },
  }
}
