/** A Redis behind a slow network: it answers before the deadline, but an alert must fire. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type FaultProxy, startFaultProxy } from '../../tools/redis/fault-proxy.js'
import { type RedisServer, startRedis } from '../../tools/redis/server.mjs'
import { stopAll } from '../process.test-helper.js'
import { AlertReceiver } from './alert-receiver.test-helper.js'
import { check, repeatEvery, startAlertingServer } from './alerting-server.test-helper.js'

const DEADLINE_MS = 400
/** Delay in each direction, so that a round trip takes more than half the deadline. */
const DELAY_MS = 110
/** A single caller would wait for each answer and send too few batches. */
const CLIENTS = 8

let redis: RedisServer
let proxy: FaultProxy
const receiver = new AlertReceiver()

beforeAll(async () => {
  redis = await startRedis()
  proxy = await startFaultProxy(redis.port)
})
afterEach(stopAll)
afterAll(async () => {
  await receiver.close()
  await proxy.stop()
  await redis.stop()
})

test('a Redis that takes more than half the deadline raises an alert, which resolves when it is fast again', {
  timeout: 120_000,
}, async () => {
  const watched = await startAlertingServer({
    url: await receiver.open(),
    config: { redis: { url: proxy.url, deadline: `${DEADLINE_MS}ms` } },
    rules: [{ id: 'per-user', by: ['user'], limits: ['1000000/hour'] }],
  })
  const clients = Array.from({ length: CLIENTS }, (_, i) =>
    repeatEvery(5, () => check(watched.api, [{ user: `u${i}` }])),
  )
  proxy.delay(DELAY_MS)
  const begun = await receiver.waitForState('store-slow', 'firing')
  expect(begun).toMatchObject({
    subject: proxy.address,
    severity: 'ticket',
    details: { store: proxy.address, deadlineMs: DEADLINE_MS, slowMs: DEADLINE_MS / 2 },
  })
  expect((await watched.operator.sluice('alerts')).out).toContain('store-slow')
  await proxy.heal()
  const over = await receiver.waitForState('store-slow', 'resolved')
  expect(over.summary).toContain('was above')
  await Promise.all(clients.map((end) => end()))
  receiver.expectFiredOnce('store-slow')
})
