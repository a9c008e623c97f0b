import type { IncomingMessage, RequestListener } from 'node:http'
import { connect, type Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import type { Pool } from 'undici'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { closeReleased, sendRequest, type Front, startFront } from './forward.test-helper.js'

const SOON = { timeout: 20_000, interval: 10 }

let front: Front | undefined
const clients: Client[] = []
afterEach(async () => {
  for (const { socket } of clients.splice(0)) socket.destroy()
  const closing = front
  front = undefined
  await closeReleased(closing)
})

async function start(handler: RequestListener, more = {}): Promise<Front> {
  front = await startFront(handler, more)
  return front
}

interface Client {
  readonly socket: Socket
  readonly text: () => string
  readonly hasEnded: () => boolean
}

/** A client that sends exactly these bytes, and more when the test writes them. */
function send(port: number, bytes: string): Client {
  const socket = connect(port, '127.0.0.1')
  let text = ''
  let hasEnded = false
  socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
  socket.on('end', () => (hasEnded = true))
  socket.on('error', () => {})
  socket.write(bytes)
  const client = { socket, text: () => text, hasEnded: () => hasEnded }
  clients.push(client)
  return client
}

const post = (framing: string, version = '1.1') =>
  `POST /up HTTP/${version}\r\nHost: a\r\n${framing}\r\n\r\n`

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** Answers with the number of bytes that arrived. */
const count: RequestListener = (request, response) => {
  let bytes = 0
  request.on('data', (chunk: Buffer) => (bytes += chunk.length))
  request.on('end', () => response.end(`bytes: ${bytes}`))
}

describe('an upload that lasts longer than the response timeout', () => {
  test.each([
    ['of known length', 'Content-Length: 80000', '1.1'],
    ['of known length with HTTP/1.0', 'Content-Length: 80000', '1.0'],
    ['in chunks', 'Transfer-Encoding: chunked', '1.1'],
  ])('is answered if it is %s', async (_name, framing, version) => {
    const { port, failures } = await start(count, { timeouts: { responseMs: 300 } })
    const client = send(port, post(framing, version))
    for (let sent = 0; sent < 8; sent++) {
      await sleep(100)
      const isChunked = framing.startsWith('Transfer')
      client.socket.write(isChunked ? '2710\r\n' : '')
      client.socket.write(Buffer.alloc(10_000))
      client.socket.write(isChunked ? '\r\n' : '')
    }
    if (framing.startsWith('Transfer')) client.socket.write('0\r\n\r\n')
    await vi.waitUntil(() => client.text().includes('bytes: 80000'), SOON)
    expect([client.text().slice(9, 12), failures]).toEqual(['200', []])
  })

  test('is 504 if the upstream does not answer after its end', async () => {
    const { port, failures } = await start((request) => request.resume(), {
      timeouts: { responseMs: 300 },
    })
    for (const size of [10, 100_000]) {
      expect((await sendRequest(port, { method: 'POST' }, Buffer.alloc(size))).status).toBe(504)
    }
    expect(failures.map(({ code }) => code)).toEqual(['RESPONSE_TIMEOUT', 'RESPONSE_TIMEOUT'])
  })
})

describe('the wait for a connection', () => {
  test('has a timeout of its own, which is answered 503 with Retry-After', async () => {
    const { port, failures } = await start(() => {}, {
      upstream: { connections: 1 },
      timeouts: { queueMs: 300, responseMs: 20_000 },
    })
    send(port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await vi.waitUntil(() => front?.inFlight() === 1, SOON)
    for (const body of [undefined, 'small', Buffer.alloc(100_000)]) {
      const answer = await sendRequest(port, { method: 'POST' }, body)
      expect([answer.status, answer.headers['retry-after']]).toEqual([503, '1'])
    }
    expect(failures).toEqual(Array(3).fill({ status: 503, code: 'QUEUE_TIMEOUT' }))
    for (const { socket } of clients) socket.destroy()
  })

  test('does not count against the upstream’s response timeout', async () => {
    let isFirst = true
    const { port } = await start(
      (_, response) => {
        const hold = isFirst
        isFirst = false
        setTimeout(() => response.end('ok'), hold ? 700 : 0)
      },
      { upstream: { connections: 1 }, timeouts: { queueMs: 20_000, responseMs: 1500 } },
    )
    const answers = await Promise.all([
      sendRequest(port, {}),
      sendRequest(port, {}),
      sendRequest(port, {}),
    ])
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
  })
})

describe('a small body of known length', () => {
  test('takes no connection until it is whole, and then arrives unchanged', async () => {
    const calls: string[] = []
    const { port, inFlight, gathered } = await start(
      (request, response) => {
        calls.push(`${request.method} ${request.headers['content-length'] ?? '-'}`)
        const chunks: Buffer[] = []
        request.on('data', (chunk: Buffer) => chunks.push(chunk))
        request.on('end', () => response.end(Buffer.concat(chunks)))
      },
      { upstream: { connections: 1 } },
    )
    const slow = send(port, `${post('Content-Length: 16384')}begin`)
    await vi.waitUntil(() => gathered.used() === 16_384, SOON)
    await sleep(50)
    expect([inFlight(), calls]).toEqual([0, []])
    expect((await sendRequest(port, {})).status).toBe(200)
    const rest = '0123456789abcdef'.repeat(1023) + '.'.repeat(11)
    for (let at = 0; at < rest.length; at += 4000) {
      slow.socket.write(rest.slice(at, at + 4000))
      await sleep(5)
    }
    await vi.waitUntil(() => slow.text().endsWith(rest), SOON)
    expect(slow.text()).toContain(`\r\nbegin${rest}`)
    expect(calls).toEqual(['GET -', 'POST 16384'])
  })

  test('is streamed if the memory for bodies is used up', async () => {
    const { port, inFlight, gathered } = await start(count)
    let taken = 0
    while (gathered.reserve(16_384)) taken += 16_384
    expect(taken).toBe(32 * 1024 * 1024)
    const client = send(port, `${post('Content-Length: 9')}begin`)
    await vi.waitUntil(() => inFlight() === 1, SOON)
    client.socket.write('-end')
    await vi.waitUntil(() => client.text().includes('bytes: 9'), SOON)
    gathered.release(taken)
  })

  test('releases its memory when the client disconnects, and no upstream request is made', async () => {
    let calls = 0
    const { port, ended, gathered } = await start(() => calls++)
    const client = send(port, `${post('Content-Length: 100')}begin`)
    await vi.waitUntil(() => gathered.used() === 100, SOON)
    client.socket.destroy()
    await vi.waitUntil(() => ended() === 1, SOON)
    expect([gathered.used(), calls]).toEqual([0, 0])
  })

  test('releases its memory when the upstream fails', async () => {
    const { port, gathered } = await start((request) => request.socket.destroy())
    expect((await sendRequest(port, { method: 'POST' }, 'body')).status).toBe(502)
    await vi.waitUntil(() => gathered.used() === 0, SOON)
  })
})

describe('a large body or one of unknown length', () => {
  const trickles = [post('Content-Length: 16385'), post('Transfer-Encoding: chunked')]

  test('takes at most half of the connections before 16 KB or its end arrived', async () => {
    const { port, inFlight, gathered } = await start(count, { upstream: { connections: 4 } })
    for (const head of trickles.flatMap((each) => [each, each, each])) send(port, head)
    await vi.waitUntil(() => inFlight() === 2 && gathered.used() === 4 * 16_384, SOON)
    await sleep(50)
    expect(inFlight()).toBe(2)
    expect((await sendRequest(port, {})).status).toBe(200)
    for (const { socket } of clients) socket.destroy()
  })

  test('is passed on whole after its beginning was buffered', async () => {
    const { port, gathered } = await start(count, { upstream: { connections: 1 } })
    const sized = send(port, post('Content-Length: 100000'))
    await vi.waitUntil(() => gathered.used() === 16_384, SOON)
    for (let sent = 0; sent < 10; sent++) {
      sized.socket.write(Buffer.alloc(10_000))
      await sleep(5)
    }
    await vi.waitUntil(() => sized.text().includes('bytes: 100000'), SOON)
    const chunked = send(port, `${post('Transfer-Encoding: chunked')}4\r\nhead\r\n`)
    await vi.waitUntil(() => gathered.used() === 16_384, SOON)
    chunked.socket.write('3\r\nend\r\n0\r\n\r\n')
    await vi.waitUntil(() => chunked.text().includes('bytes: 7'), SOON)
  })

  test('is buffered correctly byte by byte', async () => {
    const { port } = await start(
      (request, response) => {
        request.pipe(response)
      },
      { upstream: { connections: 1 } },
    )
    const chunks = '1\r\nx\r\n'.repeat(20_000)
    const client = send(port, `${post('Transfer-Encoding: chunked')}${chunks}0\r\n\r\n`)
    await vi.waitUntil(() => client.text().replaceAll(/[^x]/g, '').length === 20_000, SOON)
  })
})

describe('a body that arrives too slowly', () => {
  test.each([
    ['a small one', 'Content-Length: 100', 'begin'],
    ['a large one', 'Content-Length: 100000', 'begin'],
    ['one in chunks', 'Transfer-Encoding: chunked', '5\r\nbegin\r\n'],
    ['one of which nothing comes', 'Content-Length: 100000', ''],
  ])('is answered 408 and the connection closed: %s', async (_name, framing, begin) => {
    const aborted: IncomingMessage[] = []
    const { port, failures, slowUploads, inFlight } = await start(
      (request) => request.on('error', () => aborted.push(request)),
      { timeouts: { stallMs: 300 } },
    )
    const client = send(port, post(framing) + begin)
    await vi.waitUntil(() => client.hasEnded(), SOON)
    expect(client.text()).toMatch(/^HTTP\/1.1 408 Request Timeout\r\n/)
    expect(client.text()).toMatch(/\r\nRateLimit: "a";r=1\r\nConnection: close\r\n/)
    expect(JSON.parse(client.text().split('\r\n\r\n')[1] ?? '')).toMatchObject({
      status: 408,
      error: 'upload_too_slow',
    })
    await vi.waitUntil(() => inFlight() === 0, SOON)
    expect([slowUploads(), failures]).toEqual([1, []])
    if (framing !== 'Content-Length: 100' && begin !== '') {
      await vi.waitUntil(() => aborted.length === 1, SOON)
    }
  })

  test('is cut after a stall although it was fast before', async () => {
    const { port, slowUploads } = await start(count, { timeouts: { stallMs: 300 } })
    const client = send(port, post('Content-Length: 2000000'))
    client.socket.write(Buffer.alloc(1_000_000))
    await vi.waitUntil(() => client.hasEnded(), SOON)
    expect([client.text().slice(9, 12), slowUploads()]).toEqual(['408', 1])
  })

  test('is the upstream’s failure if the upstream does not read', async () => {
    const { port, failures, slowUploads } = await start((request) => request.pause(), {
      timeouts: { stallMs: 400 },
    })
    const size = 30_000_000
    const client = send(port, post(`Content-Length: ${size}`))
    client.socket.write(Buffer.alloc(size))
    await vi.waitUntil(() => client.text() !== '', SOON)
    expect([client.text().slice(9, 12), slowUploads()]).toEqual(['504', 0])
    expect(failures).toEqual([{ status: 504, code: 'UPLOAD_STALLED' }])
  })

  test('is the upstream’s failure if the upstream does not read the last bytes', async () => {
    const size = 100_000
    let taken = 0
    const { port, failures, slowUploads } = await start(() => {}, {
      timeouts: { stallMs: 400 },
      // Like undici with a full socket: the end is not read before there is room.
      dispatch: (({ body }, handler) => {
        handler.onConnect?.((error) => handler.onError?.(error ?? new Error('aborted')))
        if (!(body instanceof PassThrough)) throw new Error('no stream')
        body.on('data', (chunk: Buffer) => {
          taken += chunk.length
          if (taken === size) body.pause()
        })
        return true
      }) satisfies Pool['dispatch'],
    })
    const client = send(port, post(`Content-Length: ${size}`))
    client.socket.write(Buffer.alloc(size))
    await vi.waitUntil(() => client.text() !== '', SOON)
    expect([taken, client.text().slice(9, 12), slowUploads()]).toEqual([size, '504', 0])
    expect(failures).toEqual([{ status: 504, code: 'UPLOAD_STALLED' }])
  })
})

describe('an upstream that answers before the request has ended', () => {
  test('may exchange data with the client in turns, however slowly', async () => {
    const { port, slowUploads } = await start(
      (request, response) => {
        response.flushHeaders()
        request.on('data', (chunk: Buffer) => response.write(`[${chunk.toString()}]`))
        request.on('end', () => response.end('[end]'))
      },
      { timeouts: { stallMs: 2000, responseMs: 2000 } },
    )
    const client = send(port, post('Transfer-Encoding: chunked'))
    for (const word of ['one', 'two', 'six', 'ten']) {
      client.socket.write(`3\r\n${word}\r\n`)
      await vi.waitUntil(() => client.text().includes(`[${word}]`), SOON)
      await sleep(700)
    }
    client.socket.write('0\r\n\r\n')
    await vi.waitUntil(() => client.text().includes('[end]'), SOON)
    expect(slowUploads()).toBe(0)
  })

  test('has its response sent with the body unread, and the memory is released', async () => {
    const { port } = await start(
      (_, response) => {
        response.writeHead(413).end('too much')
      },
      { upstream: { connections: 1 } },
    )
    const answer = await sendRequest(port, { method: 'POST' }, Buffer.alloc(3_000_000))
    expect([answer.status, answer.body.toString()]).toEqual([413, 'too much'])
  })
})

test('a client is not blamed for a body that Node does not read behind an unread response', async () => {
  const { port, slowUploads } = await start(
    (request, response) => {
      if (request.method === 'GET') response.end(Buffer.alloc(12_000_000))
      else count(request, response)
    },
    { timeouts: { stallMs: 20_000, responseMs: 20_000, queueMs: 20_000 } },
  )
  const client = send(port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  client.socket.pause()
  await sleep(500)
  client.socket.write(post('Content-Length: 500000'))
  await sleep(200)
  client.socket.write(Buffer.alloc(500_000))
  // Longer than a client may send nothing.
  await sleep(6000)
  client.socket.resume()
  await vi.waitUntil(() => client.text().includes('bytes: 500000'), SOON)
  expect(slowUploads()).toBe(0)
})
