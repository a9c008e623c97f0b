import { connect, constants, type ClientHttp2Session } from 'node:http2'
import { connect as connectSocket, type Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import {
  closeAfterEach,
  closeAfterTest,
  eventually,
  openTestServer,
  RESPONSE,
  SERVERS,
  startGrpc as startServer,
  type TestGrpcOptions,
  TestClient,
  testService,
} from '../envoy.test-helper.js'
import { CALL_HEADERS as HEADERS, callFrames, PREFACE } from './http2-frames.test-helper.js'

closeAfterEach()

const EMPTY = Buffer.alloc(5)
const LAST_STREAM = 2 ** 31 - 1
/** Times that pass soon, for what the sweeps of a listener do. */
const SOON = { sweepMs: 5 }
const NEVER = 1_000_000

interface TestSession {
  readonly session: ClientHttp2Session
  readonly goaways: number[]
  readonly closed: Promise<void>
}

async function openSession(port: number): Promise<TestSession> {
  const session = connect(`http://127.0.0.1:${port}`)
  closeAfterTest(() => session.destroy())
  const goaways: number[] = []
  session.on('goaway', (_code, last) => goaways.push(last))
  session.on('error', () => {})
  const closed = new Promise<void>((resolve) => session.once('close', resolve))
  await new Promise((resolve) => session.once('remoteSettings', resolve))
  return { session, goaways, closed }
}

/** Sends an empty request; resolves to the status of gRPC, or undefined if the stream failed. */
function call(session: ClientHttp2Session, body: Buffer | undefined = EMPTY) {
  const stream = session.request(HEADERS)
  stream.on('error', () => {})
  stream.resume()
  if (body !== undefined) stream.end(body)
  return new Promise<string | undefined>((resolve) => {
    let status: string | undefined
    stream.on('trailers', (trailers) => (status = String(trailers['grpc-status'])))
    stream.on('close', () => resolve(status))
  })
}

function openSocket(port: number): Promise<Socket> {
  return new Promise((resolve) => {
    const socket = connectSocket(port, '127.0.0.1', () => resolve(socket))
    closeAfterTest(() => void socket.destroy())
    socket.on('error', () => {})
    // A socket that nobody reads does not learn that it was closed.
    socket.resume()
  })
}

/** The last stream of each GOAWAY, and the streams that received data, in order. */
function framesOf(bytes: Buffer) {
  const goaways: number[] = []
  const answered: number[] = []
  for (let at = 0; at + 9 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3)) {
    if (bytes[at + 3] === 7) goaways.push(bytes.readUInt32BE(at + 9))
    if (bytes[at + 3] === 0) answered.push(bytes.readUInt32BE(at + 5))
  }
  return { goaways, answered }
}

