/** Two nodes, one of which remembers refusals: which ones, and for how long. */
import { createLimiter, type Limiter } from '@sluice/limiter'
import { redisStore } from '@sluice/limiter/redis'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { startRedis, type RedisServer } from '../../tools/redis/server.mjs'

const DENY_MS = 1000
const rule = (max: number) => [
  {
    id: 'all',
    by: ['user'],
    limits: [{ algorithm: 'fixed-window', max, window: '366d', name: 'all' }],
  },
]
const call = { attributes: { user: 'ann' } }

let server: RedisServer
let nodeA: Limiter
let nodeB: Limiter
let prefixes = 0

beforeAll(async () => {
  server = await startRedis()
})
afterAll(() => server.stop())
beforeEach(async () => {
  prefixes += 1
  const make = () =>
    createLimiter({
      rules: rule(10),
      store: redisStore({
        url: server.url,
        prefix: `test${prefixes}`,
        deadlineMs: 10_000,
        denyCacheMs: DENY_MS,
      }),
    })
  nodeA = make()
  nodeB = make()
  await Promise.all([nodeA.ready(), nodeB.ready()])
  await nodeA.check({ ...call, cost: 9 })
  await nodeA.check(call)
  await expectRefusedByA(call)
})
afterEach(() => Promise.all([nodeA.close(), nodeB.close()]))

type CallWithCost = typeof call & { readonly cost?: number }

/** Refused by the store, and then by the deny cache, unless its entry expired before. */
async function expectRefusedByA(first: CallWithCost, then = first): Promise<void> {
  let storeMs = performance.now()
  const { allowed, source } = await nodeA.check(first)
  expect([allowed, source]).toEqual([false, 'store'])
  for (;;) {
    const askedMs = performance.now()
    const again = await nodeA.check(then)
    const isOver = again.source === 'store' && performance.now() - storeMs > DENY_MS / 2
    if (!isOver) return expect([again.allowed, again.source]).toEqual([false, 'deny-cache'])
    storeMs = askedMs
  }
}

/**
 * How long after `change` began the last remembered refusal was requested. A slow machine requests
 * later, but an expired entry never answers.
 */
async function lastRefusalMs(change: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now()
  let lastMs = startedMs
  await change()
  for (;;) {
    const askedMs = performance.now()
    const { allowed, source } = await nodeA.check(call)
    if (allowed) return lastMs - startedMs
    expect(source).toBe('deny-cache')
    lastMs = askedMs
  }
}

test('a reset on another node is seen within a second, and refusals until then come from memory', async () => {
  expect(await lastRefusalMs(() => nodeB.reset(call))).toBeLessThanOrEqual(DENY_MS)
})

test('a refund on another node is seen within a second', async () => {
  expect(await lastRefusalMs(() => nodeB.refund(call))).toBeLessThanOrEqual(DENY_MS)
})

test('a reset, a refund and a raised limit on the same node are seen at once', async () => {
  await nodeA.refund(call)
  expect((await nodeA.check(call)).allowed).toBe(true)
  expect((await nodeA.check(call)).allowed).toBe(false)
  await nodeA.reset(call)
  expect((await nodeA.check({ ...call, cost: 10 })).allowed).toBe(true)
  expect((await nodeA.check(call)).allowed).toBe(false)
  nodeA.setRules(rule(11))
  expect((await nodeA.check(call)).allowed).toBe(true)
})

test('a smaller cost that fits is never refused because of a larger one', async () => {
  await nodeA.reset(call)
  await nodeA.check({ ...call, cost: 7 })
  await expectRefusedByA({ ...call, cost: 5 }, { ...call, cost: 4 })
  const small = await nodeA.check({ ...call, cost: 3 })
  expect([small.allowed, small.source]).toEqual([true, 'store'])
})

test('a blocked caller costs the store about one call a second', async () => {
  const calls = async () =>
    Number(/cmdstat_evalsha:calls=(\d+)/.exec(await server.cli('INFO', 'commandstats'))?.[1] ?? 0)
  const before = await calls()
  const startedMs = performance.now()
  let refused = 0
  while (performance.now() < startedMs + 2000 || refused <= 1000) {
    for (let n = 0; n < 100; n++) if (!(await nodeA.check(call)).allowed) refused += 1
    await new Promise(setImmediate)
  }
  const asked = (await calls()) - before
  // Both nodes send two heartbeats a second.
  const lastedS = (performance.now() - startedMs) / 1000
  const beats = 2 * 2 * (lastedS + 2)
  expect(asked).toBeLessThanOrEqual(lastedS + 2 + beats)
})
