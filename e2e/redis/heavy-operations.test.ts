/**
 * Operations that are expensive for Redis share a script with no others, and none blocks it for
 * long.
 */
import { defineLimit } from '@sluice/core'
import { createLimiter } from '@sluice/limiter'
import { type RedisStore, redisStore } from '@sluice/limiter/redis'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../tools/redis/server.mjs'

/** Long enough that a busy machine answers in time. */
const DEADLINE_MS = 20_000
const ENTRIES = 10_000
const TOGETHER = 64

const log = defineLimit({ algorithm: 'sliding-window-log', max: ENTRIES, windowMs: 86_400_000 })
const bucket = defineLimit({ algorithm: 'token-bucket', max: 1_000_000, windowMs: 60_000 })
const key = (n: number) => ({ hi: n, lo: n, partition: 3 })

let server: RedisServer
let first: RedisStore
let second: RedisStore
const opened: string[] = []

beforeAll(async () => {
  server = await startRedis()
  const observer = { breakerOpened: (address: string) => void opened.push(address) }
  const options = { url: server.url, deadlineMs: DEADLINE_MS, denyCacheMs: 0, observer }
  first = redisStore(options)
  second = redisStore(options)
  await Promise.all([first.ready, second.ready])
})
afterAll(async () => {
  await Promise.all([first.close(), second.close()])
  await server.stop()
})
beforeEach(() => server.cli('CONFIG', 'RESETSTAT'))

/** The number of scripts so far, and their total time in microseconds. */
async function scripts(): Promise<{ readonly calls: number; readonly us: number }> {
  const stats = await server.info('commandstats')
  const found = ['evalsha', 'eval'].map((command) => stats[`cmdstat_${command}`] ?? '')
  const sum = (name: string) =>
    found.reduce((all, text) => all + Number(new RegExp(`${name}=(\\d+)`).exec(text)?.[1] ?? 0), 0)
  return { calls: sum('calls'), us: sum('usec') }
}

const times = <Value>(count: number, make: (n: number) => Promise<Value>) =>
  Promise.all(Array.from({ length: count }, (_, n) => make(n)))

/** A log of 10,000 instants; returns when its first entries were made. */
async function fill(counter: number): Promise<readonly number[]> {
  const made: number[] = []
  for (let n = 0; n < ENTRIES - 1; n++) {
    const [[outcome] = []] = await first.take([[{ key: key(counter), limit: log, amount: 1 }]])
    if (typeof outcome === 'object' && made.length < TOGETHER) made.push(outcome.at)
  }
  return made
}

test('peeks of long logs cost about as much as takes of buckets, and do not delay other calls', async () => {
  await fill(1)
  await server.cli('CONFIG', 'RESETSTAT')
  await times(TOGETHER, (n) => second.take([[{ key: key(100 + n), limit: bucket, amount: 1 }]]))
  const buckets = await scripts()
  await server.cli('CONFIG', 'RESETSTAT')
  const victim = times(TOGETHER, (n) =>
    second.take([[{ key: key(200 + n), limit: bucket, amount: 1 }]]),
  )
  await times(TOGETHER, () => first.peek([[{ key: key(1), limit: log, amount: 1 }]]))
  const answers = await victim
  const logs = await scripts()
  expect(answers.flat(2).every((answer) => typeof answer === 'object')).toBe(true)
  // Each peek used to read and send 10,000 entries: 3,000 times the cost of a take.
  expect(logs.us / (2 * TOGETHER)).toBeLessThan((100 * buckets.us) / TOGETHER)
  expect(opened).toEqual([])
})

test('refunds of old receipts of a long log are sent alone, and takes do not wait for all of them', async () => {
  const made = await fill(2)
  await server.cli('CONFIG', 'RESETSTAT')
  let given = 0
  const gives = made.map((at) =>
    first.give({ key: key(2), limit: log, amount: 1, at }).then(
      () => {
        given += 1
      },
      // A give has a second; one that was not sent by then was not done.
      () => {},
    ),
  )
  const [[taken] = []] = await first.take([[{ key: key(3), limit: bucket, amount: 1 }]])
  expect(typeof taken).toBe('object')
  expect(given).toBeLessThan(TOGETHER / 2)
  await Promise.all(gives)
  expect(given).toBeGreaterThan(0)
  expect((await scripts()).calls).toBeGreaterThanOrEqual(given)
})

test('explain and inspect show at most 64 instants of a long log, with all its units', async () => {
  const limiter = createLimiter({
    rules: [
      {
        id: 'logins',
        by: ['user'],
        limits: [{ algorithm: 'sliding-window-log', max: 1000, window: '1h' }],
      },
    ],
    store: redisStore({ url: server.url, deadlineMs: DEADLINE_MS, prefix: 'shown' }),
  })
  await limiter.ready()
  const call = { attributes: { user: 'u1' } }
  for (let n = 0; n < 200; n++) await limiter.check(call)
  const { explain } = await limiter.explain(call)
  const state = explain?.[0]?.limits[0]?.state as readonly number[]
  expect(state.length).toBeLessThanOrEqual(128)
  expect(state.reduce((sum, number, i) => (i % 2 === 1 ? sum + number : sum), 0)).toBe(200)
  const { counters } = await limiter.inspect('logins', call)
  expect(counters[0]?.state).toMatchObject({ units: 200 })
  await limiter.close()
})
