import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import {
  startTestServer,
  type TestServer,
  type TestServerOptions,
} from '../../serve.test-helper.js'
import { sendRequest } from './forward.test-helper.js'

const SOON = { timeout: 20_000, interval: 20 }

let server: TestServer | undefined
const clients: WebSocket[] = []
afterEach(async () => {
  for (const client of clients.splice(0)) client.terminate()
  await server?.close()
  server = undefined
})

interface Chat {
  readonly port: number
  readonly adminPort: number
  /** Messages that reached the upstream. */
  readonly receivedTexts: string[]
  readonly closes: number[]
  readonly sockets: WebSocketServer
  readonly server: TestServer
}

/** An upstream that echoes each message. */
async function startChat(options: TestServerOptions = {}): Promise<Chat> {
  server = await startTestServer(options)
  const receivedTexts: string[] = []
  const closes: number[] = []
  const sockets = new WebSocketServer({ server: server.upstreamServer, perMessageDeflate: true })
  sockets.on('connection', (socket, request) => {
    receivedTexts.push(`open ${request.url} ${String(request.headers['x-forwarded-for'])}`)
    socket.on('message', (data: Buffer, isBinary) => {
      receivedTexts.push(isBinary ? `binary ${data.length}` : data.toString())
      socket.send(data, { binary: isBinary })
    })
    socket.on('close', (code) => closes.push(code))
    socket.on('error', () => {})
  })
  const { gatewayPort: port, adminPort } = server
  return { port, adminPort, receivedTexts, closes, sockets, server }
}

interface Client {
  readonly socket: WebSocket
  readonly received: Buffer[]
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>
}

