import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type RedisCluster, startCluster } from '../../../../../tools/redis/cluster.js'
import { redisStore, storeAcl } from '../index.js'
import { HOME_SLOT } from './hash-secret.js'

let cluster: RedisCluster
beforeAll(async () => {
  cluster = await startCluster({ primaries: 3, replicas: 0 })
})
afterAll(() => cluster.stop())

test('a start that waits for the home slot continues when a node takes it', async () => {
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
})

test('a missing right to CLUSTER SLOTS rejects ready, and a fix is noticed', async () => {
  const primaries = await cluster.primaries()
  const setUser = (...words: readonly string[]) =>
    Promise.all(
      primaries.map((primary) =>
        primary.call('ACL', 'SETUSER', 'limiter', 'reset', 'on', '>a-password', ...words),
      ),
    )
  const acl = storeAcl('slotless').split(' ')
  await setUser(...acl, '-cluster|slots')
  const url = cluster.url.replace('://', '://limiter:a-password@')
  const store = redisStore({ url, prefix: 'slotless' })
  try {
    await expect(store.ready).rejects.toMatchObject({
      code: 'STORE_REFUSED',
      message: expect.stringMatching(/refuses CLUSTER SLOTS: NOPERM/),
    })
    await setUser(...acl)
    await vi.waitFor(() => expect(store.stats().state).toBe('ready'), { timeout: 30_000 })
  } finally {
    await store.close()
  }
})

test('a store knows its time and uncertainty, and each of its nodes has its own place', async () => {
  const open = () => redisStore({ url: cluster.url, prefix: 'places', clockToleranceMs: 250 })
  const stores = [open(), open(), open()]
  try {
    expect(stores[0]?.remote.uncertaintyUs?.()).toBe(Infinity)
    await Promise.all(stores.map(({ ready }) => ready))
    for (const { remote } of stores) {
      // Clocks of one machine are never far apart, and never certain.
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
})
