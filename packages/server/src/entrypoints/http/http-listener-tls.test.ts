import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { connectTls, makePair, shownName } from './certificates.test-helper.js'
import {
  Client,
  connectTo,
  exchange,
  startListener,
  statusOf,
  stopListeners,
  type TestListenerOptions,
  until,
} from './http-listener.test-helper.js'
import { PIPELINED_REQUESTS_MAX } from './request-gate.js'

let directory: string

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'sluice-listener-'))
  for (const name of ['one', 'two']) {
    const { cert, key } = makePair(directory, name)
    writeFileSync(join(directory, `${name}.cert`), cert)
    writeFileSync(join(directory, `${name}.key`), key)
  }
})

afterAll(() => rmSync(directory, { recursive: true }))
afterEach(stopListeners)

const filesOf = (name: string) => ({
  cert: join(directory, `${name}.cert`),
  key: join(directory, `${name}.key`),
})

const start = (options: TestListenerOptions = {}) =>
  startListener({
    tls: filesOf('one'),
    prepare: (server) => server.on('request', (_, response) => response.end('served')),
    ...options,
  })

const GET = 'GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'

test('a listener with a certificate speaks TLS and HTTP/1.1', async () => {
  const { port, url, listener } = await start()
  expect(url).toBe(`https://127.0.0.1:${port}`)
  expect(await shownName(port)).toBe('one')
  const socket = await connectTls(port, ['h2', 'http/1.1'])
  expect(socket.alpnProtocol).toBe('http/1.1')
  const client = new Client(socket)
  client.send(GET)
  expect(await client.closed).toMatch(/served$/)
  expect(listener.inFlight()).toBe(0)
})

test('a client that supports only HTTP/2 is refused by TLS', async () => {
  const { port } = await start()
  await expect(connectTls(port, ['h2'])).rejects.toThrow()
})

test('a connection without TLS is ended and affects no other', async () => {
  const { port } = await start()
  await exchange(port, GET)
  const client = new Client(await connectTls(port))
  client.send('garbage\r\n\r\n')
  expect(statusOf(await client.closed)).toBe(400)
})

test('an invalid body is answered over TLS too', async () => {
  const { port } = await start({
    prepare: (server) => server.on('request', (request) => request.on('error', () => undefined)),
  })
  const client = new Client(await connectTls(port))
  client.send('POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n')
  expect(statusOf(await client.closed)).toBe(400)
})

test('a connection that never finishes its handshake is closed', async () => {
  const { port } = await start({ headersMs: 100 })
  expect(await connectTo(port).closed).toBe('')
})

test('a connection that is silent after its handshake is closed', async () => {
  // Longer than a handshake takes on a busy machine.
  const { port } = await start({ headersMs: 1000 })
  const client = new Client(await connectTls(port))
  expect(statusOf(await client.closed)).toBe(408)
})

test('connections in their handshake are destroyed with the others', async () => {
  const { port, listener } = await start()
  const secure = new Client(await connectTls(port))
  const raw = connectTo(port)
  await new Promise((resolve) => raw.socket.once('connect', resolve))
  await listener.stopAccepting()
  listener.destroyAll()
  await Promise.all([raw.closed, secure.closed, listener.closed])
})

test('a listener does not start with a certificate and key that do not match', async () => {
  const tls = { cert: filesOf('one').cert, key: filesOf('two').key }
  await expect(start({ tls })).rejects.toThrow('the key is not that of the certificate')
})

test('only 32 of many pipelined requests over TLS are in flight, and all are answered', async () => {
  const flights: number[] = []
  const answers: (() => void)[] = []
  const { port } = await start({
    prepare: (_server, listener) => {
      listener.serve((request, response) => {
        flights.push(listener.inFlight())
        answers.push(() => response.end(`<${request.url}>`))
        // Only when no more can arrive.
        if (answers.length < PIPELINED_REQUESTS_MAX && request.url !== '/999') return
        for (const answer of answers.splice(0)) answer()
      })
    },
  })
  const client = new Client(await connectTls(port))
  const numbers = Array.from({ length: 1000 }, (_, n) => n)
  client.send(numbers.map((n) => `GET /${n} HTTP/1.1\r\nHost: a\r\n\r\n`).join(''))
  const text = await client.until((all) => all.includes('</999>'))
  expect([...text.matchAll(/<\/(\d+)>/g)].map(([, n]) => Number(n))).toEqual(numbers)
  expect(Math.max(...flights)).toBe(PIPELINED_REQUESTS_MAX)
  client.socket.destroy()
})

test('a client that reads nothing over TLS is cut, and one that reads slowly is not', async () => {
  const piece = Buffer.alloc(64 * 1024)
  const { port, listener } = await start({
    headersMs: 200,
    stallMs: 1000,
    // Like the gateway: writes the next piece when the last one is sent.
    prepare: (_server, each) =>
      each.serve((_, response) => {
        const write = () => {
          while (response.write(piece));
          response.once('drain', write)
        }
        write()
      }),
  })
  const [slow, still] = [await connectTls(port), await connectTls(port)]
  for (const socket of [slow, still]) {
    socket.pause()
    socket.on('error', () => undefined)
    socket.write('GET /x HTTP/1.1\r\nHost: a\r\n\r\n')
  }
  let taken = 0
  slow.on('data', (bytes: Buffer) => {
    taken += bytes.length
    slow.pause()
  })
  const drip = setInterval(() => slow.resume(), 1)
  await until(() => listener.counts().stalled === 1)
  const before = taken
  await until(() => taken > before + 4 * piece.length)
  clearInterval(drip)
  expect(listener.counts().stalled).toBe(1)
  slow.destroy()
  still.destroy()
})
