/** Opens a part of the counters in memory: that of a worker, or of a node in a ring of nodes. */
import { PeriodicTask, systemScheduler } from '@sluice/limiter/internal'
import { DEFAULT_DEADLINE_MS } from '@sluice/limiter/redis'
import { type RingStore, type RingStoreOptions, ringStore } from '@sluice/limiter/ring'
import type { Config, RingConfig } from '../config/config.js'
import { messageOf } from '../lib/message-of.js'
import { readPem } from '../lib/read-pem.js'
import { monotonicMs } from '../lib/wall-clock.js'
import { createThrottle } from '../observability/log/throttle.js'
import { loadOrCreateKeySecret } from '../startup/stored-secrets.js'
import type { WorkerRing } from '../workers/worker-ring.js'
import { CounterSnapshots, formerSnapshots, snapshotFile } from './counter-snapshots.js'
import { findPeers } from './find-peers.js'
import type { CounterStore } from './open-store.js'
import { PeerList } from './peer-list.js'
import { registerRingMetrics } from './ring-metrics.js'
import { observeStore } from './store-events.js'
import { registerStoreMetrics } from './store-metrics.js'
import type { StoreDeps } from './store-observer.js'

/**
 * How long a decision waits for another worker. Nothing is lost between processes of one machine,
 * so a late answer means that all of them are busy, and then waiting is better than a posture.
 */
const WORKER_DEADLINE_MS = 250
/** How often the list of members is read. */
const POLL_MS = 1000

type RingFiles = Pick<Config, 'dataDir' | 'maxCounters' | 'keySecret' | 'workers'>

export interface RingPlace {
  /** Of this worker, from 0 on. */
  readonly place: number
  /** Undefined where counters are in Redis. */
  readonly ring: WorkerRing | undefined
}

/** Rejects if this worker cannot be asked by the others. */
export function openWorkerRing(
  config: RingFiles,
  { place, ring }: RingPlace & { readonly ring: WorkerRing },
  deps: StoreDeps,
): Promise<CounterStore> {
  const { name, address } = ring.self
  const member = { self: name, listen: address, members: ring, deadlineMs: WORKER_DEADLINE_MS }
  return openMember(config, { member, place, kind: 'worker', onClosed: () => {} }, deps)
}

/** Rejects if this node cannot be asked by the others, or the certificates do not fit. */
export async function openNodeRing(
  config: RingFiles & { readonly ring: RingConfig },
  deps: StoreDeps,
): Promise<CounterStore> {
  const { listen, advertise, peers, deadlineMs, tls } = config.ring
  const pem = tls && { ...(await readPem(tls)) }
  const members = new PeerList({ self: advertise, nowMs: monotonicMs })
  const throttle = createThrottle(deps.clock)
  const poll = async () => {
    try {
      members.update(await findPeers(peers, advertise))
    } catch (error) {
      members.refresh()
      if (throttle.pass('peers') === undefined) return
      deps.log.warn(
        { problem: messageOf(error) },
        'ring: list of members not read; the last one stays',
      )
    }
  }
  await poll()
  const polling = new PeriodicTask(POLL_MS, poll, systemScheduler)
  polling.start('later')
  const member = {
    self: members.self.name,
    listen,
    members,
    deadlineMs,
    tls: pem && { ca: pem.ca ?? '', cert: pem.cert ?? '', key: pem.key ?? '' },
  }
  const onClosed = () => polling.stop()
  return openMember(config, { member, place: 0, kind: 'node', onClosed }, deps)
}

interface MemberDeps {
  readonly member: Omit<RingStoreOptions, 'secret' | 'maxCounters' | 'observer'>
  readonly place: number
  readonly kind: 'worker' | 'node'
  readonly onClosed: () => void
}

async function openMember(
  { dataDir, maxCounters, keySecret, workers }: RingFiles,
  { member, place, kind, onClosed }: MemberDeps,
  deps: StoreDeps,
): Promise<CounterStore> {
  const secret = keySecret ?? loadOrCreateKeySecret(dataDir, deps.log)
  const events = observeStore(deps, member.deadlineMs ?? DEFAULT_DEADLINE_MS)
  const store = ringStore({ ...member, secret, maxCounters, observer: events.observer })
  await store.ready
  registerStoreMetrics(deps.registry, {
    health: () => store.health(),
    name: member.self,
    merge: 'sum',
  })
  registerRingMetrics(deps.registry, () => store.ringStats())
  return {
    store,
    secret,
    name: kind === 'worker' ? 'memory of all workers' : `a ring, as ${member.self}`,
    describe: () => describe(store, kind),
    ring: () => store.ringStats(),
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
        // What another member has taken over is saved by that one.
        await store.leave()
        onClosed()
        await snapshots.close()
      }
    },
  }
}

function describe(store: RingStore, kind: 'worker' | 'node'): string {
  const nodes = store.health().remote?.nodes ?? []
  const silent = nodes.filter(({ isAnswering }) => !isAnswering).length
  const members = `memory of ${nodes.length} ${kind}${nodes.length === 1 ? '' : 's'}`
  return silent === 0 ? members : `${members}, ${silent} not answering`
}
