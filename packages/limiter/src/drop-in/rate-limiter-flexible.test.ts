import {
  RateLimiterMemory,
  RateLimiterQueue,
  RateLimiterRes,
  RateLimiterUnion,
  RLWrapperBlackAndWhite,
} from 'rate-limiter-flexible'
import { expect, test } from 'vitest'
import { describeStores, type TestStores } from './drop-in-stores.test-helper.js'
import { RateLimiterSluice, type RateLimiterSluiceOptions } from './rate-limiter-flexible.js'

async function open(
  { open: openStore, clock }: TestStores,
  options: Partial<RateLimiterSluiceOptions> = {},
): Promise<RateLimiterSluice> {
  const store = await openStore()
  return new RateLimiterSluice({ points: 2, duration: 10, store, clock, ...options })
}

/** What a promise rejects with. */
async function rejection(promise: Promise<unknown>): Promise<RateLimiterRes> {
  const found = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(found).toBeInstanceOf(RateLimiterRes)
  return found as RateLimiterRes
}

describeStores('RateLimiterSluice', (start, isShared) => {
  test('consume resolves with a RateLimiterRes while there are points', async () => {
    const stores = start()
    const limiter = await open(stores)
    const first = await limiter.consume('a')
    expect(first).toBeInstanceOf(RateLimiterRes)
    expect(first.toJSON()).toEqual({
      remainingPoints: 1,
      msBeforeNext: 10_000,
      consumedPoints: 1,
      isFirstInDuration: true,
    })
    stores.clock.advance(1500)
    expect((await limiter.consume('a')).toJSON()).toEqual({
      remainingPoints: 0,
      msBeforeNext: 8500,
      consumedPoints: 2,
      isFirstInDuration: false,
    })
  })

  test('consume rejects with a RateLimiterRes above the points, and counts on', async () => {
    const stores = start()
    const limiter = await open(stores)
    await limiter.consume('a', 2)
    for (const consumedPoints of [3, 4]) {
      expect((await rejection(limiter.consume('a'))).toJSON()).toMatchObject({
        remainingPoints: 0,
        msBeforeNext: 10_000,
        consumedPoints,
      })
    }
    stores.clock.advance(10_000)
    expect((await limiter.consume('a')).consumedPoints).toBe(1)
  })

  test('points of 0 reject everything', async () => {
    const limiter = await open(start(), { points: 0 })
    expect((await rejection(limiter.consume('a'))).consumedPoints).toBe(1)
  })

  test('consume accepts whole points only', async () => {
    const limiter = await open(start())
    await expect(limiter.consume('a', 1.5)).rejects.toThrow('points: found 1.5; accepted')
  })

  test('customDuration replaces the duration', async () => {
    const limiter = await open(start())
    expect((await limiter.consume('a', 1, { customDuration: 60 })).msBeforeNext).toBe(60_000)
  })

  test('a duration of 0 does not end', async () => {
    const stores = start()
    const limiter = await open(stores, { duration: 0 })
    expect((await limiter.consume('a')).msBeforeNext).toBe(-1)
    stores.clock.advance(300 * 86_400_000)
    expect((await limiter.consume('a')).consumedPoints).toBe(2)
  })

  test('penalty adds points and reward takes them back, never below 0', async () => {
    const limiter = await open(start(), { points: 5 })
    await limiter.consume('a')
    expect((await limiter.penalty('a', 2)).consumedPoints).toBe(3)
    expect((await limiter.reward('a')).toJSON()).toMatchObject({
      consumedPoints: 2,
      remainingPoints: 3,
    })
    expect((await limiter.get('a'))?.consumedPoints).toBe(2)
    expect((await limiter.reward('a', 10)).consumedPoints).toBe(0)
    expect(await limiter.get('a')).toBeNull()
    expect((await limiter.reward('never seen')).consumedPoints).toBe(0)
  })

  test('penalty above the points resolves', async () => {
    const limiter = await open(start())
    expect((await limiter.penalty('a', 9)).consumedPoints).toBe(9)
    await rejection(limiter.consume('a'))
  })

  test('get is null for a key without points, and reads without counting', async () => {
    const limiter = await open(start())
    expect(await limiter.get('a')).toBeNull()
    await limiter.consume('a')
    for (let i = 0; i < 2; i++) {
      expect((await limiter.get('a'))?.toJSON()).toMatchObject({
        consumedPoints: 1,
        remainingPoints: 1,
        msBeforeNext: 10_000,
      })
    }
  })

  test('blockDuration blocks once when a key goes over its points', async () => {
    const stores = start()
    const limiter = await open(stores, { blockDuration: 60 })
    await limiter.consume('a', 2)
    expect((await rejection(limiter.consume('a'))).msBeforeNext).toBe(60_000)
    stores.clock.advance(30_000)
    const blocked = await rejection(limiter.consume('a'))
    expect(blocked.toJSON()).toMatchObject({ consumedPoints: 4, msBeforeNext: 30_000 })
    stores.clock.advance(30_000)
    expect((await limiter.consume('a')).toJSON()).toMatchObject({
      consumedPoints: 1,
      msBeforeNext: 10_000,
    })
  })

  test('block rejects a key for as long as it says', async () => {
    const stores = start()
    const limiter = await open(stores)
    expect((await limiter.block('a', 30)).toJSON()).toMatchObject({
      consumedPoints: 3,
      msBeforeNext: 30_000,
    })
    stores.clock.advance(29_000)
    expect((await rejection(limiter.consume('a'))).msBeforeNext).toBe(1000)
    stores.clock.advance(1000)
    expect((await limiter.consume('a')).consumedPoints).toBe(1)
  })

  test('block for 0 seconds lasts', async () => {
    const stores = start()
    const limiter = await open(stores)
    expect((await limiter.block('a', 0)).msBeforeNext).toBe(-1)
    stores.clock.advance(200 * 86_400_000)
    await rejection(limiter.consume('a'))
  })

  test('set replaces the points and the duration of a key', async () => {
    const stores = start()
    const limiter = await open(stores)
    await limiter.consume('a', 2)
    await limiter.set('a', 1, 60)
    const counted = await limiter.consume('a')
    expect(counted.toJSON()).toMatchObject({ consumedPoints: 2, msBeforeNext: 60_000 })
    await rejection(limiter.consume('a'))
  })

  test('delete forgets a key, and says whether there was one', async () => {
    const limiter = await open(start())
    expect(await limiter.delete('a')).toBe(false)
    await limiter.consume('a', 2)
    await limiter.block('b', 60)
    expect(await limiter.delete('a')).toBe(true)
    expect(await limiter.delete('b')).toBe(true)
    expect((await limiter.consume('a')).consumedPoints).toBe(1)
    expect((await limiter.consume('b')).consumedPoints).toBe(1)
  })

  test('RateLimiterUnion rejects with the results of the limiters that refuse', async () => {
    const stores = start()
    const [few, many] = [
      await open(stores, { points: 1, keyPrefix: 'few' }),
      await open(stores, { points: 5, keyPrefix: 'many' }),
    ]
    const union = new RateLimiterUnion(few, many)
    const both = await union.consume('a')
    expect([both['few']?.remainingPoints, both['many']?.remainingPoints]).toEqual([0, 4])
    const refused: unknown = await union.consume('a').catch((reason: unknown) => reason)
    expect(Object.keys(refused as object)).toEqual(['few'])
  })

  test('RateLimiterUnion takes it beside a limiter of the host library', async () => {
    const memory = new RateLimiterMemory({ points: 5, duration: 10, keyPrefix: 'memory' })
    const union = new RateLimiterUnion(await open(start(), { keyPrefix: 'sluice' }), memory)
    expect(Object.keys(await union.consume('a'))).toEqual(['sluice', 'memory'])
  })

  test('RateLimiterQueue waits for points', async () => {
    const limiter = await open(start(), { points: 2, duration: 10 })
    const queue = new RateLimiterQueue(limiter)
    expect(await queue.getTokensRemaining()).toBe(2)
    expect(await queue.removeTokens(2)).toBe(0)
    expect(await queue.getTokensRemaining()).toBe(0)
    await expect(queue.removeTokens(3)).rejects.toThrow('exceeds maximum 2')
  })

  test('RateLimiterQueue goes on when the duration has ended', async () => {
    const stores = start()
    const queue = new RateLimiterQueue(await open(stores, { points: 1, duration: 0.02 }))
    await queue.removeTokens(1)
    const waiting = queue.removeTokens(1)
    // The queue waits by the system's clock, the window ends by this one.
    stores.clock.advance(20)
    expect(await waiting).toBe(0)
  })

  test('RLWrapperBlackAndWhite takes it', async () => {
    const limiter = await open(start(), { points: 1 })
    const wrapper = new RLWrapperBlackAndWhite({ limiter, blackList: ['bad'], whiteList: ['good'] })
    for (let i = 0; i < 3; i++) await wrapper.consume('good')
    await rejection(wrapper.consume('bad'))
    await wrapper.consume('other')
    await rejection(wrapper.consume('other'))
  })

  test('two nodes with one Redis share points and blocks', async () => {
    const stores = start()
    const [one, two] = [await open(stores), await open(stores)]
    await one.consume('a', 2)
    await one.block('b', 60)
    expect(await two.get('a').then((found) => found?.consumedPoints)).toBe(isShared ? 2 : undefined)
    if (isShared) await rejection(two.consume('b'))
    else await two.consume('b')
  })
})

