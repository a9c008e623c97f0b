/**
 * A Redis that accepts connections and never answers, and one that is stopped while it is in use,
 * inside each host library: every request is answered, by a count in this process.
 */
import 'reflect-metadata'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import fastifyRateLimit from '@fastify/rate-limit'
import { Controller, Get, Module } from '@nestjs/common'
import { APP_GUARD, NestFactory } from '@nestjs/core'
import { ThrottlerGuard, ThrottlerModule } from '@nestjs/throttler'
import { memoryStore, type Store } from '@sluice/limiter'
import { SluiceStore } from '@sluice/limiter/express-rate-limit'
import { sluiceStore } from '@sluice/limiter/fastify-rate-limit'
import { SluiceThrottlerStorage } from '@sluice/limiter/nestjs-throttler'
import { RateLimiterSluice } from '@sluice/limiter/rate-limiter-flexible'
import { redisStore } from '@sluice/limiter/redis'
import { Ratelimit } from '@sluice/limiter/upstash'
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import Fastify from 'fastify'
import { Hono } from 'hono'
import { rateLimiter } from 'hono-rate-limiter'
import { RateLimiterRes } from 'rate-limiter-flexible'
import { afterEach, describe, expect, test } from 'vitest'
import { scanWithoutTtl, startRedis } from '../../tools/redis/server.mjs'

const LIMIT = 2
/** Long enough for the whole test, on a busy machine too. */
const WINDOW_MS = 600_000

const closers: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

class Pages {
  index(): string {
    return 'ok'
  }
}
// Decorators are applied by hand: this repository's TypeScript has only erasable syntax.
const index = Object.getOwnPropertyDescriptor(Pages.prototype, 'index') ?? {}
Get()(Pages.prototype, 'index', index)
Controller()(Pages)

/** A host library around a store: whether it admits one more request. */
type Host = (store: Store) => Promise<() => Promise<boolean>>

const hosts: Readonly<Record<string, Host>> = {
  'express-rate-limit': async (store) => {
    const app = express()
    const counter = new SluiceStore({ store })
    closers.push(() => counter.shutdown())
    app.use(rateLimit({ windowMs: WINDOW_MS, limit: LIMIT, store: counter }))
    app.get('/', (_, response) => void response.send('ok'))
    const server = app.listen(0, '127.0.0.1')
    await once(server, 'listening')
    closers.push(() => new Promise((resolve) => server.close(resolve)))
    const { port } = server.address() as AddressInfo
    const headers = { connection: 'close' }
    return async () => (await fetch(`http://127.0.0.1:${port}/`, { headers })).status === 200
  },
  'hono-rate-limiter': async (store) => {
    const counter = new SluiceStore({ store })
    closers.push(() => counter.shutdown())
    const app = new Hono()
    const keyGenerator = () => 'client'
    app.use(rateLimiter({ windowMs: WINDOW_MS, limit: LIMIT, keyGenerator, store: counter }))
    app.get('/', (c) => c.text('ok'))
    return async () => (await app.request('/')).status === 200
  },
  '@fastify/rate-limit': async (store) => {
    const app = Fastify()
    const counters = sluiceStore({ store })
    app.addHook('onClose', () => counters.close())
    closers.push(() => app.close())
    await app.register(fastifyRateLimit, { max: LIMIT, timeWindow: WINDOW_MS, store: counters })
    app.get('/', async () => 'ok')
    return async () => (await app.inject('/')).statusCode === 200
  },
  '@nestjs/throttler': async (store) => {
    const storage = new SluiceThrottlerStorage({ store })
    class App {}
    Module({
      imports: [
        ThrottlerModule.forRoot({ throttlers: [{ ttl: WINDOW_MS, limit: LIMIT }], storage }),
      ],
      controllers: [Pages],
      providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
    })(App)
    const app = await NestFactory.create(App, { logger: false })
    closers.push(() => app.close())
    await app.listen(0, '127.0.0.1')
    const { port } = app.getHttpServer().address() as AddressInfo
    const headers = { connection: 'close' }
    return async () => (await fetch(`http://127.0.0.1:${port}/`, { headers })).status === 200
  },
  'rate-limiter-flexible': async (store) => {
    const duration = WINDOW_MS / 1000
    const limiter = new RateLimiterSluice({ store, points: LIMIT, duration })
    closers.push(() => limiter.close())
    return () =>
      limiter.consume('client').then(
        () => true,
        (reason: unknown) => {
          expect(reason).toBeInstanceOf(RateLimiterRes)
          return false
        },
      )
  },
  '@upstash/ratelimit': async (store) => {
    const ratelimit = new Ratelimit({ store, limiter: Ratelimit.fixedWindow(LIMIT, '1 d') })
    closers.push(() => ratelimit.close())
    return async () => (await ratelimit.limit('client')).success
  },
}

async function startBlackHole(): Promise<string> {
  const sockets = new Set<Socket>()
  const server: Server = createServer((socket) => void sockets.add(socket))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closers.push(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
  return `redis://127.0.0.1:${(server.address() as AddressInfo).port}`
}

describe.each(Object.entries(hosts))('inside %s', (_, open) => {
  test('a Redis that never answers leaves every request to a count in this process', async () => {
    const admit = await open(redisStore({ url: await startBlackHole() }))
    const admitted: boolean[] = []
    for (let i = 0; i < LIMIT + 2; i++) admitted.push(await admit())
    expect(admitted).toEqual([true, true, false, false])
  })

  test('a Redis that is stopped leaves every request to a count in this process', async () => {
    const server = await startRedis()
    closers.push(() => server.stop())
    const store = redisStore({ url: server.url })
    const admit = await open(store)
    await store.ready
    server.pause()
    const admitted: boolean[] = []
    for (let i = 0; i < LIMIT + 2; i++) admitted.push(await admit())
    expect(admitted).toEqual([true, true, false, false])
    server.resume()
  })
})

test('the same host refuses the same requests with counters in memory', async () => {
  for (const open of Object.values(hosts)) {
    const admit = await open(memoryStore())
    const admitted: boolean[] = []
    for (let i = 0; i < LIMIT + 2; i++) admitted.push(await admit())
    expect(admitted).toEqual([true, true, false, false])
  }
})

test('what was counted while Redis was stopped is charged to it afterwards', async () => {
  const server = await startRedis()
  closers.push(() => server.stop())
  const open = async () => {
    const store = redisStore({ url: server.url })
    const counter = new SluiceStore({ store, windowMs: WINDOW_MS })
    closers.push(() => counter.shutdown())
    await counter.ready()
    return counter
  }
  const counter = await open()
  await counter.increment('client')
  server.pause()
  for (let i = 0; i < 4; i++) await counter.increment('client')
  server.resume()
  const other = await open()
  const readAfterCall = async () => {
    // The first answer is the sign that Redis can be charged.
    await counter.get('another client')
    return (await other.get('client'))?.totalHits
  }
  await expect.poll(readAfterCall, { timeout: 60_000 }).toBe(5)
})

test('no counter of a drop-in store stays in Redis for ever', async () => {
  const server = await startRedis()
  closers.push(() => server.stop())
  for (const open of Object.values(hosts)) {
    const store = redisStore({ url: server.url })
    const admit = await open(store)
    await store.ready
    for (let i = 0; i < LIMIT + 2; i++) await admit()
  }
  expect(await scanWithoutTtl(server)).toEqual([])
})
