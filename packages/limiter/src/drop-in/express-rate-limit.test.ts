import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import express, { type Express } from 'express'
import { rateLimit, type Options, type Store as HostStore } from 'express-rate-limit'
import { Hono } from 'hono'
import { rateLimiter } from 'hono-rate-limiter'
import { afterEach, expect, test } from 'vitest'
import { describeStores, type TestStores } from './drop-in-stores.test-helper.js'
import { SluiceStore } from './express-rate-limit.js'

const MINUTE = 60_000
const closers: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
})

async function serve(app: Express): Promise<(path?: string) => Promise<Response>> {
  const server = createServer(app)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closers.push(() => new Promise((resolve) => server.close(() => resolve())))
  const { port } = server.address() as AddressInfo
  return (path = '/') =>
    fetch(`http://127.0.0.1:${port}${path}`, { headers: { connection: 'close' } })
}

async function makeStore(stores: TestStores, prefix?: string): Promise<SluiceStore> {
  return new SluiceStore({ store: await stores.open(), clock: stores.clock, prefix })
}

async function serveLimited(
  stores: TestStores,
  options: Partial<Options> = {},
): Promise<{ get: (path?: string) => Promise<Response>; store: SluiceStore }> {
  const store = await makeStore(stores)
  const app = express()
  app.use(rateLimit({ windowMs: MINUTE, limit: 2, store, ...options }))
  app.get('/', (_, response) => void response.send('ok'))
  app.get('/bad', (_, response) => void response.status(400).send('bad'))
  return { get: await serve(app), store }
}

async function statusesOf(get: () => Promise<Response>, count: number): Promise<number[]> {
  const statuses: number[] = []
  for (let i = 0; i < count; i++) statuses.push((await get()).status)
  return statuses
}

describeStores('SluiceStore inside express-rate-limit', (start, isShared) => {
  test('express-rate-limit refuses above its limit, and admits after the window', async () => {
    const stores = start()
    const { get } = await serveLimited(stores)
    expect(await statusesOf(get, 4)).toEqual([200, 200, 429, 429])
    stores.clock.advance(MINUTE)
    expect(await statusesOf(get, 3)).toEqual([200, 200, 429])
  })

  test('a window begins with the first hit of its key', async () => {
    const stores = start()
    const store = await makeStore(stores)
    store.init({ windowMs: MINUTE })
    stores.clock.advance(12_345)
    const { resetTime } = await store.increment('a')
    expect(resetTime.getTime()).toBe(Math.floor(stores.clock.now() / 1000) + MINUTE)
    stores.clock.advance(MINUTE - 1)
    const second = await store.increment('a')
    expect(second).toEqual({ totalHits: 2, resetTime })
    expect(second.resetTime).not.toBe(resetTime)
    stores.clock.advance(1)
    expect((await store.increment('a')).totalHits).toBe(1)
  })

  test('refused requests are counted', async () => {
    const { get, store } = await serveLimited(start(), { keyGenerator: () => 'k' })
    await statusesOf(get, 5)
    expect((await store.get('k'))?.totalHits).toBe(5)
  })

  test('the headers of express-rate-limit follow the counts', async () => {
    const { get } = await serveLimited(start(), { standardHeaders: 'draft-6' })
    const first = await get()
    expect(first.headers.get('ratelimit-remaining')).toBe('1')
    const reset = Number(first.headers.get('ratelimit-reset'))
    expect(reset).toBeGreaterThan(0)
    expect(reset).toBeLessThanOrEqual(60)
    await get()
    expect((await get()).headers.get('ratelimit-remaining')).toBe('0')
  })

  test('skipSuccessfulRequests counts only failed requests', async () => {
    const { get, store } = await serveLimited(start(), {
      skipSuccessfulRequests: true,
      keyGenerator: () => 'k',
    })
    expect(await statusesOf(get, 2)).toEqual([200, 200])
    await expect.poll(async () => (await store.get('k'))?.totalHits ?? 0).toBe(0)
    expect(await statusesOf(() => get('/bad'), 3)).toEqual([400, 400, 429])
  })

  test('skipFailedRequests takes back the refusal itself', async () => {
    const { get, store } = await serveLimited(start(), {
      skipFailedRequests: true,
      keyGenerator: () => 'k',
    })
    expect(await statusesOf(get, 3)).toEqual([200, 200, 429])
    await expect.poll(async () => (await store.get('k'))?.totalHits).toBe(2)
  })

  test('skip leaves a request uncounted', async () => {
    const { get } = await serveLimited(start(), { skip: () => true })
    expect(await statusesOf(get, 4)).toEqual([200, 200, 200, 200])
  })

  test('a limit of 0 refuses every request', async () => {
    const { get } = await serveLimited(start(), { limit: 0, validate: false })
    expect(await statusesOf(get, 2)).toEqual([429, 429])
  })

  test('decrement counts into its own window only, and never below 0', async () => {
    const stores = start()
    const store = await makeStore(stores)
    store.init({ windowMs: MINUTE })
    await store.increment('a')
    await store.increment('a')
    await store.decrement('a')
    expect((await store.get('a'))?.totalHits).toBe(1)
    for (let i = 0; i < 3; i++) await store.decrement('a')
    expect(await store.get('a')).toBeUndefined()
    expect((await store.increment('a')).totalHits).toBe(1)
  })

  test('a decrement after the end of its window leaves the next window alone', async () => {
    const stores = start()
    const [store, other] = [await makeStore(stores), await makeStore(stores)]
    for (const each of [store, other]) each.init({ windowMs: MINUTE })
    await store.increment('a')
    stores.clock.advance(MINUTE)
    await store.decrement('a')
    expect(await store.get('a')).toBeUndefined()
    // Another node has begun the next window.
    expect((await other.increment('a')).totalHits).toBe(1)
    await store.decrement('a')
    expect((await other.get('a'))?.totalHits).toBe(1)
  })

  test('resetKey and getKey of the middleware reach the store', async () => {
    const store = await makeStore(start())
    const limiter = rateLimit({ windowMs: MINUTE, limit: 2, store })
    await store.increment('a')
    await store.increment('b')
    expect((await limiter.getKey('a'))?.totalHits).toBe(1)
    await store.resetKey('a')
    expect(await limiter.getKey('a')).toBeUndefined()
    expect((await limiter.getKey('b'))?.totalHits).toBe(1)
  })

  test('limiters with stores of their own count one request separately', async () => {
    const stores = start()
    const app = express()
    const errors: unknown[] = []
    const logger = { error: (error: unknown) => errors.push(error), warn: () => {} }
    for (const [prefix, limit] of [
      ['wide', 3],
      ['narrow', 2],
    ] as const) {
      const store = await makeStore(stores, prefix)
      app.use(rateLimit({ windowMs: MINUTE, limit, store, logger }))
    }
    app.get('/', (_, response) => void response.send('ok'))
    expect(await statusesOf(await serve(app), 4)).toEqual([200, 200, 429, 429])
    expect(errors).toEqual([])
  })

  test('express-rate-limit reports a store that two limiters share', async () => {
    const store = await makeStore(start())
    const codes: unknown[] = []
    const logger = {
      error: (error: unknown) => codes.push((error as { code?: unknown }).code),
      warn: () => {},
    }
    rateLimit({ store, logger })
    rateLimit({ store, logger })
    expect(codes).toEqual(['ERR_ERL_STORE_REUSE'])
  })

  test('localKeys and resetAll follow where the counters are', async () => {
    const store = await makeStore(start())
    store.init({ windowMs: MINUTE })
    await store.increment('a')
    expect(store.localKeys).toBe(!isShared)
    expect(store.resetAll === undefined).toBe(isShared)
    await store.resetAll?.()
    expect((await store.get('a'))?.totalHits).toBe(isShared ? 1 : undefined)
  })

  test('two nodes with one Redis count together, and apart in memory', async () => {
    const stores = start()
    const [one, two] = [await makeStore(stores), await makeStore(stores)]
    for (const store of [one, two]) store.init({ windowMs: MINUTE })
    await one.increment('a')
    expect((await two.increment('a')).totalHits).toBe(isShared ? 2 : 1)
  })

  test('windows of 1 ms and of centuries are counted', async () => {
    const stores = start()
    for (const windowMs of [1, 0.5, 9e15]) {
      const store = await makeStore(stores, `w${windowMs}`)
      store.init({ windowMs })
      expect((await store.increment('a')).totalHits).toBe(1)
      expect((await store.increment('a')).totalHits).toBe(2)
    }
  })
})

