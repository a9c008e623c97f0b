import fastifyRateLimit, { type RateLimitPluginOptions } from '@fastify/rate-limit'
import Fastify, { type FastifyInstance } from 'fastify'
import { afterEach, expect, test } from 'vitest'
import { describeStores, type TestStores } from './drop-in-stores.test-helper.js'
import { memoryStore } from '../index.js'
import { sluiceStore } from './fastify-rate-limit.js'

const apps: FastifyInstance[] = []
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close()
})

async function open(
  stores: TestStores,
  options: Omit<RateLimitPluginOptions, 'store'>,
  routes: (app: FastifyInstance) => void = () => {},
): Promise<FastifyInstance> {
  const app = Fastify()
  apps.push(app)
  const store = sluiceStore({ store: await stores.open(), clock: stores.clock })
  await app.register(fastifyRateLimit, { max: 2, timeWindow: 10_000, ...options, store })
  app.get('/', async () => 'ok')
  routes(app)
  await app.ready()
  return app
}

async function get(app: FastifyInstance, url = '/') {
  const { statusCode, headers } = await app.inject(url)
  const [remaining, reset] = ['x-ratelimit-remaining', 'x-ratelimit-reset'].map((name) =>
    Number(headers[name]),
  )
  return { statusCode, remaining, reset, retryAfter: headers['retry-after'] }
}

describeStores('sluiceStore inside @fastify/rate-limit', (start, isShared) => {
  test('the plugin counts down within a window, and starts anew after it', async () => {
    const stores = start()
    const app = await open(stores, {})
    expect(await get(app)).toMatchObject({ statusCode: 200, remaining: 1, reset: 10 })
    stores.clock.advance(1000)
    expect(await get(app)).toMatchObject({ statusCode: 200, remaining: 0, reset: 9 })
    stores.clock.advance(1000)
    expect(await get(app)).toMatchObject({ statusCode: 429, remaining: 0, retryAfter: '8' })
    stores.clock.advance(8000)
    expect(await get(app)).toMatchObject({ statusCode: 200, remaining: 1, reset: 10 })
  })

  test('a window of 50 ms is counted', async () => {
    const stores = start()
    const app = await open(stores, { max: 1, timeWindow: 50 })
    expect((await get(app)).statusCode).toBe(200)
    expect((await get(app)).statusCode).toBe(429)
    stores.clock.advance(50)
    expect((await get(app)).statusCode).toBe(200)
  })

  test('routes with a limit of their own count apart', async () => {
    const app = await open(start(), { max: 1 }, (routes) => {
      const config = { rateLimit: { max: 1 } }
      routes.get('/a', { config }, async () => 'a')
      routes.get('/b', { config }, async () => 'b')
    })
    for (const url of ['/', '/a', '/b']) expect((await get(app, url)).statusCode).toBe(200)
    for (const url of ['/', '/a', '/b']) expect((await get(app, url)).statusCode).toBe(429)
  })

  test('routes of one groupId count together', async () => {
    const app = await open(start(), { global: false }, (routes) => {
      const config = { rateLimit: { max: 1, groupId: 'search' } }
      routes.get('/a', { config }, async () => 'a')
      routes.get('/b', { config }, async () => 'b')
    })
    expect((await get(app, '/a')).statusCode).toBe(200)
    expect((await get(app, '/b')).statusCode).toBe(429)
  })

  test('increment: false reads without counting', async () => {
    const stores = start()
    const app = await open(stores, { global: false }, (routes) => {
      const check = routes.createRateLimit({ max: 2, timeWindow: 10_000 })
      routes.get('/read', async (request) => check(request, { increment: false }))
      routes.get('/count', async (request) => check(request))
    })
    const read = async (url: string) => (await app.inject(url)).json()
    expect(await read('/read')).toMatchObject({ remaining: 2, ttl: 0, isExceeded: false })
    await read('/count')
    stores.clock.advance(1000)
    for (let i = 0; i < 3; i++) {
      expect(await read('/read')).toMatchObject({ remaining: 1, ttl: 9000, isExceeded: false })
    }
  })

  test('continueExceeding begins the window anew with each request above the limit', async () => {
    const stores = start()
    const app = await open(stores, { continueExceeding: true })
    for (let i = 0; i < 2; i++) expect((await get(app)).statusCode).toBe(200)
    stores.clock.advance(9000)
    expect(await get(app)).toMatchObject({ statusCode: 429, retryAfter: '10' })
    stores.clock.advance(9000)
    expect(await get(app)).toMatchObject({ statusCode: 429, retryAfter: '10' })
    stores.clock.advance(10_000)
    expect((await get(app)).statusCode).toBe(200)
  })

  test('exponentialBackoff doubles the window with each request above the limit', async () => {
    const stores = start()
    const app = await open(stores, { exponentialBackoff: true })
    for (let i = 0; i < 2; i++) expect((await get(app)).statusCode).toBe(200)
    for (const seconds of ['10', '20', '40']) {
      expect(await get(app)).toMatchObject({ statusCode: 429, retryAfter: seconds })
    }
    stores.clock.advance(39_000)
    expect(await get(app)).toMatchObject({ statusCode: 429, retryAfter: '80' })
    stores.clock.advance(80_000)
    expect(await get(app)).toMatchObject({ statusCode: 200, remaining: 1, reset: 10 })
  })

  test('ban answers 403 when a client goes far enough above the limit', async () => {
    const app = await open(start(), { max: 1, ban: 1 })
    const codes: number[] = []
    for (let i = 0; i < 4; i++) codes.push((await get(app)).statusCode)
    expect(codes).toEqual([200, 429, 403, 403])
  })

  test('two registrations of the plugin with one store class count apart', async () => {
    const stores = start()
    const store = sluiceStore({ store: await stores.open(), clock: stores.clock })
    const app = Fastify()
    apps.push(app)
    for (const [name, max] of [
      ['one', 5],
      ['two', 2],
    ] as const) {
      await app.register(async (scope) => {
        await scope.register(fastifyRateLimit, { max, timeWindow: 10_000, store })
        scope.get(`/${name}`, async () => name)
        const check = scope.createRateLimit({ max, timeWindow: 10_000 })
        scope.get(`/${name}/check`, async (request) => check(request))
      })
    }
    for (let i = 0; i < 3; i++) await get(app, '/one')
    expect(await get(app, '/two')).toMatchObject({ statusCode: 200, remaining: 1 })
    const check = async (name: string) => (await app.inject(`/${name}/check`)).json()
    expect(await check('one')).toMatchObject({ remaining: 4 })
    expect(await check('two')).toMatchObject({ remaining: 1 })
  })

  test('two nodes with one Redis count together, and apart in memory', async () => {
    const stores = start()
    const [one, two] = [await open(stores, { max: 1 }), await open(stores, { max: 1 })]
    expect((await get(one)).statusCode).toBe(200)
    expect((await get(two)).statusCode).toBe(isShared ? 429 : 200)
  })
})

test('close of the store class closes a store that nothing else uses', async () => {
  let closed = 0
  const store = { ...memoryStore() }
  store.close = async () => {
    closed += 1
  }
  const [one, two] = [sluiceStore({ store }), sluiceStore({ store })]
  await one.close()
  expect(closed).toBe(0)
  await two.close()
  await two.close()
  expect(closed).toBe(1)
})
