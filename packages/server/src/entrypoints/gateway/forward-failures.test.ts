import { connect } from 'node:net'
import type { RequestListener } from 'node:http'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { sendRequest, type Front, startFront } from './forward.test-helper.js'

let front: Front | undefined
afterEach(async () => {
  await front?.close()
  front = undefined
})

async function start(handler: RequestListener, more = {}): Promise<Front> {
  front = await startFront(handler, more)
  return front
}

describe('the gateway', () => {
  test('answers 502 with its own headers if the upstream does not respond', async () => {
    const { port, failures } = await start((request) => request.socket.destroy())
    const answer = await sendRequest(port, { method: 'POST' }, 'x')
    expect(answer.status).toBe(502)
    expect(answer.headers).toMatchObject({
      ratelimit: '"a";r=1',
      'content-type': 'application/problem+json',
    })
    expect(JSON.parse(answer.body.toString())).toMatchObject({
      status: 502,
      error: 'upstream_failed',
    })
    expect(failures).toHaveLength(1)
  })

  test('retries once if the upstream closed a kept connection, and otherwise never', async () => {
    const requests: string[] = []
    let isDying = false
    const { port } = await start((request, response) => {
      requests.push(request.method ?? '')
      if (isDying) request.socket.destroy()
      else response.end('ok')
      isDying = !isDying
    })
    // A kept connection: the second call on it is retried.
    expect((await sendRequest(port, {})).status).toBe(200)
    expect((await sendRequest(port, {})).status).toBe(200)
    expect(requests).toEqual(['GET', 'GET', 'GET'])
    // A call with a body is not retried, nor one on a new connection.
    requests.length = 0
    isDying = true
    expect((await sendRequest(port, { method: 'POST' }, 'x')).status).toBe(502)
    isDying = true
    expect((await sendRequest(port, {})).status).toBe(502)
    expect(requests).toEqual(['POST', 'GET'])
  })

  test('answers 504 at the response timeout', async () => {
    const { port } = await start(() => {}, { timeouts: { responseMs: 300 } })
    expect((await sendRequest(port, {})).status).toBe(504)
  })

  test('breaks off the client’s response if the upstream’s breaks off, instead of ending it short', async () => {
    const { port } = await start((request, response) => {
      response.writeHead(200, request.url === '/sized' ? { 'content-length': '100' } : {})
      response.write('part')
      setImmediate(() => request.socket.destroy())
    })
    for (const path of ['/sized', '/chunked']) {
      expect(await sendRequest(port, { path })).toMatchObject({ status: 200, isCut: true })
    }
  })

  test('answers 503 if too many calls wait for the upstream', async () => {
    const held: (() => void)[] = []
    let isReleased = false
    const { port, failures } = await start(
      (_, response) => {
        if (isReleased) response.end()
        else held.push(() => response.end())
      },
      { upstream: { connections: 1 } },
    )
    const responses = Array.from({ length: 8 }, () => sendRequest(port, {}))
    await vi.waitUntil(() => failures.length === 3 && held.length === 1)
    isReleased = true
    held[0]?.()
    const answers = await Promise.all(responses)
    const busy = answers.filter(({ status }) => status === 503)
    expect([busy.length, busy[0]?.headers['retry-after']]).toEqual([3, '1'])
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(5)
  })

  test('passes on a response whose head cannot be copied unchanged', async () => {
    const { port } = await start((request) => {
      const head =
        request.url === '/phrase' ? 'HTTP/1.1 200 Caf\xe9' : 'HTTP/1.1 200 OK\r\nTrailer: X-Sum'
      request.socket.write(
        `${head}\r\nContent-Length: 2\r\nConnection: X-A\r\nConnection: x-b\r\nX-A: 1\r\nX-B: 2\r\n\r\nok`,
        'latin1',
      )
    })
    for (const path of ['/phrase', '/trailer']) {
      const answer = await sendRequest(port, { path })
      expect([answer.status, answer.body.toString()]).toEqual([200, 'ok'])
      expect(answer.headers).not.toHaveProperty('trailer')
      expect(answer.headers).not.toHaveProperty('x-b')
    }
    expect((await sendRequest(port, { path: '/trailer', method: 'HEAD' })).status).toBe(200)
  })

  test('accepts a 304 that declares a length and has no body', async () => {
    const { port } = await start((request) => {
      request.socket.write('HTTP/1.1 304 Not Modified\r\nContent-Length: 50\r\nETag: "a"\r\n\r\n')
    })
    for (const method of ['GET', 'HEAD']) {
      const { status, headers, isCut } = await sendRequest(port, { method })
      expect([status, headers.etag, isCut]).toEqual([304, '"a"', false])
    }
  })

  test('keeps the connection usable after an early response, however slowly the body arrives', async () => {
    const { port } = await start((request, response) => {
      response.writeHead(request.method === 'POST' ? 413 : 200).end()
    })
    const socket = connect(port, '127.0.0.1')
    let text = ''
    socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
    socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000\r\n\r\n')
    for (let sent = 0; sent < 50; sent++) {
      socket.write(Buffer.alloc(1000))
      await new Promise((resolve) => setTimeout(resolve, 4))
    }
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await vi.waitUntil(() => /413[^]*HTTP\/1.1 200/.test(text))
    socket.destroy()
  })

  test('releases an upload that breaks off before it has a connection', async () => {
    const { port, ...rest } = await start(() => {}, { upstream: { connections: 1 } })
    const held = connect(port, '127.0.0.1')
    held.write('GET /hang HTTP/1.1\r\nHost: a\r\n\r\n')
    await vi.waitUntil(() => rest.inFlight() === 1)
    for (const bytes of [
      'Content-Length: 1000\r\n\r\nabc',
      'Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX',
    ]) {
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => {})
      socket.write(`POST /x HTTP/1.1\r\nHost: a\r\n${bytes}`)
      await new Promise((resolve) => setTimeout(resolve, 50))
      socket.destroy()
    }
    await vi.waitUntil(() => rest.ended() === 2)
    held.destroy()
    await vi.waitUntil(() => rest.inFlight() === 0)
  })

  test('answers 504 at the timeout without a free connection, and 503 while too many wait', async () => {
    const { port, ...rest } = await start(() => {}, {
      upstream: { connections: 1 },
      timeouts: { responseMs: 300 },
    })
    const answers = await Promise.all(Array.from({ length: 8 }, () => sendRequest(port, {})))
    const statuses = answers.map(({ status }) => status).sort((a, b) => a - b)
    expect(statuses).toEqual([503, 503, 503, 504, 504, 504, 504, 504])
    await vi.waitUntil(() => rest.inFlight() === 0)
  })

  test('passes on a large early response whole while the body is still sent', async () => {
    const { port } = await start((_, response) => {
      response.writeHead(401, { 'content-length': '4000000' })
      response.end(Buffer.alloc(4_000_000))
    })
    const answer = await sendRequest(port, { method: 'POST' }, Buffer.alloc(8_000_000))
    expect([answer.status, answer.body.length, answer.isCut]).toEqual([401, 4_000_000, false])
  })

  test('passes on an early response while the body is still sent', async () => {
    const { port } = await start((_, response) => {
      response.writeHead(413)
      response.end('too much')
    })
    const answer = await sendRequest(port, { method: 'POST' }, Buffer.alloc(8_000_000))
    expect([answer.status, answer.body.toString()]).toEqual([413, 'too much'])
  })
})
