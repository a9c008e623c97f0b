/** Calls that the gateway delays, with counters in Redis: many are decided at the same time. */
import { connect, type Socket } from 'node:net'
import { once } from 'node:events'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { type RedisServer, startRedis } from '../../../../../tools/redis/server.mjs'
import { startTestServer, type TestServer } from '../../serve.test-helper.js'
import { sendRequest } from './forward.test-helper.js'

const MAX_HELD = 2
const CLIENTS = 24
const PAUSE_MS = 1000
const SOON = { timeout: 20_000, interval: 20 }
const RULES = [
  {
    id: 'slow',
    by: [],
    posture: 'closed',
    limits: [{ algorithm: 'leaky-bucket', max: 1, window: '1m', queue: 50, maxWait: '1h' }],
  },
]

let redis: RedisServer
let server: TestServer
const sockets: Socket[] = []
beforeAll(async () => {
  redis = await startRedis()
})
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy()
  await server.close()
})
afterAll(() => redis.stop())

async function connected(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  sockets.push(socket)
  await once(socket, 'connect')
  return socket
}

test('no more calls are held than maxHeld, also of those that Redis decides at the same time', async () => {
  server = await startTestServer({
    rules: RULES,
    config: { gateway: { maxHeld: MAX_HELD } },
    env: { SLUICE_REDIS_URL: redis.url, SLUICE_STORE_DEADLINE_MS: '10000' },
  })
  const clients = await Promise.all(
    Array.from({ length: CLIENTS }, () => connected(server.gatewayPort)),
  )
  let refused = 0
  for (const client of clients) {
    client.once('data', (data) => {
      if (data.toString().startsWith('HTTP/1.1 429')) refused += 1
    })
  }
  // Redis answers none of them before all have come.
  await redis.call('CLIENT', 'PAUSE', String(PAUSE_MS), 'ALL')
  for (const client of clients) client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  const held = async () => {
    const { body } = await sendRequest(server.adminPort, { path: '/metrics' })
    return Number(/^sluice_held_calls (\d+)$/m.exec(body.toString())?.[1])
  }
  // Every call is forwarded, refused or held.
  await vi.waitFor(async () => {
    expect(server.calls.length + refused + (await held())).toBe(CLIENTS)
  }, SOON)
  expect(server.calls).toHaveLength(1)
  expect(await held()).toBeLessThanOrEqual(MAX_HELD)

  // A place is free again once a client has left.
  for (const client of clients) client.destroy()
  await vi.waitFor(async () => expect(await held()).toBe(0), SOON)
  const next = await connected(server.gatewayPort)
  next.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await vi.waitFor(async () => expect(await held()).toBe(1), SOON)
})
