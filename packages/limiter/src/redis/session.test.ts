import { afterAll, beforeAll, expect, test } from 'vitest'
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
}, 20_000)
