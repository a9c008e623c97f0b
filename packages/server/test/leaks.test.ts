import { connect } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { startTestServer, type TestServer } from '../src/serve.test-helper.js'
import { sendRequest } from '../src/entrypoints/gateway/forward.test-helper.js'

setFlagsFromString('--expose_gc')
const collect = runInNewContext('gc') as () => void

const BATCH = 200

let server: TestServer
beforeAll(async () => {
  server = await startTestServer({
    rules: [
      {
        id: 'paced',
        match: { path: '/held' },
        by: ['ip'],
        limits: [
          { algorithm: 'leaky-bucket', max: 1, window: '1h', queue: 10_000, maxWait: '366d' },
        ],
      },
      { id: 'log', match: { path: '/slow' }, by: [], limits: ['1000000/second'] },
    ],
    upstream: (request, response) => {
      if (request.url === '/reset') request.socket.destroy()
      else if (request.url === '/half') {
        response.write('half of it')
        setImmediate(() => request.socket.destroy())
      } else if (request.url !== '/slow') response.end('ok')
    },
  })
})
afterAll(() => server.close())

/** One client that disconnects: before its response, or after the upstream has failed. */
function visit(head: string, leaveAfterMs: number): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(server.gatewayPort, '127.0.0.1')
    socket.on('error', () => {})
    socket.on('close', () => resolve())
    socket.on('connect', () => {
      socket.write(
        `${head}\r\nHost: a\r\nContent-Length: 4\r\n\r\n${'body'.slice(0, leaveAfterMs % 5)}`,
      )
      setTimeout(() => socket.destroy(), leaveAfterMs)
    })
    socket.resume()
  })
}

async function visits(count: number): Promise<void> {
  const heads = ['POST /slow', 'POST /held', 'POST /reset', 'GET /half', 'GET /slow']
  for (let done = 0; done < count; done += BATCH) {
    await Promise.all(
      Array.from({ length: BATCH }, (_, i) => visit(`${heads[i % heads.length]} HTTP/1.1`, i % 30)),
    )
    // Bounds the memory of the test itself, which records calls and log lines.
    server.calls.length = 0
    server.lines.length = 0
  }
}

interface Left {
  readonly heap: number
  readonly timers: number
  readonly sockets: number
  readonly held: string | undefined
}

async function left(): Promise<Left> {
  const { body } = await sendRequest(server.adminPort, { path: '/metrics' })
  // The callbacks of closed sockets become garbage only after a few turns of the event loop.
  for (let turn = 0; turn < 5; turn++) {
    collect()
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  const resources = process.getActiveResourcesInfo()
  const count = (name: string) => resources.filter((resource) => resource === name).length
  return {
    heap: process.memoryUsage().heapUsed,
    timers: count('Timeout'),
    sockets: count('TCPSocketWrap'),
    held: /^sluice_held_calls (\d+)$/m.exec(body.toString())?.[1],
  }
}

test('10^4 disconnecting clients, over slow, resetting and half-way upstreams, leak nothing', async () => {
  await visits(2000)
  const before = await left()
  await visits(10_000)
  // Connections to the upstream are kept for a few seconds.
  await vi.waitFor(
    async () => {
      const after = await left()
      expect(after.held).toBe('0')
      expect(after.heap / before.heap).toBeLessThan(1.05)
      expect(after.timers).toBeLessThanOrEqual(before.timers + 2)
      expect(after.sockets).toBeLessThanOrEqual(before.sockets + 2)
    },
    { timeout: 20_000, interval: 500 },
  )
  // Every place in the queue is free again, including that of a client whose end is noticed last.
  await vi.waitFor(
    async () => {
      const { body } = await sendRequest(server.gatewayPort, { path: '/_sluice/limits' })
      const { limits } = JSON.parse(body.toString()) as {
        limits: { rule: string; remaining: number }[]
      }
      expect(limits.find(({ rule }) => rule === 'paced')?.remaining).toBe(10_000)
    },
    { timeout: 20_000, interval: 500 },
  )
})
