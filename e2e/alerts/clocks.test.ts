/**
 * A primary of a Cluster with a wrong clock, compared with this machine's and the other primary's.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type RedisCluster, startCluster } from '../../tools/redis/cluster.js'
import { type ShiftedRedis, startShiftedRedis } from '../../tools/redis/shifted.js'
import { stopAll } from '../process.test-helper.js'
import { AlertReceiver } from './alert-receiver.test-helper.js'
import { startAlertingServer, type AlertingServer } from './alerting-server.test-helper.js'

const AHEAD_MS = 200
/** On a busy machine each clock reading has a larger margin of error. */
const UNSURE_MS = 150

const nodes: ShiftedRedis[] = []
const receiver = new AlertReceiver()
let redis: RedisCluster
let server: AlertingServer

beforeAll(async () => {
  redis = await startCluster({
    primaries: 2,
    replicas: 0,
    async startNode(options) {
      const node = await startShiftedRedis(options)
      nodes.push(node)
      return node
    },
  })
  server = await startAlertingServer({
    url: await receiver.open(),
    config: { redis: { url: redis.url } },
    rules: [{ id: 'per-user', by: ['user'], limits: ['10/second'] }],
  })
})

afterAll(async () => {
  await stopAll()
  await receiver.close()
  await redis.stop()
})

test('a store clock that runs ahead raises clock alerts against this node and the other stores until it is corrected', {
  timeout: 150_000,
}, async () => {
  const [wrong, right] = nodes
  wrong?.shiftClock(AHEAD_MS)
  const spread = await receiver.waitForState('clock-spread:', 'firing')
  expect(spread).toMatchObject({
    severity: 'ticket',
    subject: '',
    details: { stores: [wrong?.address, right?.address] },
  })
  expect(Number(spread.details['spreadMs'])).toBeGreaterThan(AHEAD_MS - UNSURE_MS)
  const offset = await receiver.waitForState('clock-offset:', 'firing')
  expect(offset).toMatchObject({ severity: 'ticket', subject: wrong?.address })
  expect(Number(offset.details['offsetMs'])).toBeGreaterThan(AHEAD_MS - UNSURE_MS)
  const shown = await server.operator.sluice('alerts')
  expect(shown.code).toBe(1)
  expect(shown.out).toContain('ticket  clock-spread, for ')
  expect(shown.out).toContain(`ticket  clock-offset ${wrong?.address}, for `)

  wrong?.shiftClock(0)
  await receiver.waitForState('clock-spread:', 'resolved')
  await receiver.waitForState('clock-offset:', 'resolved')
  receiver.expectFiredOnce('clock-spread:', 'clock-offset:')
  for (const alert of ['clock-spread', 'clock-offset'] as const) {
    await server.expectLogged('alert', alert, [{ level: 'warn' }])
    await server.expectLogged('alert over', alert, [{ level: 'info' }])
  }
})
