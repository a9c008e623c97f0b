/** Real clients over real sockets: node:http2, another implementation of HTTP/2, and grpc-js. */
import {
  credentials,
  makeClientConstructor,
  Metadata,
  type ServiceError,
  status,
} from '@grpc/grpc-js'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  type ClientHttp2Session,
  connect,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from 'node:http2'
import { type AddressInfo, connect as connectSocket, createServer, type Socket } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import type { UnaryCall } from './call.js'
import { grpc } from './conversation.test-helper.js'
import { GrpcStatusError } from './errors.js'
import { Status } from './grpc/status.js'
import { eventually } from './eventually.test-helper.js'
import { createUnaryServer, type UnaryServer, type UnaryServerOptions } from './server.js'

const ECHO = '/test.Service/Echo'
const LATE = '/test.Service/Late'
const REFUSE = '/test.Service/Refuse'

const servers: UnaryServer[] = []
const sessions: ClientHttp2Session[] = []
afterEach(async () => {
  for (const session of sessions.splice(0)) session.destroy()
  await Promise.all(servers.splice(0).map((server) => server.close()))
})

const methods: UnaryServerOptions['methods'] = {
  [ECHO]: (message) => message,
  [LATE]: async (message) => {
    await new Promise((resolve) => setImmediate(resolve))
    return message
  },
  [REFUSE]: () => {
    throw new GrpcStatusError(Status.permissionDenied, 'nicht für 100% der Gäste')
  },
}

async function start(options: Partial<UnaryServerOptions> = {}) {
  const server = createUnaryServer({ methods, ...options })
  servers.push(server)
  const { port } = (await server.listen({ host: '127.0.0.1', port: 0 })) as AddressInfo
  return { server, port }
}

function open(port: number, settings: Parameters<typeof connect>[1] = {}): ClientHttp2Session {
  const session = connect(`http://127.0.0.1:${port}`, settings)
  sessions.push(session)
  session.on('error', () => {})
  return session
}

interface Answer {
  readonly headers: IncomingHttpHeaders
  readonly trailers: IncomingHttpHeaders
  readonly message: Buffer
}

function callBy(
  session: ClientHttp2Session,
  message: Uint8Array,
  { path = ECHO, more = {} }: { path?: string; more?: OutgoingHttpHeaders } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...more,
    })
    const chunks: Buffer[] = []
    let headers: IncomingHttpHeaders = {}
    let trailers: IncomingHttpHeaders = {}
    stream.on('response', (given) => (headers = given))
    stream.on('trailers', (given) => (trailers = given))
    stream.on('data', (chunk: Buffer) => chunks.push(chunk))
    stream.on('error', reject)
    stream.on('end', () =>
      resolve({ headers, trailers, message: Buffer.concat(chunks).subarray(5) }),
    )
    stream.end(grpc(message))
  })
}

