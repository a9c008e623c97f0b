import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type RedisCluster, startCluster } from '../../../../tools/redis/cluster.js'
import { redisStore } from './index.js'
import { HOME_SLOT } from './secret.js'

let cluster: RedisCluster
beforeAll(async () => {
  cluster = await startCluster({ primaries: 3, replicas: 0 })
}, 60_000)
afterAll(() => cluster.stop())

test('a start that waits for the slot of its keys goes on when a node takes it', async () => {
  const primaries = await cluster.primaries()
  const slot = String(HOME_SLOT)
  for (const primary of primaries) await primary.call('CLUSTER', 'DELSLOTS', slot)
  const store = redisStore({ url: cluster.url, deadlineMs: 10_000 })
  try {
    while (store.stats().nodes.filter(({ isAnswering }) => isAnswering).length < 3) {
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    expect(store.stats().state).toBe('starting')
    const [first] = primaries
    await first?.call('CLUSTER', 'ADDSLOTS', slot)
    await store.ready
    expect(store.stats().state).toBe('ready')
  } finally {
    await store.close()
  }
}, 60_000)

test('a store tells its time and how sure that is, and each of its nodes has its own place', async () => {
  const open = () => redisStore({ url: cluster.url, prefix: 'places', clockToleranceMs: 250 })
  const stores = [open(), open(), open()]
  try {
    expect(stores[0]?.remote.uncertaintyUs?.()).toBe(Infinity)
    await Promise.all(stores.map(({ ready }) => ready))
    for (const { remote } of stores) {
      // Of servers on one machine: never far apart, and never certain.
      expect(remote.uncertaintyUs?.()).toBeGreaterThan(0)
      expect(remote.uncertaintyUs?.()).toBeLessThan(60_000_000)
      expect(remote.clockToleranceMs).toBe(250)
    }
    await vi.waitFor(
      () => {
        const places = stores.map(({ remote }) => remote.fleetPlace?.())
        expect(new Set(places)).toEqual(new Set([0, 1, 2]))
      },
      { timeout: 30_000, interval: 10 },
    )
  } finally {
    await Promise.all(stores.map((store) => store.close()))
  }
}, 60_000)
