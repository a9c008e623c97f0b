/** How counters are stored in hashes. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type CounterKey, defineLimit } from '@sluice/core'
import {
  type BatchRedis,
  fieldOf,
  outcomesOf,
  peekOf,
  startBatchRedis,
  takeOf,
} from './redis.test-helper.js'
import type { StoreOp } from './batch-request.js'

const NOW = 1_767_225_600_000_000
const SHARED = 7
/** All in one hash. */
const keyIn = (n: number): CounterKey => ({ hi: n, lo: (n << 10) + SHARED, partition: 4 })
const [hash] = fieldOf(keyIn(0))

const minutely = defineLimit({ algorithm: 'fixed-window', max: 5, windowMs: 60_000 })
const daily = defineLimit({ algorithm: 'fixed-window', max: 5, windowMs: 86_400_000 })

let redis: BatchRedis
beforeAll(async () => {
  redis = await startBatchRedis()
})
beforeEach(() => redis.client.flushall())
afterAll(() => redis.stop())

const run = (ops: readonly StoreOp[], now: number) =>
  redis.run('packed', [{ ops, times: { notAfter: 0, now } }])

test('a counter is a field of 8 bytes and a value of at most 20, in a compact hash', async () => {
  const limits = [
    minutely,
    defineLimit({ algorithm: 'token-bucket', max: 100, windowMs: 60_000 }),
    defineLimit({ algorithm: 'leaky-bucket', max: 100, windowMs: 60_000 }),
    defineLimit({ algorithm: 'sliding-window-counter', max: 1_000_000, windowMs: 60_000 }),
  ]
  const takes = Array.from({ length: 120 }, (_, n) =>
    takeOf(keyIn(n), limits[n % limits.length] ?? minutely),
  )
  await run(takes, NOW)
  const fields = await redis.client.hgetallBuffer(hash)
  expect(Object.keys(fields)).toHaveLength(120)
  expect(await redis.client.object('ENCODING', hash)).toBe('listpack')
  for (const value of Object.values(fields)) expect(value.length).toBeLessThanOrEqual(20)
  const [, field] = fieldOf(keyIn(3))
  expect(await redis.client.hexists(hash, field)).toBe(1)
  expect(await redis.client.dbsize()).toBe(1)
})

test('the TTL of a hash is set at first and then only ever raised', async () => {
  await run([takeOf(keyIn(1), minutely)], NOW)
  const first = await redis.client.pttl(hash)
  expect(first).toBeGreaterThan(100_000)
  expect(first).toBeLessThanOrEqual(140_000)
  await run([takeOf(keyIn(2), daily)], NOW)
  expect(await redis.client.pttl(hash)).toBeGreaterThan(86_400_000)
  await run([takeOf(keyIn(3), minutely)], NOW)
  expect(await redis.client.pttl(hash)).toBeGreaterThan(86_400_000)
})

test('a hash of more than 128 counters loses expired ones and no others', async () => {
  const live = Array.from({ length: 60 }, (_, n) => takeOf(keyIn(n), daily, 2))
  const dead = Array.from({ length: 90 }, (_, n) => takeOf(keyIn(1000 + n), minutely))
  await run([...live, ...dead], NOW)
  expect(await redis.client.hlen(hash)).toBe(150)
  const later = NOW + 120_000_000
  for (let n = 0; n < 8; n++) await run([takeOf(keyIn(2000 + n), minutely)], later)
  expect(await redis.client.hlen(hash)).toBeLessThanOrEqual(60 + 8)
  const replies = await run(
    live.map((_, n) => peekOf(keyIn(n), daily)),
    later,
  )
  for (const outcome of replies.flatMap(outcomesOf)) expect(outcome?.remaining).toBe(3)
})

test('a reset removes a value and a log', async () => {
  const log = defineLimit({ algorithm: 'sliding-window-log', max: 5, windowMs: 60_000 })
  await run([takeOf(keyIn(1), minutely), takeOf(keyIn(1), log), takeOf(keyIn(2), minutely)], NOW)
  await run([{ verb: 'reset', key: keyIn(1) }], NOW)
  const ops = [peekOf(keyIn(1), minutely), peekOf(keyIn(1), log), peekOf(keyIn(2), minutely)]
  const replies = await run(ops, NOW)
  expect(replies.flatMap(outcomesOf).map((outcome) => outcome?.remaining)).toEqual([5, 5, 4])
})
