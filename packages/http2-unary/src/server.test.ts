/** The listener: sockets, their number, and how they end. TLS is in tls.test.ts. */
import { once } from 'node:events'
import { connect } from 'node:http2'
import { type AddressInfo, connect as connectSocket, type Socket } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { call, framesOf, PATH, ping, settings, settingsAck } from './conversation.test-helper.js'
import { FrameType, PREFACE } from './frames.js'
import { eventually } from './eventually.test-helper.js'
import { createUnaryServer, type UnaryServer, type UnaryServerOptions } from './server.js'

const servers: UnaryServer[] = []
const sockets: Socket[] = []
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy()
  await Promise.all(servers.splice(0).map((server) => server.close()))
})

const methods = { [PATH]: (message: Buffer) => message }

async function start(options: Partial<UnaryServerOptions> = {}) {
  const server = createUnaryServer({ methods, ...options })
  servers.push(server)
  const { port } = (await server.listen({ host: '127.0.0.1', port: 0 })) as AddressInfo
  return { server, port }
}

async function open(port: number): Promise<Socket> {
  const socket = connectSocket({ port, host: '127.0.0.1' })
  sockets.push(socket)
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

const HELLO = Buffer.concat([PREFACE, settings(), settingsAck()])

/** Reads until so many frames of a type have come. */
async function readFrames(socket: Socket, type: number, count: number): Promise<void> {
  let bytes = Buffer.alloc(0)
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
    bytes = Buffer.concat([bytes, chunk as Buffer])
    if (framesOf(bytes).filter((frame) => frame.type === type).length >= count) return
  }
}

describe('a server', () => {
  test('refuses limits and metadata that mean nothing', () => {
    expect(() => createUnaryServer({ methods, limits: { streams: 0 } })).toThrow(
      'limits.streams: found 0; accepted: 1 to 2147482624',
    )
    for (const name of ['X-A', 'content-type', ':path', 'a b', '']) {
      expect(() => createUnaryServer({ methods, metadata: [name] })).toThrow(`metadata: "${name}"`)
    }
    expect(() => createUnaryServer({ methods, metadata: ['x-a', 'x-a'] })).toThrow(
      'metadata: "x-a"',
    )
  })

  test('rejects a port that is taken, and may be closed then', async () => {
    const { port } = await start()
    const second = createUnaryServer({ methods })
    await expect(second.listen({ host: '127.0.0.1', port })).rejects.toThrow('EADDRINUSE')
    await second.close()
  })

  test('without tls has no certificates to replace', async () => {
    const { server } = await start()
    expect(() => server.setSecureContext({})).toThrow('without tls')
  })

  test('closes connections beyond its bounds at once', async () => {
    const { server, port } = await start({ limits: { connectionsPerAddress: 2 } })
    const first = await open(port)
    await open(port)
    const third = await open(port)
    let received = 0
    third.on('data', (chunk) => (received += chunk.length))
    await once(third, 'close')
    // Nothing was made for it.
    expect(received).toBe(0)
    expect(server.stats()).toMatchObject({ connections: 2, connectionsRefused: 1 })
    first.destroy()
    await eventually(() => server.stats().connections).toBe(1)
    const fourth = await open(port)
    fourth.write(Buffer.concat([HELLO, ping()]))
    await readFrames(fourth, FrameType.ping, 1)
    expect(server.stats().connectionsAccepted).toBe(3)
  })

  test('has a bound of connections in all', async () => {
    const { server, port } = await start({ limits: { connections: 1 } })
    await open(port)
    const second = await open(port)
    await once(second.resume(), 'close')
    expect(server.stats().connectionsRefused).toBe(1)
  })

  test('asks about each connection, and says when it is gone', async () => {
    const admitted: string[] = []
    const admit = (address: string) => {
      if (admitted.length === 1) return undefined
      admitted.push(address)
      return () => void admitted.pop()
    }
    const { server, port } = await start({ admit })
    const first = await open(port)
    first.write(HELLO)
    const second = await open(port)
    await once(second.resume(), 'close')
    expect(server.stats().connectionsRefused).toBe(1)
    expect(admitted).toEqual(['127.0.0.1'])
    first.destroy()
    await eventually(() => admitted).toEqual([])
    await open(port)
    await eventually(() => admitted).toEqual(['127.0.0.1'])
  })

  test('closes what is silent', async () => {
    const { server, port } = await start({ limits: { prefaceMs: 10 } })
    const socket = await open(port)
    await once(socket.resume(), 'end')
    expect(server.stats().timeouts).toBe(1)
  })

  test('goes on when a client disappears in the middle of its calls', async () => {
    const { server, port } = await start({ methods: { [PATH]: () => new Promise(() => {}) } })
    const socket = await open(port)
    socket.write(Buffer.concat([HELLO, call(1), call(3).subarray(0, 20)]))
    await eventually(() => server.stats().calls).toBe(1)
    socket.resetAndDestroy()
    await eventually(() => server.stats().connections).toBe(0)
  })

  test('reads no more from a client that does not read, and answers it all later', async () => {
    const { server, port } = await start({
      methods: { [PATH]: () => Buffer.alloc(1_000) },
      limits: { streams: 100_000 },
    })
    const socket = await open(port)
    socket.pause()
    const count = 20_000
    const wide = Buffer.concat([PREFACE, settings([4, 2 ** 31 - 1]), settingsAck()])
    const update = Buffer.from([0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7f, 0, 0, 0])
    socket.write(Buffer.concat([wide, update]))
    const ids = Array.from({ length: count }, (_, index) => 2 * index + 1)
    socket.write(Buffer.concat(ids.map((id) => call(id))))
    let before = -1
    const isStill = () => {
      const { calls } = server.stats()
      const isSame = calls > 0 && calls === before
      before = calls
      return isSame
    }
    await eventually(isStill, 200).toBe(true)
    expect(server.stats().calls).toBeLessThan(count)
    let bytes = 0
    socket.on('data', (chunk) => (bytes += chunk.length)).resume()
    await eventually(() => server.stats().answers).toBe(count)
    await eventually(() => bytes).toBeGreaterThan(count * 1_000)
  })
})

