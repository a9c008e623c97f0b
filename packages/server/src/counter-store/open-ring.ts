/** Opens the counter store of a worker: a part of the counters in memory, in a ring of workers. */
import { type RingStore, ringStore } from '@sluice/limiter/ring'
import type { Config } from '../config/config.js'
import { loadOrCreateKeySecret } from '../startup/stored-secrets.js'
import type { WorkerRing } from '../workers/worker-ring.js'
import { CounterSnapshots, formerSnapshots, snapshotFile } from './counter-snapshots.js'
import type { CounterStore } from './open-store.js'
import { registerRingMetrics } from './ring-metrics.js'
import { observeStore } from './store-events.js'
import { registerStoreMetrics } from './store-metrics.js'
import type { StoreDeps } from './store-observer.js'

/**
 * How long a decision waits for another worker. Nothing is lost between processes of one machine,
 * so a late answer means that all of them are busy, and then waiting is better than a posture.
 */
const WORKER_DEADLINE_MS = 250

type RingConfig = Pick<Config, 'dataDir' | 'maxCounters' | 'keySecret' | 'workers'>

export interface RingPlace {
  /** Of this worker, from 0 on. */
  readonly place: number
  /** Undefined where counters are in Redis. */
  readonly ring: WorkerRing | undefined
}

/** Rejects if this worker cannot be asked by the others. */
export async function openRing(
  { dataDir, maxCounters, keySecret, workers }: RingConfig,
  { place, ring }: RingPlace & { readonly ring: WorkerRing },
  deps: StoreDeps,
): Promise<CounterStore> {
  const secret = keySecret ?? loadOrCreateKeySecret(dataDir, deps.log)
  const events = observeStore(deps, WORKER_DEADLINE_MS)
  const { name, address } = ring.self
  const store = ringStore({
    self: name,
    listen: address,
    members: ring,
    secret,
    maxCounters,
    deadlineMs: WORKER_DEADLINE_MS,
    observer: events.observer,
  })
  await store.ready
  registerStoreMetrics(deps.registry, { health: () => store.health(), name, merge: 'sum' })
  registerRingMetrics(deps.registry, () => store.ringStats())
  return {
    store,
    secret,
    name: 'memory of all workers',
    describe: () => describe(store),
    times: events.counted.times,
    batchLatency: events.batchLatency,
    connectionFailures: () => events.failures.counts(),
    onBreakerOpened: (listener) => events.onBreakerOpened(listener),
    startMaintenance(limiter) {
      const hasDurable = () => limiter.hasDurable
      const file = snapshotFile(dataDir, place)
      const former = formerSnapshots(dataDir, workers, place)
      const snapshots = new CounterSnapshots({ ...deps, store, file, former, hasDurable })
      snapshots.restore()
      snapshots.start()
      return async () => {
        // What another worker has taken over is saved by that one.
        await store.leave()
        await snapshots.close()
      }
    },
  }
}

function describe(store: RingStore): string {
  const nodes = store.health().remote?.nodes ?? []
  const silent = nodes.filter(({ isAnswering }) => !isAnswering).length
  const workers = `memory of ${nodes.length} ${nodes.length === 1 ? 'worker' : 'workers'}`
  return silent === 0 ? workers : `${workers}, ${silent} not answering`
}
