import type { Ratelimit as HostRatelimit } from '@upstash/ratelimit'
import { describe, expect, test } from 'vitest'
import { memoryStore } from '../index.js'
import { ScriptedStore } from '../scripted-store.test-helper.js'
import { describeStores, type TestStores } from './drop-in-stores.test-helper.js'
import { Ratelimit, type RatelimitConfig } from './upstash.js'

async function open(
  { open: openStore, clock }: TestStores,
  limiter: RatelimitConfig['limiter'],
  options: Partial<RatelimitConfig> = {},
): Promise<Ratelimit> {
  const ratelimit = new Ratelimit({ store: await openStore(), clock, limiter, ...options })
  await ratelimit.ready()
  return ratelimit
}

describeStores('Ratelimit', (start, isShared) => {
  const nowMs = ({ clock }: TestStores) => Math.floor(clock.now() / 1000)

  test('limit answers like @upstash/ratelimit', async () => {
    const stores = start()
    const windowStart = Math.ceil(nowMs(stores) / 10_000) * 10_000
    stores.clock.set(windowStart * 1000)
    const ratelimit = await open(stores, Ratelimit.fixedWindow(2, '10 s'))
    const first = await ratelimit.limit('a')
    expect(first).toMatchObject({ success: true, limit: 2, remaining: 1 })
    expect(first.reset).toBe(windowStart + 10_000)
    expect(first.reason).toBeUndefined()
    await first.pending
    await ratelimit.limit('a')
    expect(await ratelimit.limit('a')).toMatchObject({
      success: false,
      limit: 2,
      remaining: 0,
      reset: windowStart + 10_000,
    })
  })

  test('a refused identifier is refused again without the store', async () => {
    const ratelimit = await open(start(), Ratelimit.slidingWindow(1, '1 h'))
    await ratelimit.limit('a')
    expect((await ratelimit.limit('a')).reason).toBeUndefined()
    const again = await ratelimit.limit('a')
    expect([again.success, again.reason]).toEqual([false, isShared ? 'cacheBlock' : undefined])
  })

  test('a token bucket begins with its maximum and refills evenly', async () => {
    const stores = start()
    const ratelimit = await open(stores, Ratelimit.tokenBucket(5, '10 s', 8))
    for (let i = 7; i >= 0; i--) expect((await ratelimit.limit('a')).remaining).toBe(i)
    const refused = await ratelimit.limit('a')
    expect(refused).toMatchObject({ success: false, limit: 8, reset: nowMs(stores) + 2000 })
    stores.clock.advance(2000)
    expect((await ratelimit.limit('a')).success).toBe(true)
  })

  test('rate takes several tokens, a refusal takes none, and a negative rate gives back', async () => {
    const ratelimit = await open(start(), Ratelimit.slidingWindow(10, '1 h'))
    expect(await ratelimit.limit('a', { rate: 7 })).toMatchObject({ success: true, remaining: 3 })
    expect(await ratelimit.limit('a', { rate: 4 })).toMatchObject({ success: false, remaining: 3 })
    expect(await ratelimit.limit('a', { rate: -2 })).toMatchObject({ success: true, remaining: 5 })
    expect(await ratelimit.limit('a', { rate: 0 })).toMatchObject({ success: true, remaining: 5 })
  })

  test('getRemaining reads without taking', async () => {
    const stores = start()
    const ratelimit = await open(stores, Ratelimit.tokenBucket(10, '10 s', 10))
    await ratelimit.limit('a', { rate: 4 })
    for (let i = 0; i < 2; i++) {
      expect(await ratelimit.getRemaining('a')).toEqual({
        remaining: 6,
        limit: 10,
        reset: nowMs(stores) + 4000,
      })
    }
  })

  test('resetUsedTokens forgets an identifier', async () => {
    const ratelimit = await open(start(), Ratelimit.slidingWindow(1, '1 h'))
    await ratelimit.limit('a')
    await ratelimit.resetUsedTokens('a')
    expect((await ratelimit.limit('a')).success).toBe(true)
  })

  test('blockUntilReady answers at once while there are tokens', async () => {
    const ratelimit = await open(start(), Ratelimit.slidingWindow(1, '1 h'))
    expect((await ratelimit.blockUntilReady('a', 60_000)).success).toBe(true)
  })

  test('blockUntilReady waits until a token is there', async () => {
    const stores = start()
    const ratelimit = await open(stores, Ratelimit.tokenBucket(20, '1 s', 1))
    await ratelimit.limit('a')
    const waiting = ratelimit.blockUntilReady('a', 60_000)
    stores.clock.advance(50)
    expect((await waiting).success).toBe(true)
  })

  test('blockUntilReady gives up after its timeout', async () => {
    const stores = start()
    const ratelimit = await open(stores, Ratelimit.slidingWindow(1, '1 h'))
    await ratelimit.limit('a')
    expect((await ratelimit.blockUntilReady('a', 20)).success).toBe(false)
  })

  test('prefixes separate identifiers', async () => {
    const stores = start()
    const limiter = Ratelimit.slidingWindow(1, '1 h')
    const one = await open(stores, limiter, { prefix: 'one' })
    const two = await open(stores, limiter, { prefix: 'two' })
    expect((await one.limit('a')).success).toBe(true)
    expect((await two.limit('a')).success).toBe(true)
    expect((await one.limit('a')).success).toBe(false)
  })

  test('a prefix and an identifier do not run together', async () => {
    const stores = start()
    const limiter = Ratelimit.slidingWindow(1, '1 h')
    const one = await open(stores, limiter, { prefix: 'a' })
    const two = await open(stores, limiter, { prefix: 'a:b' })
    const none = await open(stores, limiter, { prefix: '' })
    expect((await one.limit('b:x')).success).toBe(true)
    expect((await two.limit('x')).success).toBe(true)
    expect((await none.limit('a:b:x')).success).toBe(true)
    expect((await none.limit('a:b:x')).success).toBe(false)
  })

  test('limiters with other windows or algorithms count apart, with the same prefix', async () => {
    const stores = start()
    for (const limiter of [
      Ratelimit.fixedWindow(5, '1 m'),
      Ratelimit.fixedWindow(3, '1 h'),
      Ratelimit.slidingWindow(3, '1 h'),
      Ratelimit.tokenBucket(3, '1 h', 3),
    ]) {
      const ratelimit = await open(stores, limiter)
      const { remaining } = await ratelimit.limit('a', { rate: 3 })
      expect(remaining).toBe(limiter.max - 3)
    }
  })

  test('two nodes with one Redis share tokens, and in memory each limiter has its own', async () => {
    const stores = start()
    const limiter = Ratelimit.fixedWindow(3, '1 h')
    const [one, two] = [await open(stores, limiter), await open(stores, limiter)]
    await one.limit('a')
    expect((await two.limit('a')).remaining).toBe(isShared ? 1 : 2)
  })

  test('cachedFixedWindow admits as many as the window has', async () => {
    const ratelimit = await open(start(), Ratelimit.cachedFixedWindow(40, '1 h'))
    let admitted = 0
    for (let i = 0; i < 60; i++) if ((await ratelimit.limit('a')).success) admitted += 1
    expect(admitted).toBe(40)
  })
})

