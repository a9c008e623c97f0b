import { defineLimit } from '@sluice/core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startFaultProxy } from '../../../../tools/redis/fault-proxy.js'
import { type RedisServer, startRedis } from '../../../../tools/redis/server.mjs'
import { redisStore, type RedisStore, type RedisStoreOptions } from './index.js'

let server: RedisServer
beforeAll(async () => {
  server = await startRedis()
})
afterAll(() => server.stop())
const stores: RedisStore[] = []
const open = (o: Partial<RedisStoreOptions> = {}) => {
  const s = redisStore({ url: server.url, ...o })
  stores.push(s)
  return s
}
const ten = defineLimit({ algorithm: 'fixed-window', max: 10_000, windowMs: 3_600_000 })
const take = (n: number) => ({ key: { hi: n, lo: n, partition: 0 }, limit: ten, amount: 1 })

test('an observer that throws', async () => {
  const store = open({
    deadlineMs: 500,
    observer: {
      batch: () => {
        throw new Error('observer')
      },
    },
  })
  await store.ready
  const seen: unknown[] = []
  for (let i = 0; i < 10; i++) seen.push((await store.take([[take(1)]]))[0]?.[0])
  await store.close()
  console.log(seen.map((s) => (typeof s === 'string' ? s : 'ok')).join(' '))
  expect(seen.every((s) => typeof s === 'object')).toBe(true)
})

test('ready of a store closed before', async () => {
  const store = redisStore({ url: 'redis://127.0.0.1:1' })
  await store.close()
  const r = await Promise.race([
    store.ready.then(
      () => 'ok',
      () => 'rejected',
    ),
    new Promise((f) => setTimeout(f, 1000, 'never')),
  ])
  expect(r).toBe('rejected')
})

test('mixed deadlines', async () => {
  const proxy = await startFaultProxy(server)
  const store = open({ url: proxy.url, deadlineMs: 1000 })
  await store.ready
  proxy.delay(4)
  const long: string[] = []
  for (let i = 0; i < 60; i++) {
    const a = store.take([[take(2)]], { deadlineMs: 2 })
    const b = store.take([[take(3)]])
    void a
    const r = (await b)[0]?.[0]
    long.push(typeof r === 'string' ? r : 'ok')
  }
  console.log(long.join(' '))
  await store.close()
  await proxy.close()
  expect(long.filter((l) => l !== 'ok')).toEqual([])
})

test('breaker closes for long deadlines', async () => {
  const proxy = await startFaultProxy(server)
  const store = open({ url: proxy.url, deadlineMs: 20 })
  await store.ready
  proxy.delay(30)
  const ask = async () => (await store.take([[take(4)]], { deadlineMs: 500 }))[0]?.[0]
  await ask()
  expect(typeof (await ask())).toBe('object')
  proxy.hold()
  const end = performance.now() + 2000
  while (performance.now() < end) {
    void ask()
    await new Promise((f) => setTimeout(f, 20))
  }
  proxy.heal()
  proxy.delay(30)
  const seen: string[] = []
  for (let i = 0; i < 30; i++) {
    await new Promise((f) => setTimeout(f, 100))
    seen.push(typeof (await ask()))
  }
  console.log(seen.join(' '), store.stats().nodes)
  await store.close()
  await proxy.close()
  expect(seen.at(-1)).toBe('object')
}, 20_000)

test('misuse', async () => {
  const store = open()
  await store.ready
  await expect(store.give({ ...take(1), at: 1.5 })).rejects.toThrow(/at/)
  await store.close()
})
