import { afterAll, beforeAll, expect, test } from 'vitest'
import { type RedisCluster, startCluster } from '../../../../tools/redis/cluster.js'
import { redisStore } from '../redis/index.js'
import { manualClock } from '../testing/index.js'
import { readDropInOptions } from './drop-in-options.js'
import { HitCounter } from './hit-counter.js'

const HIT = { windowMs: 60_000, amount: 1, holds: true }

let cluster: RedisCluster
beforeAll(async () => {
  cluster = await startCluster({ primaries: 3, replicas: 0 })
})
afterAll(() => cluster.stop())

test('hits, holds and restarts of many keys are counted on a Cluster', async () => {
  const clock = manualClock()
  const store = redisStore({ url: cluster.url, clock, deadlineMs: 10_000 })
  const counter = new HitCounter('test', readDropInOptions({ store, clock }, 'test'))
  await counter.ready()
  const names = Array.from({ length: 20 }, (_, i) => [`key${i}`])
  for (const name of names) {
    await counter.count(name, HIT)
    const second = await counter.count(name, HIT)
    expect(second).toMatchObject({ hits: 2, resetMs: 60_000, isLocal: false })
    await counter.hold(name, 7, 90_000, second.at)
  }
  clock.advance(30_000)
  for (const name of names) {
    const held = await counter.count(name, { ...HIT, countsHeld: true })
    expect(held).toMatchObject({ hits: 8, resetMs: 60_000, isHeld: true })
    await counter.restart(name, HIT.windowMs, held)
    expect(await counter.read(name, HIT.windowMs)).toMatchObject({ hits: 8, resetMs: 60_000 })
    await counter.reset(name)
    expect((await counter.read(name, HIT.windowMs, true)).hits).toBe(0)
  }
  await counter.close()
})
