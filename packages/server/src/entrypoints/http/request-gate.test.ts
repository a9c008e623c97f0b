import { once } from 'node:events'
import { afterEach, describe, expect, test } from 'vitest'
import {
  connectTo,
  exchange,
  type HeldListener,
  startHeld,
  startListener,
  stopListeners,
  type TestListenerOptions,
} from './http-listener.test-helper.js'
import { PIPELINED_REQUESTS_MAX, REQUESTS_PER_TURN, RESUMED_PER_TURN } from './request-gate.js'

afterEach(stopListeners)

/** More than one connection may have in flight, and less than one read holds. */
const MANY = 1000

const get = (n: number) => `GET /${n} HTTP/1.1\r\nHost: a\r\n\r\n`
const post = (n: number, body: string) =>
  `POST /${n} HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`
const chunked = (n: number, body: string) =>
  `POST /${n} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n` +
  `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
/** What a body may look like: blank lines, and a request. */
const BLANK_LINES = `a\n\nb\r\n\r\n\r\n${get(0)}\n\r\n`
const all = (count: number, request: (n: number) => string) =>
  Array.from({ length: count }, (_, n) => request(n)).join('')

/** A listener that answers each complete request with its path and body. */
function startEcho(options: TestListenerOptions = {}) {
  const flights: number[] = []
  const started = startListener({
    ...options,
    prepare: (server, listener) => {
      listener.serve((request, response) => {
        flights.push(listener.inFlight())
        if (request.headers.expect !== undefined) response.writeContinue()
        let body = ''
        request.setEncoding('latin1').on('data', (text) => {
          body += String(text)
        })
        request.on('end', () => response.end(`<${request.url}:${body}>`))
        request.on('error', () => undefined)
      })
      options.prepare?.(server, listener)
    },
  })
  return { started, flights }
}

/** Resolves when nothing more is served. */
async function untilQuiet({ untilServed }: HeldListener) {
  let count = -1
  for (let turns = 0; turns < 50; turns++) {
    const { length } = await untilServed(0)
    if (length !== count) turns = 0
    count = length
    await new Promise(setImmediate)
  }
  return untilServed(0)
}

test.each([
  ['GET', get],
  ['POST with a length', (n: number) => post(n, BLANK_LINES)],
  ['POST in chunks', (n: number) => chunked(n, BLANK_LINES)],
])('only 32 of many pipelined requests (%s) are served before one is answered', async (_, make) => {
  const held = await startHeld()
  const client = connectTo(held.port)
  client.send(all(MANY, make))
  await held.untilServed(PIPELINED_REQUESTS_MAX)
  for (const { request } of await untilQuiet(held)) request.resume()
  const served = await untilQuiet(held)
  expect(served).toHaveLength(PIPELINED_REQUESTS_MAX)
  expect(held.listener.inFlight()).toBe(PIPELINED_REQUESTS_MAX)
  client.socket.destroy()
})

test.each([
  ['GET', get, ''],
  ['POST with a length', (n: number) => post(n, BLANK_LINES), BLANK_LINES],
  ['POST in chunks', (n: number) => chunked(n, BLANK_LINES), BLANK_LINES],
])(
  'a client that pipelines many requests (%s) gets every response in order',
  async (_name, make, body) => {
    const { started, flights } = startEcho()
    const { port } = await started
    const client = connectTo(port)
    client.send(all(MANY, make))
    const text = await client.until((answers) => answers.includes(`</${MANY - 1}:${body}>`))
    const numbers = [...text.matchAll(/<\/(\d+):/g)].map(([, n]) => Number(n))
    const expected = Array.from({ length: MANY }, (_, n) => n)
    expect(numbers).toEqual(expected)
    expect(Math.max(...flights)).toBeLessThanOrEqual(PIPELINED_REQUESTS_MAX)
    client.socket.destroy()
  },
)

test.each([
  ['GET', get],
  ['POST with a length', (n: number) => post(n, BLANK_LINES)],
])('connections that pipeline (%s) take turns', async (_, make) => {
  const connections = 40
  const each = 300
  let served = 0
  const turns: number[] = []
  const { port } = await startListener({
    prepare: (_server, listener) => {
      listener.serve((request, response) => {
        served++
        request.resume()
        response.end()
      })
    },
  })
  const clients = Array.from({ length: connections }, () => connectTo(port))
  await Promise.all(clients.map(({ socket }) => once(socket, 'connect')))
  for (const client of clients) client.send(all(each, make))
  for (let before = 0; served < connections * each; before = served) {
    await new Promise(setImmediate)
    turns.push(served - before)
  }
  // All of them are read for the first time in one turn.
  const most = (connections + RESUMED_PER_TURN) * REQUESTS_PER_TURN
  expect(Math.max(...turns)).toBeLessThanOrEqual(most)
  for (const { socket } of clients) socket.destroy()
})

test('a body of empty lines does not block other connections', async () => {
  const { started } = startEcho()
  const { port } = await started
  const client = connectTo(port)
  const body = '\n'.repeat(60_000)
  let turns = 0
  let isOver = false
  const count = () => {
    turns++
    if (!isOver) setImmediate(count)
  }
  client.send(post(1, body) + chunked(2, body) + get(3))
  count()
  const text = await client.until((answers) => answers.includes('</3:>'))
  isOver = true
  expect(text).toContain(`</1:${body}>`)
  expect(text).toContain(`</2:${body}>`)
  expect(turns).toBeGreaterThan(100)
  client.socket.destroy()
})

test('requests that arrive byte by byte are all answered', async () => {
  const { started } = startEcho()
  const { port } = await started
  const client = connectTo(port)
  client.socket.setNoDelay(true)
  for (const byte of all(5, (n) => get(n) + chunked(n, 'x\n\ny'))) client.send(byte)
  const text = await client.until((answers) => answers.includes('</4:x\n\ny>'))
  expect(text.match(/<\//g)).toHaveLength(10)
  client.socket.destroy()
})

test('a large body arrives whole, and so does what is pipelined behind it', async () => {
  const body = 'line\r\n\r\n'.repeat(100_000)
  const { started } = startEcho()
  const { port } = await started
  const client = connectTo(port)
  client.send(post(1, body) + chunked(2, body) + get(3))
  const text = await client.until((answers) => answers.includes('</3:>'))
  expect(text).toContain(`</1:${body}>`)
  expect(text).toContain(`</2:${body}>`)
  client.socket.destroy()
})

test('a client that half-closes after many requests gets every response', async () => {
  const { started } = startEcho()
  const { port } = await started
  const client = connectTo(port)
  client.send(all(100, get))
  await client.until((text) => text.includes('</99:'))
  client.socket.end()
  expect((await client.closed).match(/<\//g)).toHaveLength(100)
})

test('garbage behind many pipelined requests ends the connection after their responses', async () => {
  const { started } = startEcho()
  const { port } = await started
  const client = connectTo(port)
  client.send(`${all(100, get)}\0garbage\r\n\r\n`)
  const text = await client.closed
  expect(text.match(/<\//g)).toHaveLength(100)
  expect(text.match(/Connection: close/g)).toHaveLength(1)
})

test('requests that wait for 100 Continue count like others', async () => {
  const { started, flights } = startEcho()
  const { port } = await started
  const client = connectTo(port)
  const expecting = (n: number) => post(n, 'x').replace('\r\n', '\r\nExpect: 100-continue\r\n')
  client.send(all(100, expecting))
  await client.until((text) => text.includes('</99:x>'))
  expect(Math.max(...flights)).toBeLessThanOrEqual(PIPELINED_REQUESTS_MAX)
  client.socket.destroy()
})

test('a draining listener serves nothing behind the last response of a connection', async () => {
  const held = await startHeld()
  const client = connectTo(held.port)
  client.send(all(100, get))
  await held.untilServed(PIPELINED_REQUESTS_MAX)
  held.listener.beginDraining()
  for (const { response } of await untilQuiet(held)) response.end('served')
  expect((await client.closed).match(/served/g)).toHaveLength(PIPELINED_REQUESTS_MAX)
  expect(await held.untilServed(0)).toHaveLength(PIPELINED_REQUESTS_MAX)
})

test('a request head does not time out while its second half waits for unread responses', async () => {
  const held = await startHeld({ headersMs: 400 })
  const reader = connectTo(held.port)
  reader.send(get(0))
  const [first] = await held.untilServed(1)
  reader.socket.pause()
  first?.response.end(Buffer.alloc(32 * 1024 * 1024))
  // Node stops reading at the next request, with half of a third in its parser.
  reader.send(`${get(1)}GET /2 HT`)
  const [, second] = await held.untilServed(2)
  reader.send('TP/1.1\r\nHost: a\r\n\r\n')
  // Later heads that really time out; so would this one have.
  for (let late = 0; late < 2; late++) {
    expect(await exchange(held.port, 'GET /x HT')).toContain('408 Request Timeout')
  }
  second?.response.end('second')
  reader.socket.resume()
  const [, , third] = await held.untilServed(3)
  third?.response.end('third')
  const text = await reader.until((answers) => answers.endsWith('third'))
  expect(text.slice(-1000)).toContain('second')
  reader.socket.destroy()
})

describe('an upgrade', () => {
  const WEBSOCKET =
    'GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'

  /** A listener that echoes the bytes after an upgrade. */
  const startTunnel = () =>
    startListener({
      prepare: (server, listener) => {
        listener.serve((_, response) => void response.end('served'))
        server.on('upgrade', (_, socket, head: Buffer) => {
          socket.on('error', () => undefined)
          socket.write('upgraded:')
          setImmediate(() => {
            if (head.length > 0) socket.unshift(head)
            socket.on('data', (bytes: Buffer) => void socket.write(bytes))
          })
        })
      },
    })

  test('leaves everything that follows it to its handler, in order', async () => {
    const { port } = await startTunnel()
    const client = connectTo(port)
    const lines = all(2000, (n) => `frame ${n}\r\n\r\n`)
    client.send(WEBSOCKET + lines)
    const text = await client.until((answers) => answers.endsWith('frame 1999\r\n\r\n'))
    expect(text).toBe(`upgraded:${lines}`)
    client.socket.destroy()
  })

  test('behind unanswered requests ends the connection', async () => {
    const { port } = await startTunnel()
    const client = connectTo(port)
    client.send(all(10, get) + WEBSOCKET)
    expect(await client.closed).not.toContain('upgraded')
  })
})
