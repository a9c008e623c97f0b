import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { duplexPair } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { readMetrics, valueOf } from '../../observability/metrics/read-metrics.test-helper.js'
import { startTestServer, type TestServer } from '../../serve.test-helper.js'
import { WebSocketTunnel } from './websocket-tunnel.js'

const SOON = { timeout: 20_000, interval: 20 }

const open: { close(): unknown }[] = []
afterEach(async () => {
  for (const part of open.splice(0)) await part.close()
})

interface Chat {
  readonly server: TestServer
  /** The origin of the upstream. */
  readonly url: string
  /** Close codes that the upstream received. */
  readonly closes: number[]
  /** WebSockets that the upstream has open. */
  sockets(): number
}

/** A server with one upstream for WebSockets. */
async function startChat(upstream: object = {}, gateway: object = {}): Promise<Chat> {
  const closes: number[] = []
  const sockets = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  await new Promise((resolve) => sockets.once('listening', resolve))
  sockets.on('connection', (socket) => {
    socket.on('close', (code) => closes.push(code))
    socket.on('error', () => {})
  })
  const url = `http://127.0.0.1:${(sockets.address() as AddressInfo).port}`
  const server = await startBefore(url, upstream, gateway)
  open.push({ close: () => new Promise((resolve) => sockets.close(resolve)) })
  return { server, url, closes, sockets: () => sockets.clients.size }
}

async function startBefore(url: string, upstream: object, gateway: object): Promise<TestServer> {
  const server = await startTestServer({
    config: { gateway: { upstreams: [{ url, ...upstream }], ...gateway } },
    env: { SLUICE_UPSTREAM: undefined },
    rules: [{ id: 'all', by: ['ip'], limits: ['100000/minute'] }],
  })
  open.push(server)
  return server
}

interface Joined {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly socket: WebSocket
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>
}

function join({ gatewayPort }: TestServer, options: object = {}): Promise<Joined> {
  const socket = new WebSocket(`ws://127.0.0.1:${gatewayPort}/chat`, options)
  open.unshift({ close: () => socket.terminate() })
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    socket.on('close', (code, reason) => resolve({ code, reason: reason.toString() }))
  })
  return new Promise((resolve) => {
    socket.on('error', () => {})
    socket.once('open', () => resolve({ status: 101, headers: {}, socket, closed }))
    socket.once('unexpected-response', (request, { statusCode = 0, headers }) => {
      request.destroy()
      resolve({ status: statusCode, headers, socket, closed })
    })
  })
}

async function metric({ admin }: TestServer, name: string, labels = {}) {
  return valueOf(readMetrics(await (await fetch(`${admin}/metrics`)).text()), name, labels)
}

