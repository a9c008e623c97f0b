/** Where counters live: in this process, or in a Redis that all nodes share. */
import { memoryStore, type Limiter, type Store } from '@sluice/limiter'
import type { Config } from '../config/config.js'
import { loadOrCreateKeySecret } from '../startup/stored-secrets.js'
import type { ReadableHistogram } from '../observability/metrics/histogram.js'
import type { BatchLatency } from './batch-latency.js'
import { openRedis } from './open-redis.js'
import { CounterSnapshots } from './counter-snapshots.js'
import { registerStoreMetrics } from './store-metrics.js'
import type { StoreDeps } from './store-observer.js'

export interface CounterStore {
  readonly store: Store
  /** The key of all hashes. */
  readonly secret: Uint8Array
  /** Where it is, for people; without its password. */
  readonly name: string
  /** How it is, for people. */
  describe(): string
  /** How long it took to answer, in seconds; undefined: it is in this process. */
  readonly times: ReadableHistogram | undefined
  /** The batches of each of its nodes; undefined: it is in this process. */
  readonly batchLatency: BatchLatency | undefined
  /** Calls that met no connection, by node of Redis; undefined: it is in this process. */
  connectionFailures(): ReadonlyMap<string, number> | undefined
  /** Called as soon as a node of Redis is given up for a while; one listener at a time. */
  onBreakerOpened(listener: (store: string) => void): void
  /** Begins what has to be seen to while the limiter decides; what it returns ends that. */
  startMaintenance(limiter: Limiter): () => Promise<void>
}

/** Rejects where nobody could be counted rightly: with another secret, on an unfit Redis. */
export function openStore(config: Config, deps: StoreDeps): Promise<CounterStore> {
  const { redis } = config
  if (redis !== undefined) return openRedis({ ...config, redis }, deps)
  return Promise.resolve(openMemory(config, deps))
}

/** Rules that many nodes share name secret attributes by a hash, which only one of them makes. */
const OWN_SECRET =
  'the secret of the key hash is of this data directory alone: overrides for an api_key, and rules that name one, hold on no other node of the database. Set SLUICE_KEY_SECRET alike on all of them'

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
      const snapshots = new CounterSnapshots({ ...deps, store, dataDir, hasDurable })
      snapshots.restore()
      snapshots.start()
      return () => snapshots.close()
    },
  }
}
