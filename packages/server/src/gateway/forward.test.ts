import { createHash, randomBytes } from 'node:crypto'
import { request as httpRequest, type RequestListener, type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { ask, type Front, startFront } from './forward.test-helper.js'

let front: Front | undefined
afterEach(async () => {
  await front?.close()
  front = undefined
})

async function start(handler: RequestListener, more = {}): Promise<Front> {
  front = await startFront(handler, more)
  return front
}

const digest = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

describe('an exchange', () => {
  test('passes method, path, headers, status and bodies of any size both ways', async () => {
    const { port } = await start((request, response) => {
      response.writeHead(207, 'Many Things', ['X-Two', 'a', 'X-Two', 'b', 'Set-Cookie', 'c=1'])
      response.write(`${request.method} ${request.url} ${String(request.headers['x-mine'])}\n`)
      request.pipe(response)
    })
    const sent = randomBytes(5_000_000)
    const options = { method: 'PUT', path: '/a%20b?c=%2F', headers: { 'x-mine': 'yes' } }
    const answer = await ask(port, options, sent)
    expect(answer.status).toBe(207)
    const line = 'PUT /a%20b?c=%2F yes\n'
    expect(answer.body.subarray(0, line.length).toString()).toBe(line)
    expect(digest(answer.body.subarray(line.length))).toBe(digest(sent))
    expect(answer.headers['x-two']).toBe('a, b')
    expect(answer.headers['set-cookie']).toEqual(['c=1'])
  })

  test('has the gateway’s headers, and not the upstream’s of the same name', async () => {
    const { port } = await start((_, response) => {
      response.writeHead(500, ['RateLimit', '"mine";r=9', 'X-RateLimit-Limit', '9', 'X-Own', '1'])
      response.end('broken')
    })
    const answer = await ask(port, {})
    expect(answer.status).toBe(500)
    expect(answer.headers).toMatchObject({ ratelimit: '"a";r=1', 'x-own': '1' })
    expect(answer.headers).not.toHaveProperty('x-ratelimit-limit')
  })

  test('drops what belongs to the upstream’s connection', async () => {
    const { port } = await start((_, response) => {
      response.writeHead(200, [
        'Connection',
        'close, X-Hop',
        'X-Hop',
        '1',
        'Keep-Alive',
        'timeout=9',
        'X-End',
        '2',
        'Date',
        'Sun, 06 Nov 1994 08:49:37 GMT',
      ])
      response.end('x')
    })
    const { headers } = await ask(port, {})
    expect(headers).toMatchObject({ 'x-end': '2', date: 'Sun, 06 Nov 1994 08:49:37 GMT' })
    expect(headers).not.toHaveProperty('x-hop')
    expect(headers['keep-alive']).not.toBe('timeout=9')
  })

  test('passes trailers, but no rate limit fields in them', async () => {
    const { port } = await start((_, response) => {
      response.writeHead(200, { Trailer: 'X-Sum' })
      response.write('body')
      response.addTrailers({ 'X-Sum': '42', RateLimit: '"x";r=0' })
      response.end()
    })
    const answer = await ask(port, { headers: { te: 'trailers' } })
    expect(answer.body.toString()).toBe('body')
    expect(answer.trailers).toEqual({ 'x-sum': '42' })
  })

  test.each(['HEAD', 'GET'])('of %s with 204, 304 or a length and no body ends', async (method) => {
    const { port } = await start((request, response) => {
      const status = Number(request.url?.slice(1))
      response.writeHead(status, status === 200 ? { 'content-length': '5' } : {})
      response.end(status === 200 && request.method === 'GET' ? 'hello' : undefined)
    })
    for (const status of [204, 304, 200]) {
      const answer = await ask(port, { method, path: `/${status}` })
      expect([answer.status, answer.isCut]).toEqual([status, false])
    }
  })

  test('streams: the first bytes arrive while the upstream still holds the rest', async () => {
    let release: (() => void) | undefined
    const { port } = await start((_, response) => {
      response.write('first')
      release = () => response.end('last')
    })
    const body = await new Promise<string>((resolve) => {
      let text = ''
      httpRequest({ host: '127.0.0.1', port, agent: false }, (response) => {
        response.on('data', (chunk: Buffer) => {
          text += chunk.toString()
          if (text === 'first') release?.()
        })
        response.on('end', () => resolve(text))
      }).end()
    })
    expect(body).toBe('firstlast')
  })

  test('holds the upstream back when the client does not read', async () => {
    let written = 0
    const { port } = await start((request, response) => {
      const chunk = Buffer.alloc(64 * 1024)
      const write = () => {
        for (let more = true; more && !response.destroyed; written += chunk.length) {
          more = response.write(chunk)
        }
      }
      response.on('drain', write)
      request.on('close', () => response.destroy())
      write()
    })
    const client = httpRequest({ host: '127.0.0.1', port, agent: false }, (r) => r.pause())
    client.on('error', () => {})
    client.end()
    let last = -1
    await vi.waitUntil(() => written > 0 && last === (last = written), {
      interval: 200,
      timeout: 10_000,
    })
    expect(written).toBeLessThan(32 * 1024 * 1024)
    client.destroy()
  })
})

describe('early hints', () => {
  test.each([
    ['</a.css>; rel=preload; as=style', true],
    ['</a.css>; rel="preload"', true],
    ['</a.css>; rel="pre load"', false],
    [`<a>${'; a=b'.repeat(30)} "`, false],
    [`<${'a'.repeat(2000)}>`, false],
  ])('%s: passed on is %s, and the answer comes', async (link, isPassed) => {
    const { port } = await start((request) => {
      const hints = `HTTP/1.1 103 Early Hints\r\nLink: ${link}\r\n\r\n`
      request.socket.write(`${hints}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`)
    })
    const links: unknown[] = []
    const body = await new Promise<string>((resolve, reject) => {
      const request = httpRequest({ host: '127.0.0.1', port, agent: false })
      request.on('information', ({ headers }) => links.push(headers.link))
      request.on('error', reject)
      request.on('response', (response) => {
        response.on('data', (chunk: Buffer) => resolve(chunk.toString()))
      })
      request.end()
    })
    expect([body, links]).toEqual(['ok', isPassed ? [link] : []])
  })
})

describe('a client', () => {
  const big = (_: unknown, response: ServerResponse) => {
    const write = () => {
      while (!response.destroyed && response.write(Buffer.alloc(64 * 1024)));
    }
    response.on('drain', write)
    write()
  }

  test('that reads nothing gives its upstream connection back after a while', async () => {
    const { port, ...rest } = await start(big, { timeouts: { stallMs: 300 } })
    const client = httpRequest({ host: '127.0.0.1', port, agent: false }, (answer) =>
      answer.pause(),
    )
    client.on('error', () => {})
    client.end()
    await vi.waitUntil(() => rest.inFlight() === 1)
    await vi.waitUntil(() => rest.inFlight() === 0, { timeout: 5000 })
    client.destroy()
  })

  test('that sends many calls at once and goes away takes all of them with it', async () => {
    const { port, ...rest } = await start((request, response) => {
      if (request.url === '/first') return
      big(request, response)
    })
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    const call = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`
    socket.write(call('/first') + call('/big').repeat(10))
    await vi.waitUntil(() => rest.inFlight() === 11)
    socket.destroy()
    await vi.waitUntil(() => rest.inFlight() === 0)
    expect(rest.failures).toEqual([])
  })
})

describe('a client that goes away', () => {
  test('ends the upstream’s work, before and after the answer has begun', async () => {
    let aborted = 0
    const { port, ...rest } = await start((request, response) => {
      if (request.url === '/begun') response.write('some')
      response.on('close', () => aborted++)
    })
    for (const path of ['/waiting', '/begun']) {
      const client = httpRequest({ host: '127.0.0.1', port, path, agent: false })
      client.on('error', () => {})
      client.end()
      if (path === '/begun') await new Promise((resolve) => client.once('response', resolve))
      else await vi.waitUntil(() => rest.inFlight() === 1)
      await new Promise((resolve) => setImmediate(resolve))
      client.destroy()
      await vi.waitUntil(() => rest.inFlight() === 0)
    }
    await vi.waitUntil(() => aborted >= 1)
    expect(rest.failures).toEqual([])
  })

  test('in the middle of its body takes the upstream’s request with it', async () => {
    let cut = false
    const { port, ...rest } = await start((request) => {
      request.on('error', () => (cut = true))
      request.resume()
    })
    const client = httpRequest({ host: '127.0.0.1', port, method: 'POST', agent: false })
    client.on('error', () => {})
    client.write('half')
    await vi.waitUntil(() => rest.inFlight() === 1)
    client.destroy()
    await vi.waitUntil(() => cut && rest.inFlight() === 0)
  })
})

describe('an upstream that fails', () => {
  test('to answer is 502 with the gateway’s headers', async () => {
    const { port, failures } = await start((request) => request.socket.destroy())
    const answer = await ask(port, { method: 'POST' }, 'x')
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

  test('is asked once more when it closed a kept connection, and else never', async () => {
    const seen: string[] = []
    let isDying = false
    const { port } = await start((request, response) => {
      seen.push(request.method ?? '')
      if (isDying) request.socket.destroy()
      else response.end('ok')
      isDying = !isDying
    })
    // A connection that answered before: the second call on it is sent anew.
    expect((await ask(port, {})).status).toBe(200)
    expect((await ask(port, {})).status).toBe(200)
    expect(seen).toEqual(['GET', 'GET', 'GET'])
    // With a body it is not, nor where the connection was a new one.
    seen.length = 0
    isDying = true
    expect((await ask(port, { method: 'POST' }, 'x')).status).toBe(502)
    isDying = true
    expect((await ask(port, {})).status).toBe(502)
    expect(seen).toEqual(['POST', 'GET'])
  })

  test('to begin in time is 504', async () => {
    const { port } = await start(() => {}, { timeouts: { responseMs: 300 } })
    expect((await ask(port, {})).status).toBe(504)
  })

  test('in the middle of its answer leaves the client with a broken one, not a short one', async () => {
    const { port } = await start((request, response) => {
      response.writeHead(200, request.url === '/sized' ? { 'content-length': '100' } : {})
      response.write('part')
      setImmediate(() => request.socket.destroy())
    })
    for (const path of ['/sized', '/chunked']) {
      expect(await ask(port, { path })).toMatchObject({ status: 200, isCut: true })
    }
  })

  test('is 503 when more calls wait for it than may', async () => {
    const held: (() => void)[] = []
    let isReleased = false
    const { port, failures } = await start(
      (_, response) => {
        if (isReleased) response.end()
        else held.push(() => response.end())
      },
      { upstream: { connections: 1 } },
    )
    const asked = Array.from({ length: 8 }, () => ask(port, {}))
    await vi.waitUntil(() => failures.length === 3 && held.length === 1)
    isReleased = true
    held[0]?.()
    const answers = await Promise.all(asked)
    const busy = answers.filter(({ status }) => status === 503)
    expect([busy.length, busy[0]?.headers['retry-after']]).toEqual([3, '1'])
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(5)
  })

  test('to send a head that can be passed on word by word is answered all the same', async () => {
    const { port } = await start((request) => {
      const head =
        request.url === '/phrase' ? 'HTTP/1.1 200 Caf\xe9' : 'HTTP/1.1 200 OK\r\nTrailer: X-Sum'
      request.socket.write(
        `${head}\r\nContent-Length: 2\r\nConnection: X-A\r\nConnection: x-b\r\nX-A: 1\r\nX-B: 2\r\n\r\nok`,
        'latin1',
      )
    })
    for (const path of ['/phrase', '/trailer']) {
      const answer = await ask(port, { path })
      expect([answer.status, answer.body.toString()]).toEqual([200, 'ok'])
      expect(answer.headers).not.toHaveProperty('trailer')
      expect(answer.headers).not.toHaveProperty('x-b')
    }
    expect((await ask(port, { path: '/trailer', method: 'HEAD' })).status).toBe(200)
  })

  test('to send the body that a 304 tells the length of has not failed', async () => {
    const { port } = await start((request) => {
      request.socket.write('HTTP/1.1 304 Not Modified\r\nContent-Length: 50\r\nETag: "a"\r\n\r\n')
    })
    for (const method of ['GET', 'HEAD']) {
      const { status, headers, isCut } = await ask(port, { method })
      expect([status, headers.etag, isCut]).toEqual([304, '"a"', false])
    }
  })

  test('early leaves the connection usable, however slowly the rest of the body comes', async () => {
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

  test('to have a free connection for an upload that breaks off is told nothing of it', async () => {
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

  test('for want of a connection is 504 in its time, and 503 while too many wait', async () => {
    const { port, ...rest } = await start(() => {}, {
      upstream: { connections: 1 },
      timeouts: { responseMs: 300 },
    })
    const answers = await Promise.all(Array.from({ length: 8 }, () => ask(port, {})))
    const statuses = answers.map(({ status }) => status).sort((a, b) => a - b)
    expect(statuses).toEqual([503, 503, 503, 504, 504, 504, 504, 504])
    await vi.waitUntil(() => rest.inFlight() === 0)
  })

  test('a large answer early, with the body still on its way, is heard whole', async () => {
    const { port } = await start((_, response) => {
      response.writeHead(401, { 'content-length': '4000000' })
      response.end(Buffer.alloc(4_000_000))
    })
    const answer = await ask(port, { method: 'POST' }, Buffer.alloc(8_000_000))
    expect([answer.status, answer.body.length, answer.isCut]).toEqual([401, 4_000_000, false])
  })

  test('early, with the body still on its way, is heard by the client', async () => {
    const { port } = await start((_, response) => {
      response.writeHead(413)
      response.end('too much')
    })
    const answer = await ask(port, { method: 'POST' }, Buffer.alloc(8_000_000))
    expect([answer.status, answer.body.toString()]).toEqual([413, 'too much'])
  })
})
