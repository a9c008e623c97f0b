/** The middleware for `ws`: upgrades and messages over real sockets. */
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { createLimiter } from '../../packages/limiter/src/index.js'
import { sluice, type WsLimiter, type WsOptions } from '../../packages/limiter/src/middleware/ws.js'

const RULES = [
  { id: 'upgrades', match: { method: 'GET', path: '/chat' }, by: ['user'], limits: ['2/day'] },
  { id: 'messages', match: { method: 'MESSAGE' }, by: ['user'], limits: ['3/day'] },
]

let server: Server | undefined
let limited: WsLimiter | undefined

afterEach(async () => {
  server?.closeAllConnections()
  await new Promise((resolve) => server?.close(resolve))
  await limited?.close()
})

/** An echo server; returns its address. */
async function serve(options: Partial<WsOptions> = {}): Promise<string> {
  const limits = sluice({
    ...(options.limiter === undefined && { rules: RULES }),
    attributes: ({ headers }) => ({ user: headers['x-user']?.toString() }),
    logger: { warn: () => {}, error: () => {} },
    ...options,
  })
  const webSockets = new WebSocketServer({ noServer: true })
  webSockets.on('connection', (socket, request) => {
    const echo = (data: Buffer) => socket.send(String(data))
    socket.on('message', limits.message(socket, request, echo))
  })
  limited = limits
  const listening = createServer()
  server = listening
  listening.on('upgrade', limits.upgrade(webSockets))
  await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve))
  return `ws://127.0.0.1:${(listening.address() as AddressInfo).port}/chat`
}

interface Handshake {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string
}

const open = (url: string, user: string) => new WebSocket(url, { headers: { 'x-user': user } })

/** The answer to an upgrade; an accepted one is closed again. */
function shakeHands(url: string, user: string): Promise<Handshake> {
  const socket = open(url, user)
  return new Promise((resolve, reject) => {
    socket.on('upgrade', ({ statusCode: status = 0, headers }) => {
      socket.on('open', () => socket.close())
      socket.on('close', () => resolve({ status, headers, body: '' }))
    })
    socket.on('unexpected-response', (_request, response) => {
      let body = ''
      response.on('data', (chunk: Buffer) => {
        body += String(chunk)
      })
      const { statusCode: status = 0, headers } = response
      response.on('end', () => resolve({ status, headers, body }))
    })
    socket.on('error', reject)
  })
}

/** Sends messages at once; resolves with the echoes and how the WebSocket ended. */
function exchange(url: string, user: string, messages: readonly string[]) {
  const socket = open(url, user)
  const echoes: string[] = []
  return new Promise<{ echoes: readonly string[]; code: number; reason: string }>((resolve) => {
    socket.on('open', () => {
      for (const message of messages) socket.send(message)
    })
    socket.on('message', (data: Buffer) => {
      echoes.push(String(data))
      if (echoes.length === messages.length) socket.close(1000)
    })
    socket.on('close', (code, reason) => resolve({ echoes, code, reason: String(reason) }))
  })
}

test('an upgrade over the limit gets the response of a refused request', async () => {
  const url = await serve()
  const answers = [await shakeHands(url, 'ann'), await shakeHands(url, 'ann')]
  expect(answers.map(({ status }) => status)).toEqual([101, 101])
  expect(answers.map(({ headers }) => headers['x-ratelimit-remaining'])).toEqual(['1', '0'])
  const { status, headers, body } = await shakeHands(url, 'ann')
  expect(status).toBe(429)
  expect(headers['content-type']).toBe('application/problem+json')
  expect(headers['connection']).toBe('close')
  expect(JSON.parse(body)).toMatchObject({ status: 429, 'violated-policies': ['upgrades'] })
  expect((await shakeHands(url, 'bob')).status).toBe(101)
})

test('an ambiguous path is refused with 400', async () => {
  const url = await serve()
  expect((await shakeHands(url.replace('/chat', '//chat'), 'ann')).status).toBe(400)
})

test('an own answer replaces the response to a refused upgrade', async () => {
  const url = await serve({ onRefused: (_request, response) => void response.end('later') })
  for (const _ of [1, 2]) await shakeHands(url, 'ann')
  const { status, body } = await shakeHands(url, 'ann')
  expect({ status, body }).toEqual({ status: 429, body: 'later' })
})

test('a message over the limit closes the WebSocket with 1008', async () => {
  const url = await serve()
  const { echoes, code, reason } = await exchange(url, 'ann', ['1', '2', '3', '4', '5'])
  expect(echoes).toEqual(['1', '2', '3'])
  expect(code).toBe(1008)
  expect(reason).toMatch(/^Retry after \d+ seconds$/)
})

