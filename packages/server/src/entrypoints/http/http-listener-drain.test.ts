import { type IncomingMessage, request as send, type ServerResponse } from 'node:http'
import { afterEach, expect, test } from 'vitest'
import { createMemoryLog } from '../../observability/log/memory-log.test-helper.js'
import { createListener } from './http-listener.js'
import {
  connectTo,
  type Served,
  startEager,
  startHeld,
  stopListeners,
  UNCOUNTED,
  until,
} from './http-listener.test-helper.js'

afterEach(stopListeners)

const GET = 'GET /x HTTP/1.1\r\nHost: a\r\n\r\n'
const POST = 'POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n'

test('requests are counted until their response is finished', async () => {
  const { port, listener, untilServed } = await startHeld()
  const client = connectTo(port)
  client.send(GET)
  const [first] = await untilServed(1)
  expect(listener.inFlight()).toBe(1)
  first?.response.end('served')
  await client.until((text) => text.endsWith('served'))
  await until(() => listener.inFlight() === 0)
  client.socket.destroy()
})

test('requests of a client that disconnects are not counted, not even queued ones', async () => {
  const { port, listener, untilServed } = await startHeld()
  const client = connectTo(port)
  client.send(GET.repeat(3))
  await untilServed(3)
  expect(listener.inFlight()).toBe(3)
  client.socket.destroy()
  await until(() => listener.inFlight() === 0)
})

test('a request that waits for 100 Continue is counted while its handler decides', async () => {
  const held: Served[] = []
  const { port, listener } = await startEager({
    prepare: (server) => {
      server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
        held.push({ request, response })
      })
    },
  })
  const client = connectTo(port)
  client.send(POST.replace('\r\n\r\n', '\r\nExpect: 100-continue\r\n\r\n'))
  await until(() => held.length === 1)
  expect(listener.inFlight()).toBe(1)
  held[0]?.response.end('refused')
  await client.until((text) => text.endsWith('refused'))
  expect(client.text).not.toContain('100 Continue')
  client.socket.destroy()
})

test('a draining listener sends Connection: close, and finishes requests in flight', async () => {
  const { port, listener, untilServed } = await startHeld()
  const busy = connectTo(port)
  const idle = connectTo(port)
  busy.send(GET)
  idle.send(GET)
  const [first, second] = await untilServed(2)
  const busyServed = first?.request.socket.remotePort === busy.socket.localPort ? first : second
  const idleServed = busyServed === first ? second : first
  idleServed?.response.end('served')
  await idle.until((text) => text.endsWith('served'))

  await listener.stopAccepting()
  await expect(exchangeOrFail(port)).rejects.toThrow('ECONNREFUSED')
  expect(listener.inFlight()).toBe(1)
  busyServed?.response.end('served')
  expect(await busy.closed).toMatch(/Connection: close\r\n[^]*served$/)

  // The idle one has had no response yet that could close it; its next one does.
  expect(idle.socket.destroyed).toBe(false)
  idle.send(GET)
  const third = (await untilServed(3))[2]
  third?.response.end('served')
  expect(await idle.closed).toMatch(/Connection: close\r\n[^]*served$/)
  await listener.closed
})

function exchangeOrFail(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    send({ port, host: '127.0.0.1' }, () => resolve())
      .on('error', reject)
      .end()
  })
}

test('a listener that begins to drain still accepts connections, each for one response', async () => {
  const { port, listener } = await startEager()
  listener.beginDraining()
  const client = connectTo(port)
  client.send(GET)
  expect(await client.closed).toMatch(/Connection: close\r\n[^]*served$/)
})

test('closeIdle closes connections without a request, and no other', async () => {
  const { port, listener, untilServed } = await startHeld()
  const busy = connectTo(port)
  busy.send(GET)
  const [first] = await untilServed(1)
  const idle = connectTo(port)
  idle.send(GET)
  const second = (await untilServed(2))[1]
  second?.response.end('served')
  await idle.until((text) => text.endsWith('served'))
  const silent = connectTo(port)
  await new Promise((resolve) => silent.socket.once('connect', resolve))
  await until(() => listener.server.listening)
  await listener.stopAccepting()
  // The silent one may have to be accepted first.
  const closing = setInterval(() => listener.closeIdle(), 5)
  await Promise.all([idle.closed, silent.closed])
  clearInterval(closing)
  expect(busy.socket.destroyed).toBe(false)
  first?.response.end('served')
  await busy.closed
  await listener.closed
})

test('destroyAll closes connections with requests in flight as well', async () => {
  const { port, listener, untilServed } = await startHeld()
  const client = connectTo(port)
  client.send(GET)
  await untilServed(1)
  await listener.stopAccepting()
  listener.destroyAll()
  await client.closed
  await listener.closed
  expect(listener.inFlight()).toBe(0)
})

test('a listener that never started can be stopped', async () => {
  const listener = createListener({
    listen: { host: '127.0.0.1', port: 0 },
    tls: undefined,
    timeouts: { headersMs: 1000, requestMs: 1000, stallMs: 1000 },
    maxConnections: 10,
    perAddress: UNCOUNTED,
    log: createMemoryLog().log,
  })
  await listener.stopAccepting()
  listener.destroyAll()
  await listener.closed
})
