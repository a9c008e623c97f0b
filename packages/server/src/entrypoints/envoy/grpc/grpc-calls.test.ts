import { connect, constants } from 'node:http2'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import {
  closeAfterEach,
  closeAfterTest,
  eventually,
  REQUEST,
  RESPONSE,
  SERVERS,
  startGrpc as startServer,
  type TestGrpcOptions,
  TestClient,
  testService,
} from '../envoy.test-helper.js'
import { GRPC_CODES, GrpcError } from '../grpc-error.js'
import { REQUEST_BYTES_MAX } from '../rate-limit-messages.js'

closeAfterEach()

const PATH = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'

interface RawAnswer {
  readonly status: number
  readonly grpcStatus: string | undefined
  readonly message: string | undefined
  readonly body: Buffer
}

/** Sends one request over HTTP/2, as bytes. */
function sendRaw(port: number, headers: Record<string, string>, body: Buffer): Promise<RawAnswer> {
  const session = connect(`http://127.0.0.1:${port}`)
  closeAfterTest(() => session.destroy())
  return new Promise((resolve, reject) => {
    session.on('error', reject)
    const stream = session.request({
      ':method': 'POST',
      ':path': PATH,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    })
    const chunks: Buffer[] = []
    const all: Record<string, unknown> = {}
    stream.on('response', (received) => Object.assign(all, received))
    stream.on('trailers', (received) => Object.assign(all, received))
    stream.on('data', (chunk: Buffer) => chunks.push(chunk))
    stream.on('error', reject)
    stream.on('close', () =>
      resolve({
        status: Number(all[':status']),
        grpcStatus: all['grpc-status'] as string | undefined,
        message: all['grpc-message'] as string | undefined,
        body: Buffer.concat(chunks),
      }),
    )
    stream.end(body)
  })
}

const framed = (message: Buffer, isCompressed = false) => {
  const prefix = Buffer.alloc(5)
  prefix[0] = isCompressed ? 1 : 0
  prefix.writeUInt32BE(message.length, 1)
  return Buffer.concat([prefix, message])
}