test('messages are delivered in order while decisions take different times', async () => {
  const limiter = createLimiter({ rules: RULES })
  let calls = 0
  const slow = {
    check: async (...args: Parameters<typeof limiter.check>) => {
      const decision = await limiter.check(...args)
      // The first decisions take longest.
      for (let turns = 10 - calls++; turns > 0; turns--) {
        await new Promise((resolve) => setImmediate(resolve))
      }
      return decision
    },
  }
  const url = await serve({ limiter: slow })
  expect(await exchange(url, 'ann', ['1', '2', '3'])).toMatchObject({
    echoes: ['1', '2', '3'],
    code: 1000,
  })
})

test('a message that cannot be decided closes the WebSocket', async () => {
  const limiter = createLimiter({ rules: RULES })
  const failing = {
    check: (...args: Parameters<typeof limiter.check>) =>
      args[0].attributes['method'] === 'MESSAGE'
        ? Promise.reject(new Error('no limiter today'))
        : limiter.check(...args),
  }
  const url = await serve({ limiter: failing })
  const { echoes, code, reason } = await exchange(url, 'ann', ['1'])
  expect({ echoes, code, reason }).toEqual({ echoes: [], code: 1008, reason: 'Not decided' })
})

test('an upgrade whose attributes cannot be read gets 500', async () => {
  const url = await serve({ attributes: () => Promise.reject(new Error('no attributes')) })
  expect((await shakeHands(url, 'ann')).status).toBe(500)
})

test('attributes that throw for a message close the WebSocket, and the server goes on', async () => {
  let reads = 0
  const url = await serve({
    attributes: () => {
      // The first read is that of the upgrade.
      if (++reads === 2) throw new Error('no session')
      return { user: 'ann' }
    },
  })
  expect(await exchange(url, 'ann', ['1'])).toEqual({
    echoes: [],
    code: 1008,
    reason: 'Not decided',
  })
  expect(await exchange(url, 'ann', ['1'])).toMatchObject({ echoes: ['1'], code: 1000 })
})

test('messages of a WebSocket that is skipped are not counted', async () => {
  let skips = 0
  const url = await serve({ skip: () => ++skips > 0 })
  const messages = ['1', '2', '3', '4', '5']
  expect(await exchange(url, 'ann', messages)).toMatchObject({ echoes: messages, code: 1000 })
  // Once for the upgrade, and once for all messages.
  expect(skips).toBe(2)
})

test('a message takes the cost of its upgrade', async () => {
  const url = await serve({ cost: () => 2 })
  const { echoes, code } = await exchange(url, 'ann', ['1', '2'])
  expect({ echoes, code }).toEqual({ echoes: ['1'], code: 1008 })
})

const UPGRADE =
  'GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
  'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'

test.each([
  [
    'is refused',
    { limiter: createLimiter({ rules: [{ id: 'none', by: [], limits: ['0/day'] }] }) },
  ],
  ['fails', { attributes: () => Promise.reject(new Error('no attributes')) }],
])('the socket of an upgrade that %s is closed, whatever its client sends', async (_, options) => {
  const url = await serve(options)
  const closed = new Promise<void>((resolve) => {
    server?.once('connection', (socket: Socket) => socket.once('close', () => resolve()))
  })
  // The client leaves its own side open.
  const client = connect({
    port: Number(new URL(url).port),
    host: '127.0.0.1',
    allowHalfOpen: true,
  })
  client.on('error', () => {})
  client.write(`${UPGRADE}more`)
  let answer = ''
  client.on('data', (data) => {
    answer += String(data)
    client.write('more')
  })
  await Promise.all([closed, new Promise((resolve) => client.once('end', resolve))])
  client.destroy()
  expect(answer).toMatch(/^HTTP\/1.1 (429|500) /)
})

test('a WebSocket is in flight until its connection ends, and its messages are not', async () => {
  const limiter = createLimiter({
    rules: [{ id: 'sockets', by: ['user'], limits: [{ algorithm: 'concurrency', max: 1 }] }],
  })
  const inFlight = () => limiter.inFlight.get('sockets')?.inFlight
  const url = await serve({ limiter })
  const socket = open(url, 'ann')
  await new Promise((resolve) => socket.on('open', resolve))
  expect((await shakeHands(url, 'ann')).status).toBe(429)
  const { echoes } = await exchange(url, 'bob', ['1', '2', '3'])
  expect(echoes).toEqual(['1', '2', '3'])
  const reach = async (count: number) => {
    while (inFlight() !== count) await new Promise((resolve) => setTimeout(resolve, 5))
  }
  await reach(1)
  socket.close()
  await reach(0)
  const next = open(url, 'ann')
  await new Promise((resolve) => next.on('open', resolve))
  await reach(1)
  next.terminate()
  await reach(0)
})
