/** Servers that are not a Redis, or a broken one: no reply reaches the wrong command. */
import { createServer, type Server, type Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { waitFor } from '../../../../../tools/redis/wait-for.js'
import { RedisConnectionError } from './driver.js'
import { REDIS_CLIENTS } from '../redis-options.js'
import { ask, askAll, open, readyChannel, textOf } from './drivers.test-helper.js'

interface BadServer {
  readonly url: string
  /** The number of connections so far. */
  readonly connections: () => number
}

/** `answer` is called with all data, as it arrives. */
async function start(answer: (socket: Socket, text: string) => void): Promise<BadServer> {
  let connections = 0
  const sockets = new Set<Socket>()
  const server: Server = createServer((socket) => {
    connections += 1
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    socket.on('data', (data) => answer(socket, data.toString()))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('No port')
  return { url: `redis://127.0.0.1:${address.port}`, connections: () => connections }
}

const isGreeting = (text: string) => text === '*1\r\n$4\r\nPING\r\n'
const PONG = '+PONG\r\n'

/** A server that works, except for its first reply after the handshake. */
function once(answer: string): (socket: Socket, text: string) => void {
  let isSaid = false
  return (socket, text) => {
    if (isGreeting(text)) socket.write(PONG)
    else if (isSaid) socket.write('+FINE\r\n')
    else {
      isSaid = true
      socket.write(answer)
    }
  }
}

describe.each(REDIS_CLIENTS)('a server that is not a Redis, by %s', (client) => {
  test.each([
    ['HTTP', 'HTTP/1.1 400 Bad Request\r\n\r\n'],
    ['bytes', '\u0000\u0001\u0002\r\n'],
    ['a length that is none', '$x\r\nabc\r\n'],
  ])(
    'never becomes ready, and is reported and retried, if it answers in %s',
    async (_, garbage) => {
      const server = await start((socket) => socket.write(garbage))
      const { driver, problems } = await open(server.url, client, { connectTimeoutMs: 100 })
      await waitFor('Several tries', async () => server.connections() >= 3)
      expect(driver.channelOf(0)?.isReady).toBe(false)
      expect(problems.length).toBeGreaterThan(0)
      expect(problems.length).toBeLessThan(4)
    },
  )

  test('gets pauses between attempts if it closes every connection', async () => {
    const server = await start((socket) => socket.destroy())
    const { driver, problems } = await open(server.url, client)
    await waitFor('Several tries', async () => server.connections() >= 3)
    expect(driver.channelOf(0)?.isReady).toBe(false)
    expect(problems.length).toBeGreaterThan(0)
  })

  test('times out and is retried if it never answers', async () => {
    const server = await start(() => {})
    const { driver, problems } = await open(server.url, client, { connectTimeoutMs: 50 })
    await waitFor('Several tries', async () => server.connections() >= 3)
    expect(driver.channelOf(0)?.isReady).toBe(false)
    expect(problems).toEqual([expect.stringContaining('No answer within 50 ms')])
  })

  test('settles all outstanding commands as lost if it breaks in the middle', async () => {
    const server = await start(once('+ONE\r\nZ\r\n+THREE\r\n'))
    const { driver } = await open(server.url, client)
    const channel = await readyChannel(driver)
    const [one, two, three] = await askAll(channel, [['A'], ['B'], ['C']])
    expect(one === undefined || textOf(one)).toMatch(/^(ONE|RedisConnectionError.*)$/)
    expect(two).toBeInstanceOf(RedisConnectionError)
    expect(three).toBeInstanceOf(RedisConnectionError)
    await readyChannel(driver)
    expect(textOf(await ask(channel, 'D'))).toBe('FINE')
  })

  test('loses the connection if it sends unrequested replies', async () => {
    const server = await start(once('+A\r\n+TOO MUCH\r\n'))
    const { driver, readies } = await open(server.url, client)
    const channel = await readyChannel(driver)
    const before = readies.length
    expect(textOf(await ask(channel, 'A'))).toBe('A')
    await waitFor('Another connection', async () => readies.length > before)
    expect(textOf(await ask(channel, 'B'))).toBe('FINE')
  })

  test('may send a reply byte by byte', async () => {
    const server = await start((socket, text) => {
      if (isGreeting(text)) socket.write(PONG)
      else {
        const bytes = Array.from('*2\r\n$3\r\nabc\r\n:12\r\n')
        const next = () => {
          const byte = bytes.shift()
          if (byte !== undefined) socket.write(byte, () => setImmediate(next))
        }
        next()
      }
    })
    const channel = await readyChannel((await open(server.url, client)).driver)
    expect(await ask(channel, 'A')).toEqual([Buffer.from('abc'), 12])
  })

  test('leaves nothing behind when it is closed in any state', async () => {
    const resources = () =>
      process.getActiveResourcesInfo().filter((name) => /^T(CP|LS|imeout)/.test(name)).length
    const quiet = await start(() => {})
    const before = resources()
    const { driver } = await open(quiet.url, client)
    await waitFor('A connection', async () => quiet.connections() > 0)
    await driver.close()
    // The sockets of the server are in this process too, and end a moment later.
    await waitFor('No more than before', async () => resources() <= before)
    const early = await open(quiet.url, client)
    await early.driver.close()
    await waitFor('No more than before', async () => resources() <= before)
  })
})