describe.each(SERVERS)('calls of the server %s', (kind) => {
  const startGrpc = (options: TestGrpcOptions = {}) => startServer({ kind, ...options })

  test('a call is answered with the response of the service', async () => {
    const service = testService()
    const { target } = await startGrpc({ service })
    const { error, response } = await new TestClient(target).shouldRateLimit()
    expect(error).toBeUndefined()
    expect(response).toMatchObject({
      overall_code: 'OK',
      statuses: [
        {
          code: 'OK',
          current_limit: { requests_per_unit: 50, unit: 'SECOND' },
          limit_remaining: 49,
          duration_until_reset: { seconds: 1 },
        },
      ],
    })
    expect(service.requests).toEqual([
      {
        domain: 'basic',
        descriptors: [
          {
            entries: [{ key: 'key1', value: 'foo' }],
            limit: undefined,
            hitsAddend: undefined,
            isNegativeHits: false,
          },
        ],
        hitsAddend: 1,
      },
    ])
  })

  test('a call may be decided later', async () => {
    const service = testService(async () => {
      await new Promise((resolve) => setImmediate(resolve))
      return { ...RESPONSE, overallCode: 'over-limit' }
    })
    const { target } = await startGrpc({ service })
    const { response } = await new TestClient(target).shouldRateLimit()
    expect(response).toMatchObject({ overall_code: 'OVER_LIMIT' })
  })

  test('the service learns how long the client waits', async () => {
    const service = testService()
    const { target } = await startGrpc({ service })
    const client = new TestClient(target)
    await client.shouldRateLimit()
    await client.shouldRateLimit(REQUEST, { deadlineMs: 60_000 })
    const [without, within] = service.options
    expect(without?.timeoutMs).toBeUndefined()
    expect(within?.timeoutMs).toBeGreaterThan(1000)
    expect(within?.timeoutMs).toBeLessThanOrEqual(60_000)
  })

  test('a call whose time is up fails, and its late answer harms nobody', async () => {
    const answers: (() => void)[] = []
    const service = testService(
      () => new Promise((resolve) => answers.push(() => resolve(RESPONSE))),
    )
    const { target, listener } = await startGrpc({ service })
    const client = new TestClient(target)
    const { error } = await client.shouldRateLimit(REQUEST, { deadlineMs: 50 })
    expect(error?.code).toBe(4)
    for (const answer of answers) answer()
    const next = client.shouldRateLimit()
    await eventually(() => answers.length).toBe(2)
    answers[1]?.()
    expect(await next).toMatchObject({ error: undefined })
    await eventually(() => listener.inFlight()).toBe(0)
  })

  test.each([
    ['at once', () => Promise.reject(new GrpcError(GRPC_CODES.invalidArgument, 'bad: 50% ü'))],
    [
      'later',
      () => {
        throw new GrpcError(GRPC_CODES.invalidArgument, 'bad: 50% ü')
      },
    ],
  ])('a service that fails with a status %s ends the call with it', async (_when, answer) => {
    const { target, memoryLog } = await startGrpc({ service: testService(answer) })
    const { error } = await new TestClient(target).shouldRateLimit()
    expect(error).toMatchObject({ code: 3, details: 'bad: 50% ü' })
    expect(memoryLog.lines).toEqual([])
  })

  test.each([
    ['at once', () => Promise.reject(new Error('secret'))],
    [
      'later',
      () => {
        throw new Error('secret')
      },
    ],
  ])('an unexpected error %s is in the log and not in the answer', async (_when, answer) => {
    const { target, memoryLog } = await startGrpc({ service: testService(answer) })
    const { error } = await new TestClient(target).shouldRateLimit()
    expect(error).toMatchObject({ code: 13, details: 'internal error; see the server log' })
    expect(memoryLog.lines).toMatchObject([{ msg: 'Error: secret' }])
  })

  test('every answered call is counted with its status', async () => {
    const answered: (readonly [string, number])[] = []
    const service = testService(({ domain }) => {
      if (domain === '') throw new GrpcError(GRPC_CODES.invalidArgument, 'empty')
      return RESPONSE
    })
    const { target } = await startGrpc({
      service,
      onAnswered: ({ path }, status) => answered.push([path, status]),
    })
    const client = new TestClient(target)
    await client.shouldRateLimit()
    await client.shouldRateLimit({})
    await client.check('')
    expect(answered).toEqual([
      [PATH, 0],
      [PATH, 3],
      ['/grpc.health.v1.Health/Check', 0],
    ])
  })

  test('bytes that are no message are answered INTERNAL, and the connection goes on', async () => {
    const { target, memoryLog } = await startGrpc()
    const client = new TestClient(target)
    const { error } = await client.shouldRateLimit(Buffer.from([0x0a, 0x05, 0x61]))
    expect(error).toMatchObject({
      code: 13,
      details: 'the request cannot be decoded: a field exceeds its message',
    })
    expect(memoryLog.lines).toEqual([])
    expect(await client.shouldRateLimit()).toMatchObject({ error: undefined })
  })

  test('a message of the largest size is read, and one byte more is refused', async () => {
    const service = testService()
    const { target } = await startGrpc({ service })
    const client = new TestClient(target)
    const domain = 'd'.repeat(REQUEST_BYTES_MAX - 4)
    expect(await client.shouldRateLimit({ domain })).toMatchObject({ error: undefined })
    const { error } = await client.shouldRateLimit({ domain: `${domain}d` })
    expect(error?.code).toBe(8)
    expect(service.requests).toHaveLength(1)
    expect(await client.shouldRateLimit()).toMatchObject({ error: undefined })
  })

  test('a compressed message is read, unless it is too large when decompressed', async () => {
    const service = testService()
    const { port } = await startGrpc({ service })
    const send = (message: Buffer) =>
      sendRaw(port, { 'grpc-encoding': 'gzip' }, framed(gzipSync(message), true))
    const small = await send(Buffer.from([0x0a, 1, 0x64]))
    expect(small.grpcStatus).toBe(kind === 'own' ? '12' : '0')
    if (kind === 'own') return
    expect(service.requests).toMatchObject([{ domain: 'd' }])
    expect((await send(Buffer.alloc(1024 * 1024))).grpcStatus).toBe('8')
  })

  test('a method that does not exist is UNIMPLEMENTED', async () => {
    const { port } = await startGrpc()
    const path = '/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit'
    expect((await sendRaw(port, { ':path': path }, framed(Buffer.alloc(0)))).grpcStatus).toBe('12')
    const reflection = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo'
    const { grpcStatus } = await sendRaw(port, { ':path': reflection }, framed(Buffer.alloc(0)))
    expect(grpcStatus).toBe('12')
  })

  test('a request that is not gRPC is refused by HTTP', async () => {
    const { port } = await startGrpc()
    const headers = { 'content-type': 'application/json' }
    expect((await sendRaw(port, headers, Buffer.from('{}'))).status).toBe(415)
  })

  test('a client that speaks HTTP/1.1 is disconnected', async () => {
    const { port, target } = await startGrpc()
    await expect(fetch(`http://127.0.0.1:${port}/`)).rejects.toThrow()
    expect(await new TestClient(target).shouldRateLimit()).toMatchObject({ error: undefined })
  })

  test('many calls on many connections are all answered', async () => {
    const service = testService(async () => {
      await new Promise((resolve) => setImmediate(resolve))
      return RESPONSE
    })
    const { target, listener } = await startGrpc({ service })
    const clients = Array.from({ length: 20 }, () => new TestClient(target))
    const calls = clients.flatMap((client) =>
      Array.from({ length: 50 }, () => client.shouldRateLimit()),
    )
    const results = await Promise.all(calls)
    expect(results.filter(({ error }) => error !== undefined)).toEqual([])
    expect(service.requests).toHaveLength(1000)
    await eventually(() => listener.inFlight()).toBe(0)
    expect(listener.connections()).toBe(20)
  })

  test('a client is told how many streams it may open, and those beyond are refused', async () => {
    const { port } = await startGrpc({ service: testService(() => new Promise(() => {})) })
    const session = connect(`http://127.0.0.1:${port}`)
    closeAfterTest(() => session.destroy())
    const settings = await new Promise<{ readonly maxConcurrentStreams?: number }>((resolve) =>
      session.once('remoteSettings', resolve),
    )
    expect(settings.maxConcurrentStreams).toBe(1000)
    expect(constants.NGHTTP2_REFUSED_STREAM).toBe(7)
  })
})
