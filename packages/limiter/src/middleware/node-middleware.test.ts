import { EventEmitter } from 'node:events'
import { expect, test } from 'vitest'
import type { MiddlewareOptions } from './middleware-options.js'
import type { NodeRequest, NodeResponse } from './node-exchange.js'
import { NodeMiddleware } from './node-middleware.js'

class TestResponse extends EventEmitter implements NodeResponse {
  destroyed = false
  statusCode = 200
  headersSent = false
  readonly headers = new Map<string, string>()
  body: string | undefined

  getHeader(name: string): string | undefined {
    return this.headers.get(name)
  }

  setHeader(name: string, value: string): void {
    if (this.headersSent) throw new Error('ERR_HTTP_HEADERS_SENT')
    this.headers.set(name, value)
  }

  end(body = ''): void {
    this.headersSent = true
    this.body = body
  }
}

const RULES = [{ id: 'all', by: [], limits: ['1/hour'] }]
const requestOf = (): NodeRequest => ({ method: 'GET', url: '/', headers: {}, socket: {} })

function setUp(options: Partial<MiddlewareOptions<NodeRequest, TestResponse>> = {}) {
  const middleware = new NodeMiddleware<NodeRequest, TestResponse>({ rules: RULES, ...options })
  const nexts: unknown[] = []
  const requests: NodeRequest[] = []
  return {
    middleware,
    nexts,
    requests,
    handle: (response = new TestResponse()) => {
      const request = requestOf()
      requests.push(request)
      middleware.handle(request, response, '/', (error) => nexts.push(error ?? 'next'))
      return response
    },
  }
}

test('an admitted request goes on with headers, a refused one is answered', () => {
  const { handle, nexts } = setUp()
  expect(handle().headers.get('X-RateLimit-Remaining')).toBe('0')
  expect(nexts).toEqual(['next'])
  expect(handle()).toMatchObject({ statusCode: 429, headersSent: true })
  expect(nexts).toEqual(['next'])
})

test('an error of the handler is thrown to the server, and not answered a second time', () => {
  const { middleware } = setUp()
  let calls = 0
  const failing = () => {
    calls++
    throw new Error('of the handler')
  }
  const response = new TestResponse()
  expect(() => middleware.handle(requestOf(), response, '/', failing)).toThrow('of the handler')
  expect(calls).toBe(1)
})

test('a response that has begun already is left alone', () => {
  const { handle, nexts } = setUp()
  const begun = () => Object.assign(new TestResponse(), { headersSent: true })
  expect(handle(begun()).headers.size).toBe(0)
  expect(nexts).toEqual(['next'])
  expect(handle(begun())).toMatchObject({ statusCode: 200, body: undefined })
})

test.each([
  [
    'throws',
    () => {
      throw new Error('no answer')
    },
  ],
  ['rejects', () => Promise.reject(new Error('no answer'))],
])('an own answer that %s is an error of the framework', async (_, onRefused) => {
  const { handle, nexts } = setUp({ onRefused })
  handle()
  handle()
  await new Promise((resolve) => setImmediate(resolve))
  expect(nexts).toEqual(['next', new Error('no answer')])
})

test.each([undefined, null, 0, '', 'route'])(
  'attributes that reject with %j are an error, and the request does not go on',
  async (thrown) => {
    const { handle, nexts } = setUp({ attributes: () => Promise.reject(thrown) })
    handle()
    await new Promise((resolve) => setImmediate(resolve))
    expect(nexts).toEqual([
      expect.objectContaining({ message: expect.stringContaining('the middleware threw') }),
    ])
  },
)

test('a handler that ends after its client left is settled by its status', async () => {
  const { handle, middleware } = setUp({ count: 'failed' })
  const response = handle()
  // A reservation is not made in the same turn.
  await new Promise((resolve) => setImmediate(resolve))
  response.statusCode = 200
  response.headersSent = true
  response.emit('close')
  await new Promise((resolve) => setImmediate(resolve))
  const { allowed } = await middleware.requests.limiter.check({ attributes: {} })
  expect(allowed).toBe(true)
})

test('a request without an answer stays counted', async () => {
  const { handle, middleware } = setUp({ count: 'failed' })
  const response = handle()
  await new Promise((resolve) => setImmediate(resolve))
  response.emit('close')
  await new Promise((resolve) => setImmediate(resolve))
  const { allowed } = await middleware.requests.limiter.check({ attributes: {} })
  expect(allowed).toBe(false)
})

test('a handler settles the reservation of its request, which then is not ended again', async () => {
  const { handle, middleware, requests } = setUp({ reserve: true })
  const response = handle()
  await new Promise((resolve) => setImmediate(resolve))
  const settled = await requests[0]?.sluice?.settle?.(0)
  expect(settled).toMatchObject({ settled: true, givenBack: 1 })
  response.emit('close')
  await new Promise((resolve) => setImmediate(resolve))
  const { allowed } = await middleware.requests.limiter.check({ attributes: {} })
  expect(allowed).toBe(true)
})

test('a reservation that its handler does not settle stays charged', async () => {
  const { handle, middleware } = setUp({ reserve: { ttl: '10s' } })
  const response = handle()
  await new Promise((resolve) => setImmediate(resolve))
  response.emit('close')
  await new Promise((resolve) => setImmediate(resolve))
  const { allowed } = await middleware.requests.limiter.check({ attributes: {} })
  expect(allowed).toBe(false)
})

test('places of a reservation are free when the response is closed', async () => {
  const rules = [{ id: 'in-flight', by: [], limits: [{ algorithm: 'concurrency', max: 1 }] }]
  const { handle, middleware } = setUp({ rules, reserve: true })
  const call = { attributes: {} }
  const response = handle()
  await new Promise((resolve) => setImmediate(resolve))
  const decide = () => middleware.requests.limiter.check(call, { inFlight: true })
  expect((await decide()).allowed).toBe(false)
  response.emit('close')
  await new Promise((resolve) => setImmediate(resolve))
  expect((await decide()).allowed).toBe(true)
})