describe('node:http2', () => {
  test.each([
    ['its defaults', {}],
    ['windows of 1 byte', { initialWindowSize: 1 }],
    ['windows of 7 bytes', { initialWindowSize: 7 }],
    ['no dynamic table', { headerTableSize: 0 }],
    ['a large dynamic table', { headerTableSize: 65_536 }],
    ['large frames', { maxFrameSize: 1024 * 1024 }],
  ])('with %s gets every answer, of any size', async (_what, settings) => {
    const { server, port } = await start()
    const session = open(port, { settings })
    const sizes = [0, 1, 100, 4_000]
    for (const path of [ECHO, LATE]) {
      const messages = sizes.map((size) => randomBytes(size))
      const answers = await Promise.all(
        messages.map((message) => callBy(session, message, { path })),
      )
      expect(answers.map(({ message }) => message)).toEqual(messages)
      for (const { headers, trailers } of answers) {
        expect(headers).toMatchObject({ ':status': 200, 'content-type': 'application/grpc' })
        expect(trailers['grpc-status']).toBe('0')
      }
    }
    expect(server.stats()).toMatchObject({ calls: 8, answers: 8, activeStreams: 0, heldBytes: 0 })
  })

  test('gets large answers to large messages, many at once', async () => {
    const { port } = await start()
    const session = open(port)
    const messages = Array.from({ length: 15 }, () => randomBytes(200_000))
    const answers = await Promise.all(messages.map((message) => callBy(session, message)))
    const isSame = answers.map(({ message }, index) => message.equals(messages[index] ?? message))
    expect(isSame).toEqual(messages.map(() => true))
  })

  test('may change its settings while calls are under way', async () => {
    const { port } = await start()
    const session = open(port)
    const calls: Promise<Answer>[] = []
    for (let index = 0; index < 60; index++) {
      const path = index % 2 === 0 ? ECHO : LATE
      calls.push(callBy(session, Buffer.alloc(500, index), { path }))
      const initialWindowSize = [1, 70_000, 100][index % 3] ?? 1
      const settings = { initialWindowSize, headerTableSize: (index % 5) * 1_000 }
      await new Promise<void>((resolve) => session.settings(settings, () => resolve()))
    }
    const answers = await Promise.all(calls)
    expect(answers.map(({ message }) => message[0])).toEqual(
      Array.from({ length: 60 }, (_, n) => n),
    )
  })

  test('writes headers, with its table and its Huffman code, that are read as they are', async () => {
    const names = Array.from({ length: 30 }, (_, index) => `x-name-${index}`)
    const seen: (readonly (string | undefined)[])[] = []
    const { port } = await start({
      metadata: names,
      methods: {
        [ECHO]: (message, call: UnaryCall) => {
          seen.push(names.map((name) => call.metadata(name)))
          return message
        },
      },
    })
    const session = open(port)
    // All bytes that a value may have; many short codes make the client use Huffman code for all.
    const bytes = Array.from({ length: 256 }, (_, byte) => byte).filter(
      (byte) => byte >= 0x20 && byte !== 0x7f,
    )
    const sent: (readonly (string | undefined)[])[] = []
    for (let round = 0; round < 60; round++) {
      const values = names.map((_, index) => {
        if ((round + index) % 3 === 0) return undefined
        const rare = String.fromCharCode(bytes[(round * 30 + index) % bytes.length] ?? 0x41)
        return `${'aeiost'.repeat((round * index) % 9)}${rare}${(round % 4) * index}.`
      })
      const fields = names.flatMap((name, index) => {
        const value = values[index]
        return value === undefined ? [] : [[name, value] as const]
      })
      sent.push(values.map((value) => value?.trim()))
      await callBy(session, Buffer.alloc(0), { more: Object.fromEntries(fields) })
    }
    expect(seen.map((values) => values.map((value) => value?.trim()))).toEqual(sent)
  })

  test('gets an answer byte by byte to what it sends byte by byte', async () => {
    const { port } = await start()
    const proxied = await startSlicingProxy(port)
    const session = open(proxied.port)
    const answers = await Promise.all(
      ['one', 'two', 'three'].map((text) => callBy(session, Buffer.from(text))),
    )
    expect(answers.map(({ message }) => message.toString())).toEqual(['one', 'two', 'three'])
    session.destroy()
    proxied.close()
  })

  test('that only asks with GET is told what this is', async () => {
    const { port } = await start()
    const stream = open(port).request({ ':path': '/' })
    const [headers] = (await once(stream, 'response')) as [IncomingHttpHeaders]
    let body = ''
    for await (const chunk of stream.setEncoding('utf8')) body += chunk
    expect(headers).toMatchObject({ ':status': 405, allow: 'POST', 'content-type': 'text/plain' })
    expect(body).toBe('This port serves gRPC, by POST only.\n')
  })
})