describe.each(SERVERS)('connections of the server %s', (kind) => {
  const startGrpc = (options: TestGrpcOptions = {}) => startServer({ kind, ...options })

  test('draining finishes the calls in flight and answers those that are on their way', async () => {
    const answers: (() => void)[] = []
    const service = testService(
      () => new Promise((resolve) => answers.push(() => resolve(RESPONSE))),
    )
    const { port, listener } = await startGrpc({ service })
    const socket = await openSocket(port)
    const chunks: Buffer[] = []
    socket.on('data', (chunk: Buffer) => chunks.push(chunk))
    const closed = new Promise((resolve) => socket.once('close', resolve))
    socket.write(Buffer.concat([PREFACE, callFrames(1)]))
    await eventually(() => answers.length).toBe(1)
    listener.beginDraining()
    await listener.stopAccepting()
    // Sent before the client learned that the connection ends.
    socket.write(callFrames(3))
    await eventually(() => answers.length).toBe(2)
    expect(listener.inFlight()).toBe(2)
    listener.closeIdle()
    for (const answer of answers) answer()
    await closed
    await listener.closed
    const { goaways, answered } = framesOf(Buffer.concat(chunks))
    expect(goaways.slice(0, 2)).toEqual([LAST_STREAM, 3])
    expect(answered.toSorted((a, b) => a - b)).toEqual([1, 3])
    expect(listener.inFlight()).toBe(0)
  })

  test('after the end of accepting no client connects', async () => {
    const { port, listener } = await startGrpc()
    await listener.stopAccepting()
    const socket = connectSocket(port, '127.0.0.1')
    const [error] = await new Promise<readonly unknown[]>((resolve) =>
      socket.once('error', (...values) => resolve(values)),
    )
    expect(error).toMatchObject({ code: 'ECONNREFUSED' })
  })

  test('clients lose no call while one server follows another on the same port', async () => {
    const first = await startGrpc()
    const client = new TestClient(first.target)
    const results: Promise<unknown>[] = []
    const send = (count: number) => {
      for (let index = 0; index < count; index++) results.push(client.shouldRateLimit())
    }
    send(20)
    await first.listener.stopAccepting()
    send(20)
    const { port } = first
    const second = await startGrpc({ listen: { host: '127.0.0.1', port } })
    send(20)
    first.listener.closeIdle()
    await first.listener.closed
    send(20)
    for (const result of await Promise.all(results)) {
      expect(result).toMatchObject({ error: undefined })
    }
    expect(second.listener.connections()).toBe(1)
  })

  test('what is still open at the end is destroyed, also a connection without HTTP/2', async () => {
    const { port, listener } = await startGrpc({
      service: testService(() => new Promise(() => {})),
    })
    const socket = await openSocket(port)
    const { session, closed } = await openSession(port)
    const lost = call(session)
    await eventually(() => listener.inFlight()).toBe(1)
    await listener.stopAccepting()
    listener.destroyAll()
    expect(await lost).toBeUndefined()
    await closed
    await new Promise((resolve) => (socket.destroyed ? resolve(0) : socket.once('close', resolve)))
    await listener.closed
  })

  test('a listener that never started closes', async () => {
    const { health, memoryLog } = await startGrpc()
    const other = openTestServer({ kind }, { health, memoryLog })
    await other.stopAccepting()
    await other.closed
    expect(other.connections()).toBe(0)
  })

  test('a port that is taken is reported', async () => {
    const { port } = await startGrpc()
    await expect(startGrpc({ listen: { host: '127.0.0.1', port } })).rejects.toThrow(
      `listen 127.0.0.1:${port}: something else listens there`,
    )
  })

  test('connections beyond the bound are refused and counted', async () => {
    const { port, listener, memoryLog } = await startGrpc({ maxConnections: 2, times: SOON })
    const first = await openSession(port)
    await openSession(port)
    const refused = await openSocket(port)
    await new Promise((resolve) => refused.once('close', resolve))
    expect(listener.counts().overMax).toBe(1)
    expect(await call(first.session)).toBe('0')
    await eventually(() => memoryLog.lines).toMatchObject([
      { connections: 1, maxConnections: 2, msg: 'too many connections' },
    ])
  })

  test('connections beyond the bound of an address are refused and counted', async () => {
    const options = { maxConnectionsPerAddress: 1, times: SOON }
    const { port, listener, memoryLog } = await startGrpc(options)
    const { session, closed } = await openSession(port)
    const refused = await openSocket(port)
    await new Promise((resolve) => refused.once('close', resolve))
    expect(listener.counts()).toMatchObject({ overAddressMax: 1, overMax: 0 })
    expect(await call(session)).toBe('0')
    await eventually(() => memoryLog.lines).toMatchObject([
      { address: '127.0.0.1', setting: 'gateway.maxConnectionsPerAddress' },
    ])
    session.close()
    await closed
    await eventually(() => listener.connections()).toBe(0)
    expect(await call((await openSession(port)).session)).toBe('0')
  })

  test('short connections, such as those of health probes, leave nothing behind', async () => {
    const { port, listener } = await startGrpc()
    for (let index = 0; index < 200; index++) {
      const { session, closed } = await openSession(port)
      if (index % 2 === 0) {
        await call(session)
        session.close()
      } else session.destroy()
      await closed
    }
    await eventually(() => listener.connections()).toBe(0)
  })

  test('a client that never begins HTTP/2 is disconnected', async () => {
    const { port, listener } = await startGrpc({ times: { ...SOON, handshakeMs: 20 } })
    const socket = await openSocket(port)
    await new Promise((resolve) => socket.once('close', resolve))
    await eventually(() => listener.connections()).toBe(0)
  })

  test('a call whose message never arrives is ended', async () => {
    const { port, listener } = await startGrpc({ times: { ...SOON, callMs: 20 } })
    const { session } = await openSession(port)
    const stream = session.request(HEADERS)
    stream.on('error', () => {})
    stream.resume()
    stream.write(EMPTY.subarray(0, 3))
    await new Promise((resolve) => stream.once('close', resolve))
    expect(stream.rstCode).toBe(constants.NGHTTP2_CANCEL)
    await eventually(() => listener.inFlight()).toBe(0)
    expect(session.closed).toBe(false)
  })

  test('an old connection is announced to end, and closed when its calls have ended', async () => {
    const answers: (() => void)[] = []
    const service = testService(
      () => new Promise((resolve) => answers.push(() => resolve(RESPONSE))),
    )
    const times = { ...SOON, ageMs: 50, noticeMs: 20 }
    const { port } = await startGrpc({ service, times })
    const { session, goaways, closed } = await openSession(port)
    const answered = call(session)
    await eventually(() => goaways.length).toBeGreaterThan(1)
    expect(goaways[0]).toBe(LAST_STREAM)
    for (const answer of answers) answer()
    expect(await answered).toBe('0')
    await closed
  })

  test('an old connection whose call never ends is destroyed in the end', async () => {
    const service = testService(() => new Promise(() => {}))
    const times = { ...SOON, ageMs: 20, noticeMs: 10, closeMs: 60 }
    const { port } = await startGrpc({ service, times })
    const { session, closed } = await openSession(port)
    expect(await call(session)).toBeUndefined()
    await closed
  })

  test('a connection without calls for long is closed', async () => {
    const { port } = await startGrpc({ times: { ...SOON, idleMs: 20, noticeMs: 10 } })
    const { goaways, closed } = await openSession(port)
    await closed
    expect(goaways[0]).toBe(LAST_STREAM)
  })

  test('a client that answers pings stays, and one that is silent is disconnected', async () => {
    const times = { ...SOON, pingMs: 20, pingTimeoutMs: NEVER }
    const patient = await startGrpc({ times })
    const { session } = await openSession(patient.port)
    let pings = 0
    session.on('ping', () => pings++)
    await eventually(() => pings).toBeGreaterThan(2)
    expect(await call(session)).toBe('0')

    const strict = await startGrpc({ times: { ...SOON, pingMs: 20, pingTimeoutMs: 20 } })
    const silent = await openSocket(strict.port)
    silent.write(PREFACE)
    await new Promise((resolve) => silent.once('close', resolve))
    await eventually(() => strict.listener.counts().stalled).toBe(1)
    await eventually(() => strict.memoryLog.lines).toMatchObject([
      { msg: 'connections closed: the client did not answer a ping' },
    ])
  })
})
