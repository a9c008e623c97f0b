import { afterEach, expect, test } from 'vitest'
import { createMemoryLog } from '../../observability/log/memory-log.test-helper.js'
import { createListener } from './http-listener.js'
import {
  bodyOf,
  connectTo,
  exchange,
  startEager,
  startHeld,
  startListener,
  statusOf,
  stopListeners,
  UNCOUNTED,
  until,
} from './http-listener.test-helper.js'

afterEach(stopListeners)

/** Short for a test, and longer than a slow machine delays a client. */
const BRIEF_MS = 1000

const GET = 'GET /x HTTP/1.1\r\nHost: a\r\n\r\n'
const POST = 'POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n'

test('a listener returns the address it listens on', async () => {
  const { listener, port, url } = await startEager()
  expect(port).toBeGreaterThan(0)
  expect(url).toBe(`http://127.0.0.1:${port}`)
  expect((await fetch(url)).status).toBe(200)
  expect(listener.inFlight()).toBe(0)
})

test('an address in use is reported with a readable message', async () => {
  const { port } = await startEager()
  const second = createListener({
    listen: { host: '127.0.0.1', port },
    tls: undefined,
    timeouts: { headersMs: 1000, requestMs: 1000, stallMs: 1000 },
    maxConnections: 10,
    perAddress: UNCOUNTED,
    log: createMemoryLog().log,
  })
  await expect(second.start()).rejects.toThrow(
    `listen 127.0.0.1:${port}: something else listens there`,
  )
})

test('a connection that sends nothing is closed', async () => {
  const { port } = await startEager({ headersMs: 100 })
  const answer = await connectTo(port).closed
  expect(statusOf(answer)).toBe(408)
  expect(bodyOf(answer)).toMatchObject({ status: 408 })
})

test('a connection that sends its request head too slowly is closed', async () => {
  const { port } = await startEager({ headersMs: 200 })
  const client = connectTo(port)
  const drip = setInterval(() => client.send('a'), 20)
  client.send('GET /x HTTP/1.1\r\nHost: a\r\nX: ')
  const answer = await client.closed
  clearInterval(drip)
  expect(statusOf(answer)).toBe(408)
})

test('a body that does not arrive in time ends its request', async () => {
  const { port, listener, untilServed } = await startHeld({
    headersMs: BRIEF_MS,
    requestMs: BRIEF_MS + 200,
  })
  const client = connectTo(port)
  client.send(`${POST}he`)
  const [first] = await untilServed(1)
  const answer = await client.closed
  expect(statusOf(answer)).toBe(408)
  expect(first?.request.destroyed).toBe(true)
  await until(() => listener.inFlight() === 0)
})

test('an idle connection between two requests is closed after a timeout', async () => {
  const { port } = await startEager({ headersMs: BRIEF_MS })
  const client = connectTo(port)
  client.send(GET)
  expect(await client.closed).toMatch(/served$/)
})

test('line ends do not keep a connection open between two requests', async () => {
  const { port } = await startEager({ headersMs: BRIEF_MS })
  const client = connectTo(port)
  client.send(GET)
  const drip = setInterval(() => client.send('\r\n'), 20)
  await client.closed
  clearInterval(drip)
  expect(client.text).toMatch(/served$/)
})

test('a connection in use is not closed', async () => {
  const { port } = await startEager({ headersMs: 2 * BRIEF_MS })
  const client = connectTo(port)
  // Longer than any idle connection lives.
  for (let i = 1; i <= 30; i++) {
    client.send(GET)
    await client.until((text) => text.split('served').length === i + 1)
    await new Promise((resolve) => setTimeout(resolve, BRIEF_MS / 10))
  }
  expect(client.socket.destroyed).toBe(false)
  client.socket.destroy()
})

test('an upgraded connection is left to its handler', async () => {
  let upgraded = 0
  const { port } = await startEager({
    headersMs: BRIEF_MS,
    prepare: (server) => {
      server.on('upgrade', (_, socket) => {
        upgraded++
        socket.on('error', () => undefined)
        socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n')
      })
    },
  })
  const client = connectTo(port)
  client.send('GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  await client.until((text) => text.includes('101'))
  // A later connection that was kept alive with line ends is closed; so would this one have been.
  const other = connectTo(port)
  other.send(GET)
  const drip = setInterval(() => other.send('\r\n'), 10)
  await other.closed
  clearInterval(drip)
  expect(upgraded).toBe(1)
  expect(client.socket.destroyed).toBe(false)
  client.socket.destroy()
})

const H2C =
  'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n' +
  'HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n'

test('an upgrade to another protocol than WebSocket is served as an ordinary request', async () => {
  const served: string[] = []
  let upgrades = 0
  const { port } = await startListener({
    prepare: (server) => {
      server.on('upgrade', () => upgrades++)
      server.on('request', (request, response) => {
        let body = ''
        request.on('data', (bytes: Buffer) => {
          body += bytes.toString()
        })
        request.on('end', () => {
          served.push(`${request.method} ${body}`)
          response.end('served')
        })
      })
    },
  })
  const post = `POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n${H2C}\r\nhello`
  // The parser drops bytes after an upgrade that is not accepted, so the connection ends.
  for (const bytes of [`GET /x HTTP/1.1\r\nHost: a\r\n${H2C}\r\n`, post, post + GET]) {
    const answer = await exchange(port, bytes)
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*Connection: close\r\n[^]*served$/)
  }
  expect(served).toEqual(['GET ', 'POST hello', 'POST hello'])
  expect(upgrades).toBe(0)
})

