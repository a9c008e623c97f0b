import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { startFaultProxy, type FaultProxy } from './fault-proxy.js'
import { waitFor } from './wait-for.js'

/** Long enough for bytes to pass: a test that expects none can only wait. */
const A_WHILE_MS = 50

let server: Server
let proxy: FaultProxy
/** All bytes that the server received. */
let serverText = ''
let peers: Socket[] = []

beforeEach(async () => {
  serverText = ''
  peers = []
  server = createServer((socket) => {
    peers.push(socket)
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      serverText += bytes.toString()
      socket.write(bytes)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  proxy = await startFaultProxy((server.address() as AddressInfo).port)
})

afterEach(async () => {
  await proxy.stop()
  for (const peer of peers) peer.destroy()
  server.close()
})

interface Client {
  readonly socket: Socket
  /** All bytes that came back. */
  received(): string
  say(words: string): void
  /** Why it ended: an error code, `end`, or undefined while it is open. */
  ended(): string | undefined
}

async function dial(): Promise<Client> {
  const socket = connect(proxy.port, proxy.host)
  let received = ''
  let ended: string | undefined
  socket.on('data', (bytes) => {
    received += bytes.toString('latin1')
  })
  socket.on('end', () => {
    ended ??= 'end'
  })
  socket.on('error', (error: NodeJS.ErrnoException) => {
    ended ??= error.code
  })
  await once(socket, 'connect')
  return {
    socket,
    received: () => received,
    say: (words) => void socket.write(words),
    ended: () => ended,
  }
}

const until = (what: string, isSo: () => boolean) => waitFor(what, async () => isSo())
const untilReceived = (client: Client, words: string) =>
  until(`"${words}" received`, () => client.received() === words)

test('without a fault bytes and connection ends pass both ways', async () => {
  const client = await dial()
  client.say('hello')
  await untilReceived(client, 'hello')
  expect([proxy.connections(), proxy.accepted()]).toEqual([1, 1])
  client.socket.end()
  await until('no connection', () => proxy.connections() === 0)
  await until('an end', () => client.ended() === 'end')
})

test('delay delivers bytes later and in order, also on connections that were already open', async () => {
  const client = await dial()
  proxy.delay(30, 20)
  const start = performance.now()
  const words = Array.from({ length: 20 }, (_, n) => `${n},`)
  for (const word of words) {
    client.say(word)
    await sleep(1)
  }
  await untilReceived(client, words.join(''))
  expect(performance.now() - start).toBeGreaterThanOrEqual(60)
})

test('heal delivers delayed bytes immediately', async () => {
  const client = await dial()
  proxy.delay(3_600_000)
  client.say('hello')
  await sleep(A_WHILE_MS)
  expect(serverText).toBe('')
  await proxy.heal()
  await untilReceived(client, 'hello')
})

test('slow delivers bytes in small pieces', async () => {
  const client = await dial()
  proxy.slow(1, 5)
  const start = performance.now()
  client.say('0123456789')
  let parts = 0
  client.socket.on('data', () => {
    parts += 1
  })
  await untilReceived(client, '0123456789')
  expect(parts).toBeGreaterThan(1)
  expect(performance.now() - start).toBeGreaterThanOrEqual(45)
})

test('cut resets open connections, and accepts new ones', async () => {
  const client = await dial()
  client.say('a')
  await untilReceived(client, 'a')
  proxy.cut()
  await until('a reset', () => client.ended() === 'ECONNRESET')
  const next = await dial()
  next.say('b')
  await untilReceived(next, 'b')
})

test('refuse rejects new connections and keeps open ones, until heal', async () => {
  const client = await dial()
  proxy.refuse()
  await expect(dial()).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  client.say('a')
  await untilReceived(client, 'a')
  await proxy.heal()
  const next = await dial()
  next.say('b')
  await untilReceived(next, 'b')
})

test('a black hole accepts connections and drops all bytes; heal resets connections that lost bytes', async () => {
  const [open, idle] = [await dial(), await dial()]
  proxy.blackhole()
  const fresh = await dial()
  for (const client of [open, fresh]) client.say('lost')
  for (const peer of peers) peer.destroy()
  await sleep(A_WHILE_MS)
  expect([serverText, open.received(), open.ended(), fresh.ended()]).toEqual([
    '',
    '',
    undefined,
    undefined,
  ])
  await proxy.heal()
  for (const client of [open, idle, fresh]) {
    await until('a reset', () => client.ended() === 'ECONNRESET')
  }
})

test('forget makes open connections a black hole, and new ones work', async () => {
  const open = await dial()
  proxy.forget()
  open.say('lost')
  const fresh = await dial()
  fresh.say('heard')
  await untilReceived(fresh, 'heard')
  await sleep(A_WHILE_MS)
  expect([serverText, open.received(), open.ended()]).toEqual(['heard', '', undefined])
  await proxy.heal()
  await until('a reset', () => open.ended() === 'ECONNRESET')
  fresh.say(' again')
  await untilReceived(fresh, 'heard again')
})

test('a black hole for replies alone lets commands through', async () => {
  const client = await dial()
  proxy.blackhole('to-client')
  client.say('done')
  await until('a command', () => serverText === 'done')
  await sleep(A_WHILE_MS)
  expect([client.received(), client.ended()]).toEqual(['', undefined])
})

test('held bytes arrive after heal, late and complete', async () => {
  const client = await dial()
  proxy.hold('to-server')
  client.say('late ')
  await sleep(A_WHILE_MS)
  client.say('call')
  expect(serverText).toBe('')
  await proxy.heal()
  await untilReceived(client, 'late call')
})

test('garbage replaces replies, not commands', async () => {
  const client = await dial()
  proxy.garbage()
  client.say('0123456789')
  await until('a reply', () => client.received().length === 10)
  expect(serverText).toBe('0123456789')
  expect(client.received()).not.toBe('0123456789')
  proxy.garbage((reply) => Buffer.from(`-${reply.length}`))
  client.say('abc')
  await until('a chosen reply', () => client.received().endsWith('-3'))
})

test('a limit passes this many bytes of replies and then resets, for each new connection again', async () => {
  const client = await dial()
  client.say('before')
  await untilReceived(client, 'before')
  proxy.limitData(4)
  const fresh = await dial()
  for (const each of [client, fresh]) each.say('012345')
  for (const each of [client, fresh]) await until('an end', () => each.ended() !== undefined)
  expect([client.received(), fresh.received()]).toEqual(['before0123', '0123'])
})

test('faults can be combined', async () => {
  const client = await dial()
  proxy.delay(20)
  proxy.limitData(4)
  proxy.garbage((reply) => Buffer.from(reply.toString().toUpperCase()))
  const start = performance.now()
  client.say('abcdef')
  await until('an end', () => client.ended() !== undefined)
  expect(client.received()).toBe('ABCD')
  expect(performance.now() - start).toBeGreaterThanOrEqual(40)
})

test('a server that is down gives a reset, and large data passes complete', async () => {
  const client = await dial()
  const much = 'x'.repeat(20_000_000)
  client.say(much)
  await until('all of it', () => client.received().length === much.length)
  server.close()
  const late = await dial()
  await until('a reset', () => late.ended() === 'ECONNRESET')
})