test('execEvenly delays calls, and reports what is left of the wait', async () => {
  const limiter = new RateLimiterSluice({
    points: 50,
    duration: 1,
    execEvenly: true,
    execEvenlyMinDelayMs: 1,
  })
  const first = await limiter.consume('a')
  expect(first.isFirstInDuration).toBe(true)
  const second = await limiter.consume('a')
  expect(second.msBeforeNext).toBeLessThan(first.msBeforeNext)
})

test('a call just before a block ends does not prolong it', async () => {
  let [now, step] = [1.8e15, 0]
  // Time passes between the steps of one call.
  const clock = { now: () => (now += step) }
  const limiter = new RateLimiterSluice({ points: 5, duration: 1, clock })
  await limiter.block('a', 1)
  now += 1e6 - 40
  step = 30
  await rejection(limiter.consume('a'))
  step = 0
  now += 1e6
  expect((await limiter.consume('a')).toJSON()).toMatchObject({ consumedPoints: 1 })
})

test('RateLimiterSluice names a bad option, and what it accepts', () => {
  const make = (options: object) => () => new RateLimiterSluice(options as never)
  expect(make({ duration: 1 })).toThrow('points: found undefined; accepted: a finite number')
  expect(make({ points: 1, duration: -1 })).toThrow('duration: found -1; accepted')
  expect(make({ points: 1, duration: 1, storeClient: {} })).toThrow(
    'options: found storeClient; accepted: points, duration, blockDuration',
  )
})
