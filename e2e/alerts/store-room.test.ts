/** A Redis that runs out of memory and evicts counters. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../tools/redis/server.mjs'
import { stopAll } from '../process.test-helper.js'
import { AlertReceiver } from './alert-receiver.test-helper.js'
import {
  check,
  repeatEvery,
  startAlertingServer,
  type AlertingServer,
} from './alerting-server.test-helper.js'

/**
 * Free memory with which used memory is above 80 % of the maximum, with little left for counters.
 */
const ROOM_BYTES = 150_000
const PLENTY = '1gb'
const CALLERS_AT_ONCE = 1000
/** A minute without evictions, and the samples before and after it. */
const EVICTIONS_MS_MAX = 120_000

const receiver = new AlertReceiver()
let redis: RedisServer
let server: AlertingServer

beforeAll(async () => {
  redis = await startRedis({ config: ['--maxmemory-policy', 'allkeys-lru'] })
  server = await startAlertingServer({
    url: await receiver.open(),
    config: { redis: { url: redis.url, allowEviction: true, deadline: '2s' } },
    rules: [{ id: 'per-user', by: ['user'], limits: ['100/hour'] }],
  })
})

afterAll(async () => {
  await stopAll()
  await receiver.close()
  await redis.stop()
})

/** Every caller calls once, so each call creates a counter. */
function callersCome(everyMs: number): () => Promise<void> {
  return repeatEvery(everyMs, () =>
    check(
      server.api,
      Array.from({ length: CALLERS_AT_ONCE }, () => ({ user: `u${callers++}` })),
    ),
  )
}

let callers = 0

test('memory above 80 % of its maximum raises an alert until the maximum is raised', {
  timeout: 150_000,
}, async () => {
  const { usedBytes } = await redis.memory()
  await redis.cli('CONFIG', 'SET', 'maxmemory', String(usedBytes + ROOM_BYTES))
  const full = await receiver.waitForState('store-memory:', 'firing')
  expect(full).toMatchObject({
    severity: 'page',
    subject: redis.address,
    details: { store: redis.address, maxBytes: usedBytes + ROOM_BYTES },
  })

  // While it is full anyway: evicted counters raise an alert of their own.
  const stop = callersCome(200)
  const evicted = await receiver.waitForState('store-evictions:', 'firing')
  await stop()
  expect(evicted).toMatchObject({ severity: 'page', subject: redis.address })
  expect(Number(evicted.details['evicted'])).toBeGreaterThan(0)
  expect(Number((await redis.info('stats'))['evicted_keys'])).toBeGreaterThan(0)

  await redis.cli('CONFIG', 'SET', 'maxmemory', PLENTY)
  await receiver.waitForState('store-memory:', 'resolved')
  receiver.expectFiredOnce('store-memory:')
  expect(receiver.accepted('store-evictions:')).toHaveLength(1)
})

test('the eviction alert resolves after a minute without evictions, however many callers come', {
  timeout: EVICTIONS_MS_MAX + 10_000,
}, async () => {
  const stop = callersCome(2000)
  const over = await receiver.waitForState('store-evictions:', 'resolved', EVICTIONS_MS_MAX)
  await stop()
  expect(Date.parse(over.resolvedAt ?? '') - Date.parse(over.since)).toBeGreaterThan(59_000)
  receiver.expectFiredOnce('store-memory:', 'store-evictions:')
  await server.expectLogged('alert', 'store-evictions', [{ level: 'error' }])
  await server.expectLogged('alert over', 'store-evictions', [{}])
})
