/** The gateway counts a call as in flight until its answer was sent, whatever becomes of it. */
import { once } from 'node:events'
import type { RequestListener, ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { readMetrics, valueOf } from '../../observability/metrics/read-metrics.test-helper.js'
import {
  startTestServer,
  type TestServer,
  type TestServerOptions,
} from '../../serve.test-helper.js'

const SOON = { timeout: 20_000, interval: 10 }
const RULES = [{ id: 'in-flight', by: [], limits: [{ algorithm: 'concurrency', max: 1 }] }]

let server: TestServer | undefined
const sockets: Socket[] = []
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy()
  await server?.close()
  server = undefined
})

async function start(upstream?: RequestListener, options: TestServerOptions = {}) {
  const started = await startTestServer({
    rules: RULES,
    ...options,
    ...(upstream && { upstream }),
  })
  server = started
  const { gateway, admin, api, gatewayPort } = started
  const inFlight = async () => {
    const text = await (await fetch(`${admin}/metrics`)).text()
    return valueOf(readMetrics(text), 'sluice_in_flight', { rule: 'in-flight' })
  }
  const reach = (count: number) =>
    vi.waitFor(async () => expect(await inFlight()).toBe(count), SOON)
  const statusOf = async (path = '/', init?: RequestInit) => {
    const response = await fetch(`${gateway}${path}`, init)
    await response.text()
    return response.status
  }
  /** Sends bytes over a connection of its own. */
  const send = (...lines: readonly string[]): Socket => {
    const socket = connect(gatewayPort, '127.0.0.1')
    socket.on('error', () => {})
    sockets.push(socket)
    socket.write([...lines, '', ''].join('\r\n'))
    return socket
  }
  return { ...started, api, inFlight, reach, statusOf, send }
}

/** An upstream that answers /slow when the test says so, and all else at once. */
function slowUpstream() {
  const waiting: ServerResponse[] = []
  const upstream: RequestListener = (request, response) => {
    if (request.url === '/slow') waiting.push(response)
    else response.end('ok')
  }
  const next = async () => {
    await vi.waitUntil(() => waiting.length > 0, SOON)
    return waiting.shift() as ServerResponse
  }
  return { upstream, next }
}

const GET_SLOW = ['GET /slow HTTP/1.1', 'Host: a'] as const

describe('a call holds its place', () => {
  test('until its answer has been sent, and a call beyond the limit is told to retry', async () => {
    const { upstream, next } = slowUpstream()
    const { gateway, statusOf, reach } = await start(upstream)
    const slow = statusOf('/slow')
    const answer = await next()
    const refused = await fetch(`${gateway}/`)
    expect(refused.status).toBe(429)
    expect(refused.headers.get('retry-after')).toBe('1')
    expect(refused.headers.get('ratelimit-policy')).toBe('"in-flight";q=1;qu="concurrent-requests"')
    answer.end('done')
    expect(await slow).toBe(200)
    await reach(0)
    expect(await statusOf()).toBe(200)
  })

  test('while its answer is streamed', async () => {
    const { upstream, next } = slowUpstream()
    const { send, statusOf, reach } = await start(upstream)
    const client = send(...GET_SLOW)
    const answer = await next()
    answer.write('first')
    await once(client, 'data')
    expect(await statusOf()).toBe(429)
    answer.end('last')
    await reach(0)
    expect(await statusOf()).toBe(200)
  })

  test('once for each of several requests on one connection', async () => {
    const { upstream, next } = slowUpstream()
    const { send, reach } = await start(upstream)
    const client = send(...GET_SLOW)
    client.resume()
    for (let n = 0; n < 30; n++) {
      ;(await next()).end('done')
      await reach(0)
      client.write([...GET_SLOW, '', ''].join('\r\n'))
      await reach(1)
    }
    expect(client.listenerCount('close')).toBeLessThan(5)
  })

  test('until a WebSocket ends, and its messages hold none', async () => {
    const { gatewayPort, upstreamServer, reach } = await start()
    const chat = new WebSocketServer({ server: upstreamServer })
    chat.on('connection', (socket) => socket.on('message', (data) => socket.send(data)))
    const open = () => new WebSocket(`ws://127.0.0.1:${gatewayPort}/chat`)
    const socket = open()
    await once(socket, 'open')
    for (const text of ['1', '2', '3']) {
      socket.send(text)
      await once(socket, 'message')
    }
    await reach(1)
    const [error] = await once(open(), 'error')
    expect(String(error)).toContain('429')
    socket.close()
    await reach(0)
    const next = open()
    await once(next, 'open')
    next.terminate()
    await reach(0)
  })
})

