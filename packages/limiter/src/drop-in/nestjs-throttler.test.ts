import 'reflect-metadata'
import type { AddressInfo } from 'node:net'
import { Controller, Get, type INestApplication, Module } from '@nestjs/common'
import { APP_GUARD, NestFactory } from '@nestjs/core'
import {
  ThrottlerGuard,
  ThrottlerModule,
  type ThrottlerModuleOptions,
  type ThrottlerStorage,
} from '@nestjs/throttler'
import { afterEach, expect, test } from 'vitest'
import { describeStores, type TestStores } from './drop-in-stores.test-helper.js'
import { SluiceThrottlerStorage } from './nestjs-throttler.js'

const apps: INestApplication[] = []
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close()
})

class Pages {
  index(): string {
    return 'ok'
  }
}
// Decorators are applied by hand: this repository's TypeScript has only erasable syntax.
Get()(Pages.prototype, 'index', descriptorOf('index'))
Controller()(Pages)

function descriptorOf(name: string): TypedPropertyDescriptor<unknown> {
  return Object.getOwnPropertyDescriptor(Pages.prototype, name) ?? {}
}

async function makeStorage({ open, clock }: TestStores): Promise<SluiceThrottlerStorage> {
  return new SluiceThrottlerStorage({ store: await open(), clock })
}

async function serve(
  stores: TestStores,
  throttlers: Extract<ThrottlerModuleOptions, { throttlers: unknown }>['throttlers'],
): Promise<() => Promise<Response>> {
  const storage: ThrottlerStorage = await makeStorage(stores)
  class App {}
  Module({
    imports: [ThrottlerModule.forRoot({ throttlers, storage })],
    controllers: [Pages],
    providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
  })(App)
  const app = await NestFactory.create(App, { logger: false })
  apps.push(app)
  await app.listen(0, '127.0.0.1')
  const { port } = app.getHttpServer().address() as AddressInfo
  return () => fetch(`http://127.0.0.1:${port}/`, { headers: { connection: 'close' } })
}

describeStores('SluiceThrottlerStorage inside @nestjs/throttler', (start, isShared) => {
  test('the guard writes limit, remaining and whole seconds', async () => {
    const stores = start()
    const get = await serve(stores, [{ ttl: 10_000, limit: 2 }])
    const first = (await get()).headers
    expect(first.get('x-ratelimit-limit')).toBe('2')
    expect(first.get('x-ratelimit-remaining')).toBe('1')
    expect(first.get('x-ratelimit-reset')).toBe('10')
    stores.clock.advance(1)
    expect((await get()).headers.get('x-ratelimit-reset')).toBe('10')
    const refused = await get()
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '10'])
  })

  test('named throttlers have headers of their own', async () => {
    const get = await serve(start(), [
      { name: 'short', ttl: 1000, limit: 1 },
      { name: 'long', ttl: 60_000, limit: 5 },
    ])
    const { headers } = await get()
    expect(headers.get('x-ratelimit-remaining-short')).toBe('0')
    expect(headers.get('x-ratelimit-remaining-long')).toBe('4')
    const refused = await get()
    expect([refused.status, refused.headers.get('retry-after-short')]).toEqual([429, '1'])
  })

  test('times are whole seconds, rounded up', async () => {
    const stores = start()
    const storage = await makeStorage(stores)
    expect(await storage.increment('a', 1001, 5, 1001, 'default')).toEqual({
      totalHits: 1,
      timeToExpire: 2,
      isBlocked: false,
      timeToBlockExpire: 0,
    })
    stores.clock.advance(2)
    expect((await storage.increment('a', 1001, 5, 1001, 'default')).timeToExpire).toBe(1)
  })

  test('a client above its limit is blocked, and its hits are not counted meanwhile', async () => {
    const stores = start()
    const storage = await makeStorage(stores)
    const hit = () => storage.increment('a', 10_000, 2, 30_000, 'default')
    for (const totalHits of [1, 2]) {
      expect(await hit()).toMatchObject({ totalHits, isBlocked: false })
    }
    for (let i = 0; i < 3; i++) {
      expect(await hit()).toMatchObject({ totalHits: 3, isBlocked: true, timeToBlockExpire: 30 })
    }
  })

  test('a block outlasts the window, is seen by other nodes, and ends with new hits', async () => {
    const stores = start()
    const storage = await makeStorage(stores)
    const hit = (on = storage) => on.increment('a', 1000, 1, 30_000, 'default')
    await hit()
    expect((await hit()).isBlocked).toBe(true)
    stores.clock.advance(20_000)
    const other = await makeStorage(stores)
    await expect
      .poll(() => hit(other))
      .toMatchObject(
        isShared
          ? { totalHits: 2, isBlocked: true, timeToBlockExpire: 10 }
          : { totalHits: expect.any(Number) },
      )
    stores.clock.advance(10_000)
    const fresh = await makeStorage(stores)
    expect(await hit(isShared ? fresh : storage)).toMatchObject({ totalHits: 1, isBlocked: false })
  })

  test('with blockDuration 0 a client is refused until its window ends, uncounted', async () => {
    const stores = start()
    const storage = await makeStorage(stores)
    const hit = () => storage.increment('a', 10_000, 2, 0, 'default')
    await hit()
    stores.clock.advance(4000)
    expect(await hit()).toEqual({
      totalHits: 2,
      timeToExpire: 6,
      isBlocked: false,
      timeToBlockExpire: 0,
    })
    for (let i = 0; i < 3; i++) {
      expect(await hit()).toEqual({
        totalHits: 3,
        timeToExpire: 6,
        isBlocked: true,
        timeToBlockExpire: 6,
      })
    }
    stores.clock.advance(6000)
    expect(await hit()).toMatchObject({ totalHits: 1, isBlocked: false })
  })

  test('a limit of 0 refuses every request', async () => {
    const storage = await makeStorage(start())
    expect(await storage.increment('a', 10_000, 0, 0, 'default')).toMatchObject({
      totalHits: 1,
      isBlocked: true,
      timeToBlockExpire: 10,
    })
    expect(await storage.increment('b', 10_000, 0, 5000, 'default')).toMatchObject({
      totalHits: 1,
      isBlocked: true,
      timeToBlockExpire: 5,
    })
  })

  test('throttlers count a key apart', async () => {
    const storage = await makeStorage(start())
    await storage.increment('a', 10_000, 5, 0, 'short')
    expect((await storage.increment('a', 10_000, 5, 0, 'long')).totalHits).toBe(1)
  })
})
