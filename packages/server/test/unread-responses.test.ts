import type { Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import {
  connectTo,
  startHeld,
  startListener,
  stopListeners,
  type TestListenerOptions,
  until,
} from '../src/entrypoints/http/http-listener.test-helper.js'

afterEach(stopListeners)

const GET = 'GET /x HTTP/1.1\r\nHost: a\r\n\r\n'
/** More than the kernel buffers of a response that is not read. */
const LARGE = Buffer.alloc(192 * 1024 * 1024)
const STALL = { headersMs: 400, stallMs: 1000 }

/** A listener whose every response is one large write, as those of the admin API may be. */
const startLarge = (options: TestListenerOptions = {}) =>
  startListener({
    ...STALL,
    prepare: (_server, listener) => listener.serve((_, response) => void response.end(LARGE)),
    ...options,
  })

function readNothing(socket: Socket): Socket {
  socket.pause()
  return socket
}

test('a connection whose client reads nothing is cut, counted and logged, whatever is in flight', async () => {
  const { port, listener, memory } = await startLarge()
  const client = connectTo(port)
  readNothing(client.socket)
  client.send(GET.repeat(100))
  await until(() => listener.counts().stalled === 1)
  await until(() => listener.inFlight() === 0)
  expect(memory.lines).toContainEqual(
    expect.objectContaining({
      level: 'warn',
      connections: 1,
      msg: 'connections closed: the client stopped reading',
    }),
  )
  client.socket.destroy()
})

test('a client that reads a large response slowly is not cut', async () => {
  const { port, listener } = await startLarge()
  const [slow, still] = [connectTo(port), connectTo(port)]
  slow.send(GET)
  let taken = 0
  slow.socket.removeAllListeners('data')
  slow.socket.on('data', (bytes: Buffer) => {
    taken += bytes.length
    slow.socket.pause()
  })
  const drip = setInterval(() => slow.socket.resume(), 4)
  // Two others that read nothing are cut, one after the other; so would the slow one have been.
  for (let cut = 1; cut <= 2; cut++) {
    const next = cut === 1 ? still : connectTo(port)
    readNothing(next.socket)
    next.send(GET)
    await until(() => listener.counts().stalled === cut)
    next.socket.destroy()
  }
  clearInterval(drip)
  expect(taken).toBeLessThan(LARGE.length)
  await until(() => listener.inFlight() < 2)
  expect(listener.inFlight()).toBe(1)
  expect(listener.counts().stalled).toBe(2)
  slow.socket.destroy()
})

test('a client that has read everything and waits for more is not cut', async () => {
  const held = await startHeld(STALL)
  const idle = connectTo(held.port)
  idle.send(GET)
  const [first] = await held.untilServed(1)
  first?.response.write('an event')
  await idle.until((text) => text.includes('an event'))
  const still = connectTo(held.port)
  readNothing(still.socket)
  still.send(GET)
  const [, second] = await held.untilServed(2)
  second?.response.end(LARGE)
  await until(() => held.listener.counts().stalled === 1)
  first?.response.end('the last')
  await idle.until((text) => text.includes('the last'))
  idle.socket.destroy()
  still.socket.destroy()
})

test('a client that reads nothing is cut although more is written to it continuously', async () => {
  const held = await startHeld(STALL)
  const client = connectTo(held.port)
  readNothing(client.socket)
  client.send(GET)
  const [served] = await held.untilServed(1)
  served?.response.write(LARGE)
  const events = setInterval(() => served?.response.write('an event'), 10)
  await until(() => held.listener.counts().stalled === 1)
  clearInterval(events)
  client.socket.destroy()
})

test('an upgraded connection whose client reads nothing is left to its owner', async () => {
  const { port, listener } = await startLarge({
    prepare: (server, each) => {
      each.serve((_, response) => void response.end(LARGE))
      server.on('upgrade', (_, socket) => {
        socket.on('error', () => undefined)
        socket.write(LARGE)
      })
    },
  })
  const upgraded = connectTo(port)
  readNothing(upgraded.socket)
  upgraded.send(GET.replace('\r\n\r\n', '\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'))
  for (let cut = 1; cut <= 2; cut++) {
    const still = connectTo(port)
    readNothing(still.socket)
    still.send(GET)
    await until(() => listener.counts().stalled === cut)
    still.socket.destroy()
  }
  expect(upgraded.socket.destroyed).toBe(false)
  upgraded.socket.resume()
  await upgraded.until((text) => text.length > LARGE.length / 8)
  upgraded.socket.destroy()
})

test('connections of one address beyond its maximum are closed, counted and logged', async () => {
  const held = await startHeld({
    headersMs: 1000,
    perAddress: { maxConnections: 2, maxCalls: 10 },
  })
  const clients = [connectTo(held.port), connectTo(held.port)]
  for (const client of clients) client.send(GET)
  await held.untilServed(2)
  const third = connectTo(held.port)
  expect(await third.closed).toBe('')
  expect(held.listener.counts()).toMatchObject({ overMax: 0, overAddressMax: 1 })
  await until(() => held.memory.lines.length > 0)
  expect(held.memory.lines[0]).toMatchObject({
    level: 'warn',
    msg: 'connections refused: too many from one address',
    connections: 1,
    address: '[127.0.0.1]',
    most: 2,
  })
  // A free place goes to the next connection.
  clients[0]?.socket.destroy()
  await until(() => held.listener.inFlight() === 1)
  const fourth = connectTo(held.port)
  fourth.send(GET)
  await held.untilServed(3)
  for (const client of [...clients, fourth]) client.socket.destroy()
})

test('calls of one address beyond its maximum are answered 503, counted, logged and not served', async () => {
  const held = await startHeld({
    headersMs: 1000,
    perAddress: { maxConnections: 10, maxCalls: 2 },
  })
  const [one, other] = [connectTo(held.port), connectTo(held.port)]
  one.send(GET + GET)
  const served = await held.untilServed(2)
  other.send(GET)
  const busy = await other.until((text) => text.includes('address_busy'))
  expect(busy).toMatch(/^HTTP\/1\.1 503 Service Unavailable\r\n[^]*^Retry-After: 1\r$/m)
  expect(busy).toContain('Too many requests from this address are in progress.')
  expect(held.listener.counts().busyCalls).toBe(1)
  await until(() => held.memory.lines.length > 0)
  expect(held.memory.lines[0]).toMatchObject({
    msg: 'requests refused: too many in flight from one address',
    calls: 1,
    address: '[127.0.0.1]',
    most: 2,
  })
  // The connection stays open, and its next call gets the free place.
  served[0]?.response.end('served')
  await one.until((text) => text.endsWith('served'))
  await until(() => held.listener.inFlight() === 1)
  other.send(GET)
  expect(await held.untilServed(3)).toHaveLength(3)
  // Calls whose client has disconnected free their places too.
  one.socket.destroy()
  other.socket.destroy()
  await until(() => held.listener.inFlight() === 0)
  const next = connectTo(held.port)
  next.send(GET + GET)
  await held.untilServed(5)
  expect(held.listener.counts().busyCalls).toBe(1)
  next.socket.destroy()
})