test('Ratelimit has the methods of @upstash/ratelimit, with their types', () => {
  type Shape = Pick<HostRatelimit, 'limit' | 'getRemaining' | 'resetUsedTokens' | 'blockUntilReady'>
  const ratelimit: Shape = new Ratelimit({ limiter: Ratelimit.fixedWindow(1, '1 s') })
  expect(ratelimit.limit).toBeTypeOf('function')
})

describe('while the store does not answer', () => {
  async function openSilent() {
    const store = new ScriptedStore()
    const lines: string[] = []
    const logger = { warn: (line: string) => void lines.push(line) }
    const limiter = Ratelimit.fixedWindow(10, '1 h')
    const ratelimit = new Ratelimit({ store, clock: store.clock, limiter, logger })
    await ratelimit.ready()
    await ratelimit.limit('a', { rate: 4 })
    const error = new Error('gone')
    store.all('not-run')
    Object.assign(store.script, { verbError: error, peekError: error })
    return { store, ratelimit, lines }
  }

  test('a negative rate and resetUsedTokens resolve', async () => {
    const { ratelimit } = await openSilent()
    expect(await ratelimit.limit('a', { rate: -1 })).toMatchObject({ reason: 'timeout' })
    await ratelimit.resetUsedTokens('a')
  })

  test('a give-back and a reset that are never answered resolve at the deadline', async () => {
    const { store, ratelimit } = await openSilent()
    store.give = () => new Promise(() => {})
    store.reset = () => new Promise(() => {})
    expect(await ratelimit.limit('a', { rate: -1 })).toMatchObject({ reason: 'timeout' })
    await ratelimit.resetUsedTokens('a')
  })

  test('one line is logged for an outage, and one for its end', async () => {
    const { store, ratelimit, lines } = await openSilent()
    await ratelimit.resetUsedTokens('a')
    await ratelimit.limit('a', { rate: -1 })
    await ratelimit.limit('a')
    store.recover()
    await ratelimit.limit('a')
    await ratelimit.limit('a', { rate: -1 })
    expect(lines).toEqual([
      'sluice: upstash-ratelimit: the store does not answer; posture decides, and what is given back or reset is lost',
      'sluice: upstash-ratelimit: the store answers again',
    ])
  })
})

test('a limiter that was closed rejects, and says so', async () => {
  const ratelimit = new Ratelimit({ limiter: Ratelimit.fixedWindow(1, '1 s') })
  await ratelimit.close()
  for (const rate of [1, -1]) {
    await expect(ratelimit.limit('a', { rate })).rejects.toThrow('This limiter was closed')
  }
})

test('close closes the store with the last limiter that uses it', async () => {
  let closed = 0
  const store = { ...memoryStore() }
  store.close = async () => {
    closed += 1
  }
  const limiter = Ratelimit.fixedWindow(1, '1 s')
  const [one, two] = [new Ratelimit({ store, limiter }), new Ratelimit({ store, limiter })]
  await one.close()
  await one.close()
  expect(closed).toBe(0)
  expect((await two.limit('a')).success).toBe(true)
  await two.close()
  expect(closed).toBe(1)
})

test('Ratelimit names a bad option, and what it accepts', () => {
  expect(() => Ratelimit.slidingWindow(1, 'soon' as never)).toThrow('window: found soon; accepted')
  expect(() => new Ratelimit({} as never)).toThrow('limiter: found undefined; accepted')
  const limiter = Ratelimit.fixedWindow(1, '1s')
  expect(() => new Ratelimit({ limiter, prefix: 7 as never })).toThrow('prefix: found number')
  expect(() => new Ratelimit({ limiter, store: null as never })).toThrow('store: found null')
  expect(() => new Ratelimit({ limiter, logger: {} as never })).toThrow('logger: found one without')
  const config = { limiter, redis: {} }
  expect(() => new Ratelimit(config as never)).toThrow('options: found redis; accepted: limiter')
})