describe('closing', () => {
  test('destroys connections, and is done when they are gone', async () => {
    const { server, port } = await start()
    const socket = await open(port)
    await Promise.all([once(socket.resume(), 'close'), server.close()])
    expect(server.stats().connections).toBe(0)
  })

  test.each([Infinity, 2 ** 40])('drains as long as it takes if that is %d ms', async (ms) => {
    let answer = () => {}
    const handler = () =>
      new Promise<Buffer>((resolve) => (answer = () => resolve(Buffer.alloc(0))))
    const { server, port } = await start({ methods: { [PATH]: handler } })
    const socket = await open(port)
    socket.write(Buffer.concat([HELLO, call(1)]))
    await eventually(() => server.stats().calls).toBe(1)
    const drained = server.drain(ms)
    await readFrames(socket, FrameType.goaway, 2)
    answer()
    await readFrames(socket, FrameType.data, 1)
    expect(server.stats().answers).toBe(1)
    socket.end()
    await drained
  })

  test('a server that never listened is no error', async () => {
    const server = createUnaryServer({ methods })
    await server.close()
    await server.drain(10)
  })

  test('drains a client that keeps calls open only until the time is over', async () => {
    const { server, port } = await start({ methods: { [PATH]: () => new Promise(() => {}) } })
    const session = connect(`http://127.0.0.1:${port}`)
    session.on('error', () => {})
    const stream = session.request({
      ':method': 'POST',
      ':path': PATH,
      'content-type': 'application/grpc',
    })
    stream.on('error', () => {})
    stream.end(Buffer.alloc(5))
    await eventually(() => server.stats().calls).toBe(1)
    await server.drain(50)
    expect(server.stats().connections).toBe(0)
    session.destroy()
  })

  test('is possible within a handler, which is answered if that is a drain', async () => {
    let drained: Promise<void> | undefined
    const { server, port } = await start({
      methods: {
        [PATH]: (message) => {
          drained = server.drain(5_000)
          return message
        },
      },
    })
    const socket = await open(port)
    socket.write(Buffer.concat([HELLO, call(1)]))
    await readFrames(socket, FrameType.data, 1)
    socket.end()
    await drained
  })
})