describe('a call gives its place back', () => {
  test('when its client leaves, before and during the answer', async () => {
    const { upstream, next } = slowUpstream()
    const { send, reach } = await start(upstream)
    const early = send(...GET_SLOW)
    await next()
    early.destroy()
    await reach(0)
    const late = send(...GET_SLOW)
    ;(await next()).write('first')
    await once(late, 'data')
    late.destroy()
    await reach(0)
  })

  test('when its client leaves in the middle of an upload', async () => {
    const { send, reach } = await start((request) => void request.resume())
    const client = send('POST /slow HTTP/1.1', 'Host: a', 'Content-Length: 1000000')
    client.write('a part')
    await reach(1)
    client.destroy()
    await reach(0)
  })

  test('when requests wait behind others on a connection that ends', async () => {
    const { upstream, next } = slowUpstream()
    const { send, reach } = await start(upstream, {
      rules: [{ id: 'in-flight', by: [], limits: [{ algorithm: 'concurrency', max: 9 }] }],
    })
    const client = send(...GET_SLOW, '', ...GET_SLOW, '', ...GET_SLOW)
    await next()
    await reach(3)
    client.destroy()
    await reach(0)
  })

  test('when its upstream fails, before and during the answer', async () => {
    let isBegun = false
    const { statusOf, send, reach } = await start((request, response) => {
      if (request.url === '/begun') {
        response.write('first')
        isBegun = true
        setImmediate(() => request.socket.destroy())
      } else request.socket.destroy()
    })
    expect(await statusOf('/', { method: 'POST' })).toBe(502)
    await reach(0)
    send('GET /begun HTTP/1.1', 'Host: a')
    await vi.waitUntil(() => isBegun, SOON)
    await reach(0)
  })

  test('when its upstream is late', async () => {
    const { statusOf, reach } = await start(() => {}, {
      config: { gateway: { timeouts: { response: '1s' } } },
    })
    expect(await statusOf()).toBe(504)
    await reach(0)
  })

  test('when nobody serves its path, or its key is unknown', async () => {
    const { statusOf, reach } = await start(undefined, {
      config: {
        gateway: { upstreams: [{ prefix: '/served', url: 'http://127.0.0.1:9' }] },
        identity: { apiKey: { header: 'x-api-key', unknown: 'refuse' } },
      },
      env: { SLUICE_UPSTREAM: undefined },
    })
    expect(await statusOf('/other')).toBe(404)
    expect(await statusOf('/served', { headers: { 'x-api-key': 'guessed' } })).toBe(401)
    await reach(0)
  })

  test('when it is held, and its client leaves meanwhile', async () => {
    const limits = [
      { algorithm: 'concurrency', max: 5 },
      { algorithm: 'leaky-bucket', max: 1, window: '1h', queue: 3 },
    ]
    const { send, statusOf, reach } = await start(undefined, {
      rules: [{ id: 'in-flight', by: [], limits }],
    })
    expect(await statusOf()).toBe(200)
    const held = send('GET / HTTP/1.1', 'Host: a')
    await reach(1)
    held.destroy()
    await reach(0)
  })

  test('when a WebSocket is refused by its upstream, or cannot be opened', async () => {
    const { gatewayPort, upstreamServer, reach } = await start()
    upstreamServer.on('upgrade', (request, socket) => {
      if (request.url === '/refused')
        socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n')
      else socket.destroy()
    })
    for (const path of ['/refused', '/broken']) {
      const socket = new WebSocket(`ws://127.0.0.1:${gatewayPort}${path}`)
      await once(socket, 'error')
      await reach(0)
    }
  })
})

test('entry points that do not see the end of a call do not count it', async () => {
  const { api, inFlight } = await start()
  const check = async () => {
    const response = await fetch(`${api}/v1/check`, {
      method: 'POST',
      body: JSON.stringify({ attributes: { user: 'u1' } }),
    })
    return ((await response.json()) as { readonly reason: string }).reason
  }
  expect([await check(), await check()]).toEqual(['unmatched', 'unmatched'])
  const explained = await fetch(`${api}/v1/explain`, {
    method: 'POST',
    body: JSON.stringify({ attributes: { user: 'u1' } }),
  })
  const { explain } = (await explained.json()) as { readonly explain: readonly object[] }
  expect(explain[0]).toMatchObject({
    rule: 'in-flight',
    matched: true,
    note: expect.stringContaining('gateway'),
  })
  expect(await inFlight()).toBe(0)
})