/** Passes every byte on by itself, both ways. */
async function startSlicingProxy(target: number) {
  const slice = (from: Socket, to: Socket) => {
    from.on('data', (chunk) => {
      for (const byte of chunk) to.write(Uint8Array.of(byte))
    })
    from.on('close', () => to.destroy())
    from.on('error', () => to.destroy())
  }
  const proxy = createServer({ noDelay: true }, (client) => {
    const server = connectSocket({ port: target, host: '127.0.0.1', noDelay: true })
    slice(client, server)
    slice(server, client)
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  return { port: (proxy.address() as AddressInfo).port, close: () => proxy.close() }
}

const plain = (message: Buffer) => message
const define = (path: string) => ({
  path,
  requestStream: false,
  responseStream: false,
  requestSerialize: plain,
  requestDeserialize: plain,
  responseSerialize: plain,
  responseDeserialize: plain,
})
const Client = makeClientConstructor(
  {
    echo: define(ECHO),
    late: define(LATE),
    refuse: define(REFUSE),
    unknown: define('/test.Service/Unknown'),
    never: define('/test.Service/Never'),
  },
  'test.Service',
)

type Method = 'echo' | 'late' | 'refuse' | 'unknown' | 'never'
type Unary = (
  message: Buffer,
  metadata: Metadata,
  options: object,
  callback: (error: ServiceError | null, answer?: Buffer) => void,
) => void

function grpcCalls(target: string) {
  const client = new Client(target, credentials.createInsecure())
  const send = (method: Method, message: Buffer, options: object = {}, metadata = new Metadata()) =>
    new Promise<Buffer | undefined>((resolve, reject) => {
      const unary = client[method] as unknown as Unary
      unary.call(client, message, metadata, options, (error, answer) => {
        if (error === null) resolve(answer)
        else reject(error)
      })
    })
  return { send, close: () => client.close() }
}

describe('grpc-js', () => {
  test('gets answers of any size, at once and later', async () => {
    const { port } = await start()
    const { send, close } = grpcCalls(`127.0.0.1:${port}`)
    const messages = [0, 1, 1_000, 70_000].map((size) => randomBytes(size))
    for (const method of ['echo', 'late'] as const) {
      expect(await Promise.all(messages.map((message) => send(method, message)))).toEqual(messages)
    }
    close()
  })

  test('gets each error with its status and its text', async () => {
    const { port } = await start({ limits: { messageBytes: 1_000 } })
    const { send, close } = grpcCalls(`127.0.0.1:${port}`)
    await expect(send('refuse', Buffer.alloc(1))).rejects.toMatchObject({
      code: status.PERMISSION_DENIED,
      details: 'nicht für 100% der Gäste',
    })
    await expect(send('unknown', Buffer.alloc(1))).rejects.toMatchObject({
      code: status.UNIMPLEMENTED,
    })
    await expect(send('echo', Buffer.alloc(300_000))).rejects.toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      details: 'The message has 300000 bytes; 1000 are accepted.',
    })
    await expect(send('echo', Buffer.from('after'))).resolves.toEqual(Buffer.from('after'))
    close()
  })

  test('states deadline and metadata, and cancels at its deadline', async () => {
    let reset: (() => boolean) | undefined
    const { server, port } = await start({
      metadata: ['x-request-id'],
      methods: {
        ...methods,
        '/test.Service/Never': (_message, call) => {
          expect(call.metadata('x-request-id')).toBe('seven')
          expect(call.deadlineMs).toBeGreaterThan(0)
          expect(call.remoteAddress).toBe('127.0.0.1')
          reset = () => call.isReset
          return new Promise(() => {})
        },
      },
    })
    const { send, close } = grpcCalls(`127.0.0.1:${port}`)
    const metadata = new Metadata()
    metadata.set('x-request-id', 'seven')
    const call = send('never', Buffer.alloc(1), { deadline: Date.now() + 300 }, metadata)
    await expect(call).rejects.toMatchObject({ code: status.DEADLINE_EXCEEDED })
    await eventually(() => reset?.()).toBe(true)
    expect(server.stats()).toMatchObject({ resets: 1, activeStreams: 1 })
    close()
  })

  test('loses no call while two servers are replaced in turn, again and again', async () => {
    const replace = async (port: number) => {
      const server = createUnaryServer({ methods })
      servers.push(server)
      const address = (await server.listen({ host: '127.0.0.1', port })) as AddressInfo
      return { server, port: address.port }
    }
    const pair = [await replace(0), await replace(0)]
    const addresses = pair.map(({ port }) => `127.0.0.1:${port}`).join(',')
    const { send, close } = grpcCalls(`ipv4:${addresses}`)
    // A call waits while there is no server. One that was sent is not sent again.
    const metadata = new Metadata({ waitForReady: true })
    let isOver = false
    let answered = 0
    const callers = Array.from({ length: 20 }, async (_, caller) => {
      for (let count = 0; !isOver; count++) {
        const method = count % 2 === 0 ? 'echo' : 'late'
        const message = Buffer.from(`${caller}.${count}`)
        const answer = await send(method, message, {}, metadata)
        expect(answer?.toString()).toBe(message.toString())
        answered += 1
      }
    })
    let answers = 0
    const drains = (async () => {
      for (let round = 0; round < 4; round++) {
        const before = answered
        while (answered < before + 200) await new Promise((resolve) => setImmediate(resolve))
        const old = pair[round % 2]
        if (old === undefined) return
        await old.server.drain(10_000)
        answers += old.server.stats().answers
        pair[round % 2] = await replace(old.port)
      }
      isOver = true
    })()
    await Promise.all([drains, ...callers])
    for (const { server } of pair) answers += server.stats().answers
    expect(answers).toBe(answered)
    close()
  })
})
