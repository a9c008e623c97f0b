import { createHash, randomBytes } from 'node:crypto'
import { request as httpRequest, type RequestListener, type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { sendRequest, type Front, startFront } from './forward.test-helper.js'

const SOON = { timeout: 20_000, interval: 20 }

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
    const answer = await sendRequest(port, options, sent)
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
    const answer = await sendRequest(port, {})
    expect(answer.status).toBe(500)
    expect(answer.headers).toMatchObject({ ratelimit: '"a";r=1', 'x-own': '1' })
    expect(answer.headers).not.toHaveProperty('x-ratelimit-limit')
  })

  test('drops the hop-by-hop headers of the upstream’s connection', async () => {
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
    const { headers } = await sendRequest(port, {})
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
    const answer = await sendRequest(port, { headers: { te: 'trailers' } })
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
      const answer = await sendRequest(port, { method, path: `/${status}` })
      expect([answer.status, answer.isCut]).toEqual([status, false])
    }
  })

  test('streams: the first bytes arrive while the upstream still holds back the rest', async () => {
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

  test('applies backpressure to the upstream if the client does not read', async () => {
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
  ])('%s: they are passed on (%s), and the response arrives', async (link, isPassed) => {
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

  test('that reads nothing loses its upstream connection after a timeout', async () => {
    const { port, ...rest } = await start(big, { timeouts: { stallMs: 300 } })
    const client = httpRequest({ host: '127.0.0.1', port, agent: false }, (answer) =>
      answer.pause(),
    )
    client.on('error', () => {})
    client.end()
    await vi.waitUntil(() => rest.inFlight() === 1, SOON)
    await vi.waitUntil(() => rest.inFlight() === 0, SOON)
    client.destroy()
  })

  test('that pipelines many calls and disconnects aborts all of them', async () => {
    const { port, ...rest } = await start((request, response) => {
      if (request.url === '/first') return
      big(request, response)
    })
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    const call = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`
    socket.write(call('/first') + call('/big').repeat(10))
    await vi.waitUntil(() => rest.inFlight() === 11, SOON)
    socket.destroy()
    await vi.waitUntil(() => rest.inFlight() === 0, SOON)
    expect(rest.failures).toEqual([])
  })
})

describe('a client that disconnects', () => {
  test('aborts the upstream request, before and after the response has begun', async () => {
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
      else await vi.waitUntil(() => rest.inFlight() === 1, SOON)
      await new Promise((resolve) => setImmediate(resolve))
      client.destroy()
      await vi.waitUntil(() => rest.inFlight() === 0, SOON)
    }
    await vi.waitUntil(() => aborted >= 1, SOON)
    expect(rest.failures).toEqual([])
  })

  test('in the middle of its body aborts the upstream request', async () => {
    let cut = false
    const { port, ...rest } = await start((request) => {
      request.on('error', () => (cut = true))
      request.resume()
    })
    const client = httpRequest({ host: '127.0.0.1', port, method: 'POST', agent: false })
    client.on('error', () => {})
    client.write('half')
    await vi.waitUntil(() => rest.inFlight() === 1, SOON)
    client.destroy()
    await vi.waitUntil(() => cut && rest.inFlight() === 0, SOON)
  })
})