describeStores('SluiceStore inside hono-rate-limiter', (start) => {
  async function limited(stores: TestStores, options: object = {}) {
    const store = await makeStore(stores)
    const app = new Hono()
    app.use(rateLimiter({ windowMs: MINUTE, limit: 2, keyGenerator: () => 'k', store, ...options }))
    app.get('/', (c) => c.text('ok'))
    app.get('/bad', (c) => c.text('bad', 400))
    return { get: async (path = '/') => app.request(path), store }
  }

  test('hono-rate-limiter refuses above its limit, and admits after the window', async () => {
    const stores = start()
    const { get } = await limited(stores)
    expect(await statusesOf(get, 3)).toEqual([200, 200, 429])
    stores.clock.advance(MINUTE)
    expect((await get()).status).toBe(200)
  })

  test('hono-rate-limiter decrements what it skips', async () => {
    const { get, store } = await limited(start(), { skipFailedRequests: true })
    for (let i = 0; i < 3; i++) expect((await get('/bad')).status).toBe(400)
    await expect.poll(async () => (await store.get('k'))?.totalHits ?? 0).toBe(0)
  })
})

test('SluiceStore is a Store of express-rate-limit', () => {
  const store: HostStore = new SluiceStore()
  expect(store.localKeys).toBe(true)
})

test('SluiceStore names an option that it does not know, and what it accepts', () => {
  const options = { client: {} } as object
  expect(() => new SluiceStore(options)).toThrow(
    'options: found client; accepted: windowMs, store, prefix, onSilence, localCounters, logger, clock',
  )
  expect(() => new SluiceStore({ windowMs: -1 })).toThrow('windowMs: found -1; accepted')
})

test('SluiceStore without a window says how to set one', async () => {
  await expect(new SluiceStore().increment('a')).rejects.toThrow('windowMs: found none; accepted')
})