function join(port: number, path = '/chat'): Promise<Client> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`)
  clients.push(socket)
  const received: Buffer[] = []
  socket.on('message', (data: Buffer) => received.push(data))
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    socket.on('close', (code, reason) => resolve({ code, reason: reason.toString() }))
  })
  return new Promise((resolve, reject) => {
    socket.once('open', () => resolve({ socket, received, closed }))
    socket.once('unexpected-response', (_, response) =>
      reject(Object.assign(new Error('refused'), { response })),
    )
    socket.once('error', reject)
  })
}

const messages = (limits: unknown[], more: object = {}) => [
  { id: 'chat', match: { method: 'MESSAGE', path: '/chat' }, by: ['ip'], limits, ...more },
]

describe('a WebSocket', () => {
  test('passes messages of any size both ways, compressed or not', async () => {
    const { port, receivedTexts } = await startChat({ rules: messages(['1000/minute']) })
    const { socket, received } = await join(port, '/chat?room=1')
    const large = randomBytes(3_000_000)
    socket.send('hello')
    socket.send(large)
    socket.send('x'.repeat(100_000))
    while (received.length < 3) await once(socket, 'message')
    expect(received[0]?.toString()).toBe('hello')
    expect(received[1]?.equals(large)).toBe(true)
    expect(receivedTexts.slice(0, 3)).toEqual([
      'open /chat?room=1 127.0.0.1',
      'hello',
      'binary 3000000',
    ])
  })

  test('is a call: its upgrade is counted, and refused before the upstream receives it', async () => {
    const { port, receivedTexts } = await startChat({
      rules: [{ id: 'upgrades', match: { method: 'GET' }, by: ['ip'], limits: ['1/minute'] }],
    })
    const since = performance.now()
    await join(port)
    const refused = await join(port).catch((error: unknown) => error)
    expect(refused).toMatchObject({
      response: {
        statusCode: 429,
        headers: { 'content-type': 'application/problem+json' },
      },
    })
    const { headers } = (refused as { readonly response: IncomingMessage }).response
    // A minute, minus the time that this machine took.
    const passed = (performance.now() - since) / 1000
    expect(Number(headers['retry-after'])).toBeLessThanOrEqual(60)
    expect(Number(headers['retry-after'])).toBeGreaterThanOrEqual(Math.ceil(60 - passed))
    expect(receivedTexts).toHaveLength(1)
  })

  test('has the rate limit headers on its handshake', async () => {
    const { port } = await startChat({ rules: [{ id: 'a', by: ['ip'], limits: ['9/minute'] }] })
    const socket = new WebSocket(`ws://127.0.0.1:${port}/chat`)
    clients.push(socket)
    const headers = await new Promise((resolve) =>
      socket.on('upgrade', (response) => resolve(response.headers)),
    )
    expect(headers).toMatchObject({
      'ratelimit-policy': '"a";q=9;w=60',
      'x-ratelimit-remaining': '8',
    })
  })

  test('passes on the upstream’s refusal', async () => {
    const {
      port,
      server: { upstreamServer },
    } = await startChat()
    upstreamServer.removeAllListeners('upgrade')
    upstreamServer.on('upgrade', (_, socket) => {
      socket.end('HTTP/1.1 403 Forbidden\r\nX-Why: no\r\nContent-Length: 2\r\n\r\nno')
    })
    expect(await join(port).catch((error: unknown) => error)).toMatchObject({
      response: { statusCode: 403, headers: { 'x-why': 'no' } },
    })
  })

  test('to an unreachable upstream is 502', async () => {
    const { port } = await startChat({ env: { SLUICE_UPSTREAM: 'http://127.0.0.1:1' } })
    expect(await join(port).catch((error: unknown) => error)).toMatchObject({
      response: { statusCode: 502 },
    })
  })

  test.each([
    ['another method', 'POST', 'websocket', ''],
    ['a body', 'GET', 'websocket', 'Content-Length: 5\r\n'],
  ])('upgrade with %s is 400', async (_name, method, protocol, more) => {
    const { port, receivedTexts } = await startChat()
    const socket = connect(port, '127.0.0.1')
    socket.write(
      `${method} /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n${more}\r\nhello`,
    )
    expect(await textOf(socket)).toMatch(/^HTTP\/1.1 400 /)
    expect(receivedTexts).toEqual([])
  })

  test('is the only accepted upgrade: others are ignored, as HTTP specifies', async () => {
    const { port, server: running } = await startChat()
    const headers = { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'x' }
    expect((await sendRequest(port, { path: '/plain', headers })).status).toBe(200)
    expect(Object.keys(running.calls[0]?.headers ?? {})).not.toContain('upgrade')
  })

  test('is not accepted behind an unanswered call, nor by HTTP/1.0', async () => {
    const { port, receivedTexts } = await startChat({ upstream: () => {} })
    const upgrade = (version: string) =>
      `GET /chat HTTP/${version}\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
      'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'
    const behind = connect(port, '127.0.0.1')
    behind.write(`GET /slow HTTP/1.1\r\nHost: a\r\n\r\n${upgrade('1.1')}`)
    expect(await textOf(behind)).toBe('')
    const old = connect(port, '127.0.0.1')
    old.write(upgrade('1.0'))
    expect(await textOf(old)).toMatch(/^HTTP\/1.1 400 /)
    expect(receivedTexts).toEqual([])
  })

  test.each(['destroy', 'end'] as const)(
    'whose client disconnects (%s) before it is open is not opened',
    async (how) => {
      const {
        port,
        adminPort,
        server: { upstreamServer },
      } = await startChat()
      const open = async () => {
        const { body } = await sendRequest(adminPort, { path: '/metrics' })
        return /^sluice_websockets (\d+)$/m.exec(body.toString())?.[1]
      }
      let upgrades = 0
      upstreamServer.prependListener('upgrade', () => upgrades++)
      for (let i = 0; i < 5; i++) {
        const socket = connect(port, '127.0.0.1')
        socket.on('error', () => {})
        socket.write(
          'GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
            'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
          () => socket[how](),
        )
      }
      await vi.waitFor(() => expect(upgrades).toBeGreaterThan(0), SOON)
      await vi.waitFor(async () => expect(await open()).toBe('0'), SOON)
    },
  )

  test('that the upstream refuses half-way is broken off, not answered twice', async () => {
    const {
      port,
      server: { upstreamServer },
    } = await startChat()
    upstreamServer.removeAllListeners('upgrade')
    upstreamServer.on('upgrade', (_, socket) => {
      socket.write('HTTP/1.1 403 Forbidden\r\nContent-Length: 100\r\n\r\nhalf')
      setTimeout(() => socket.destroy(), 50)
    })
    const socket = connect(port, '127.0.0.1')
    socket.write(
      'GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
    )
    const failed = new Promise((resolve) => socket.once('error', resolve))
    const text = await textOf(socket)
    expect(text).toMatch(/^HTTP\/1.1 403 /)
    expect(text).not.toContain('502')
    expect(await failed).toMatchObject({ code: 'ECONNRESET' })
  })

  test('that is refused does not keep its connection', async () => {
    const { port } = await startChat({ rules: [{ id: 'none', by: [], limits: ['0/day'] }] })
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    socket.write(
      'GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
    )
    // Only a side that still writes learns that the other is gone.
    const timer = setInterval(() => socket.write('x'), 200)
    expect(await textOf(socket)).toMatch(/^HTTP\/1.1 429 /)
    clearInterval(timer)
  })

  test('ends on both sides when either ends', async () => {
    const { port, closes, sockets } = await startChat()
    const first = await join(port)
    first.socket.close(4000, 'done')
    await vi.waitFor(() => expect(closes).toEqual([4000]), SOON)
    const second = await join(port)
    for (const socket of sockets.clients) socket.close(4001, 'over')
    expect(await second.closed).toEqual({ code: 4001, reason: 'over' })
    const third = await join(port)
    for (const socket of sockets.clients) socket.terminate()
    expect((await third.closed).code).toBe(1006)
  })
})

describe('WebSocket messages over the limit', () => {
  test('close the WebSocket with 1008 and the time to wait, and do not reach the upstream', async () => {
    const {
      port,
      receivedTexts,
      closes,
      server: { lines },
    } = await startChat({ rules: messages(['3/minute']) })
    const { socket, closed } = await join(port)
    const since = performance.now()
    for (let i = 1; i <= 5; i++) socket.send(`message ${i}`)
    const { code, reason } = await closed
    const seconds = Number(/^Retry after (\d+) seconds$/.exec(reason)?.[1])
    expect(code).toBe(1008)
    // One unit returns every 20 seconds, some of which this machine may have taken.
    expect(seconds).toBeLessThanOrEqual(20)
    expect(seconds).toBeGreaterThanOrEqual(Math.ceil(20 - (performance.now() - since) / 1000))
    await vi.waitFor(() => expect(closes).toEqual([1001]), SOON)
    expect(receivedTexts.slice(1)).toEqual(['message 1', 'message 2', 'message 3'])
    expect(lines.find(({ msg }) => msg === 'refused')).toMatchObject({
      rule: 'chat',
      way: 'websocket',
    })
  })

  test('are counted once each, however they are cut into frames, and pings are not', async () => {
    const { port, receivedTexts } = await startChat({ rules: messages(['2/minute']) })
    const { socket, closed } = await join(port)
    for (let part = 0; part < 10; part++) socket.send('ab', { fin: part === 9 })
    for (let ping = 0; ping < 10; ping++) socket.ping()
    socket.send('second')
    await vi.waitFor(
      () => expect(receivedTexts.slice(1)).toEqual(['ab'.repeat(10), 'second']),
      SOON,
    )
    socket.send('third')
    expect((await closed).code).toBe(1008)
    expect(receivedTexts).toHaveLength(3)
  })

  test('are not counted if no rule names them, until the rules change', async () => {
    const {
      port,
      receivedTexts,
      server: { folder },
    } = await startChat({
      rules: [{ id: 'requests', by: ['ip'], limits: ['1/minute'] }],
    })
    const { socket, closed } = await join(port)
    for (let i = 0; i < 20; i++) socket.send('free')
    await vi.waitFor(() => expect(receivedTexts).toHaveLength(21), SOON)
    const { writeFileSync } = await import('node:fs')
    writeFileSync(`${folder}/rules.yaml`, JSON.stringify({ rules: messages(['1/minute']) }))
    const timer = setInterval(() => socket.readyState === 1 && socket.send('more'), 50)
    const { code } = await closed
    clearInterval(timer)
    expect(code).toBe(1008)
  })

  test('do not break a message of the upstream that is half-way', async () => {
    const { port, sockets } = await startChat({ rules: messages(['1/minute']) })
    const { socket, received, closed } = await join(port)
    const large = randomBytes(5_000_000)
    for (const upstream of sockets.clients) upstream.send(large)
    socket.send('one')
    socket.send('two')
    expect((await closed).code).toBe(1008)
    // It arrived whole or not at all: a broken frame would be 1002 or 1006.
    for (const data of received) expect([3, 5_000_000]).toContain(data.length)
  })
})

describe('open WebSockets', () => {
  test('are closed with 1001 when the server stops', async () => {
    const { port, server: running } = await startChat()
    const { closed } = await join(port)
    void running.stop({ atOnce: true })
    expect(await closed).toEqual({ code: 1001, reason: 'going away' })
  })

  test('are counted in the metrics', async () => {
    const { port, adminPort } = await startChat()
    const { socket } = await join(port)
    const open = async () => {
      const { body } = await sendRequest(adminPort, { path: '/metrics' })
      return /^sluice_websockets (\d+)$/m.exec(body.toString())?.[1]
    }
    expect(await open()).toBe('1')
    socket.close()
    await vi.waitFor(async () => expect(await open()).toBe('0'), SOON)
  })
})

function textOf(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let text = ''
    socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
    socket.on('error', () => resolve(text))
    socket.on('close', () => resolve(text))
  })
}