test('an upgrade to a WebSocket that no handler accepts is served as an ordinary request', async () => {
  const { port } = await startEager()
  const answer = await exchange(
    port,
    'GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
  )
  expect(statusOf(answer)).toBe(200)
})

test('an unknown expectation is passed to the handler', async () => {
  const { port } = await startEager()
  const answer = await exchange(
    port,
    'GET /x HTTP/1.1\r\nHost: a\r\nExpect: foo\r\nConnection: close\r\n\r\n',
  )
  expect(statusOf(answer)).toBe(200)
})

test('CONNECT is answered 405 with the allowed methods', async () => {
  const { port } = await startEager()
  const answer = await exchange(port, 'CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\nbytes')
  expect(statusOf(answer)).toBe(405)
  expect(answer).toMatch(/^Allow: GET, /m)
})

test('garbage after a request does not affect its response', async () => {
  const { port, untilServed } = await startHeld()
  const client = connectTo(port)
  client.send(`${GET}\0\0\0\r\n\r\n`)
  const [first] = await untilServed(1)
  client.send('more garbage')
  first?.response.end('served')
  const answer = await client.closed
  expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*Connection: close\r\n[^]*served$/)
  expect(answer).not.toContain('400')
})

test('garbage after a response is answered 400', async () => {
  const { port } = await startEager()
  const client = connectTo(port)
  client.send(GET)
  await client.until((text) => text.endsWith('served'))
  client.send('garbage\r\n\r\n')
  expect(await client.closed).toContain('servedHTTP/1.1 400 Bad Request')
})

test('a body that becomes invalid during its response ends the connection without a second one', async () => {
  const { port, untilServed } = await startHeld()
  const client = connectTo(port)
  client.send('POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n')
  const [first] = await untilServed(1)
  first?.response.write('begun')
  await client.until((text) => text.includes('begun'))
  client.send('zzz\r\n')
  const answer = await client.closed
  expect(answer.match(/HTTP\/1\.1/g)).toHaveLength(1)
})

test('the handler of a request whose body becomes invalid is notified at once', async () => {
  let wasDestroyed: boolean | undefined
  const { port } = await startListener({
    prepare: (server) => {
      server.on('request', (request) => {
        request.on('error', () => undefined)
        void Promise.resolve().then(() => {
          wasDestroyed = request.socket.destroyed
        })
      })
    },
  })
  const answer = await exchange(
    port,
    'POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n',
  )
  expect(statusOf(answer)).toBe(400)
  expect(wasDestroyed).toBe(true)
})

test('clients that disconnect in the middle affect no other client', async () => {
  const { port, listener, memory } = await startEager()
  for (const bytes of ['', 'G', 'GET /x HTTP/1.1\r\nHo', `${POST}he`, '\x16\x03\x01']) {
    const client = connectTo(port)
    client.send(bytes)
    await new Promise((resolve) => client.socket.once('connect', resolve))
    client.socket.resetAndDestroy()
    await client.closed
  }
  expect(await exchange(port, GET.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'))).toContain(
    'served',
  )
  await until(() => listener.inFlight() === 0)
  expect(memory.lines).toEqual([])
})

test('connections beyond the maximum are refused, counted and logged', async () => {
  const { port, listener, memory, untilServed } = await startHeld({
    maxConnections: 2,
    headersMs: BRIEF_MS,
  })
  const clients = [connectTo(port), connectTo(port)]
  for (const client of clients) client.send(GET)
  await untilServed(2)
  expect(await exchange(port, GET)).toBe('')
  expect(listener.counts()).toMatchObject({ overMax: 1, overAddressMax: 0 })
  await until(() => memory.lines.length > 0)
  expect(memory.lines[0]).toMatchObject({
    level: 'warn',
    msg: 'too many connections',
    connections: 1,
    maxConnections: 2,
  })
  for (const client of clients) client.socket.destroy()
})