describe('WebSockets to an upstream', () => {
  test.each([
    ['connections', { connections: 2 }],
    ['websockets', { connections: 1, websockets: 2 }],
  ])('are limited by `%s`; one more is 503, and counted', async (_name, upstream) => {
    const { server, url } = await startChat(upstream)
    const first = await join(server)
    expect([first.status, (await join(server)).status]).toEqual([101, 101])
    const refused = await join(server)
    expect(refused).toMatchObject({
      status: 503,
      headers: {
        'content-type': 'application/problem+json',
        'retry-after': '1',
        'ratelimit-policy': '"all";q=100000;w=60',
      },
    })
    expect(await metric(server, 'sluice_websockets')).toBe(2)
    expect(await metric(server, 'sluice_websockets_refused_total')).toBe(1)
    const failed = { upstream: url, status: '503' }
    expect(await metric(server, 'sluice_upstream_failures_total', failed)).toBe(1)
    // A closed one frees its place.
    first.socket.close()
    await first.closed
    await vi.waitFor(async () => expect((await join(server)).status).toBe(101), SOON)
  })

  test('that were refused, failed or disconnected leave no place taken', async () => {
    const held: Socket[] = []
    const upstream = createServer((socket) => {
      socket.on('error', () => {})
      socket.once('data', (text: Buffer) => {
        const path = text.toString().split(' ')[1]
        if (path === '/refuse') socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno')
        else if (path === '/keep') socket.write('HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno')
        else if (path === '/break') socket.destroy()
        else if (path === '/half') {
          socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf', () => socket.destroy())
        } else if (path === '/hold') held.push(socket)
        else socket.write('HTTP/1.1 101 OK\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
      })
    })
    await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))
    open.push({ close: () => upstream.close() })
    const url = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`
    const server = await startBefore(url, { websockets: 1 }, {})
    for (const path of ['/refuse', '/keep', '/break', '/half', '/hold', '/open']) {
      // The place of the previous one may become free a moment after its client is gone.
      await vi.waitFor(async () => expect(await statusOf(server, path, held)).not.toBe(503), SOON)
    }
    await vi.waitFor(async () => expect(await metric(server, 'sluice_websockets')).toBe(0), SOON)
    expect(await statusOf(server, '/open', held)).toBe(101)
  })

  test('that are idle for `timeouts.websocketIdle` end with 1001 on both sides, and are counted', async () => {
    const chat = await startChat({}, { timeouts: { websocketIdle: '200ms' } })
    const { closed, status } = await join(chat.server)
    expect(status).toBe(101)
    expect(await closed).toEqual({ code: 1001, reason: 'idle' })
    await vi.waitFor(() => expect(chat.closes).toEqual([1001]), SOON)
    await vi.waitFor(() => expect(chat.sockets()).toBe(0), SOON)
    expect(await metric(chat.server, 'sluice_websockets')).toBe(0)
    expect(await metric(chat.server, 'sluice_websockets_idle_total')).toBe(1)
  })
})

/** The status of one upgrade, whose connection is closed when it resolves. */
function statusOf({ gatewayPort }: TestServer, path: string, held: Socket[]): Promise<number> {
  const socket = connect(gatewayPort, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(
    `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
  )
  return new Promise((resolve) => {
    let status = 0
    socket.on('data', (text: Buffer) => {
      if (status === 0) status = Number(text.toString().split(' ')[1])
      if (status === 101) socket.destroy()
    })
    socket.on('close', () => resolve(status))
    if (path !== '/hold') return
    // Its client disconnects before the upstream has responded.
    const timer = setInterval(() => {
      if (held.length === 0 && status === 0) return
      clearInterval(timer)
      socket.destroy()
    }, 5)
  })
}

/** A frame of the client: masked with zeros, so that its payload stays readable. */
const frame = (opcode: number, text = '') =>
  Buffer.concat([Buffer.from([0x80 | opcode, 0x80 | text.length, 0, 0, 0, 0]), Buffer.from(text)])
const PING = 9
const PONG = 10
const TEXT = 1

function openTunnel() {
  const [client, gatewaySide] = duplexPair()
  const [upstream, otherSide] = duplexPair()
  const got = { client: [] as Buffer[], upstream: [] as Buffer[] }
  client.on('data', (chunk: Buffer) => got.client.push(chunk))
  upstream.on('data', (chunk: Buffer) => got.upstream.push(chunk))
  let ends = 0
  const tunnel = new WebSocketTunnel(
    { client: gatewaySide, upstream: otherSide },
    { onMessage: () => undefined, onEnd: () => ends++ },
  )
  tunnel.open({ client: Buffer.alloc(0), upstream: Buffer.alloc(0) })
  open.push({
    close: () => {
      client.destroy()
      upstream.destroy()
      gatewaySide.destroy()
      otherSide.destroy()
    },
  })
  return { tunnel, client, upstream, got, ends: () => ends }
}

describe('a WebSocket tunnel', () => {
  const MOST = 10
  /** The number of sweeps that close it; undefined: more than twenty. */
  function sweepsUntilIdle(tunnel: WebSocketTunnel): number | undefined {
    for (let sweeps = 1; sweeps <= 20; sweeps++) if (tunnel.closeIfIdle(MOST)) return sweeps
    return undefined
  }

  test('is idle after the configured number of sweeps without a byte, once', async () => {
    const { tunnel, got } = openTunnel()
    // The first sweep after the opening only marks it.
    expect(sweepsUntilIdle(tunnel)).toBe(MOST + 1)
    expect(sweepsUntilIdle(tunnel)).toBeUndefined()
    while (got.client.length === 0 || got.upstream.length === 0) await setImmediate()
    const [toClient, toUpstream] = [Buffer.concat(got.client), Buffer.concat(got.upstream)]
    expect(toClient.subarray(0, 4)).toEqual(Buffer.from([0x88, 6, 0x03, 0xe9]))
    expect(toClient.subarray(4).toString()).toBe('idle')
    // A close frame to a server is masked.
    expect([...toUpstream.subarray(0, 2)]).toEqual([0x88, 0x82])
  })

  test.each([
    ['a ping of the client', 'client', PING],
    ['a ping of the upstream', 'upstream', PING],
    ['a pong of the client', 'client', PONG],
    ['a message of the client', 'client', TEXT],
    ['a message of the upstream', 'upstream', TEXT],
  ] as const)('is kept open by %s', async (_name, from, opcode) => {
    const { tunnel, client, upstream, got } = openTunnel()
    const [near, far] = from === 'client' ? [client, got.upstream] : [upstream, got.client]
    for (let round = 1; round <= 5; round++) {
      for (let sweep = 0; sweep < MOST; sweep++) expect(tunnel.closeIfIdle(MOST)).toBe(false)
      near.write(frame(opcode))
      while (far.length < round) await setImmediate()
    }
    expect(sweepsUntilIdle(tunnel)).toBe(MOST + 1)
  })

  test('that is closing is not idle', () => {
    const { tunnel } = openTunnel()
    tunnel.goAway()
    expect(sweepsUntilIdle(tunnel)).toBeUndefined()
  })
})
