import { MODULE_CHOICES, RATE_MODULE_NAMES } from '@sluice/core'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { DENIED_MAX } from './deny-cache.js'
import { call, perUser, user } from './limiter.test-helper.js'
import { limiterOver, ScriptedStore, scripted, settled } from './scripted-store.test-helper.js'
import { propertyRuns } from '../../../tools/property-runs.js'

const CACHED = { denyCacheMs: 1000 }
const window = (max: number, more: object = {}) => ({
  algorithm: 'fixed-window',
  max,
  window: '1h',
  ...more,
})

describe('DenyCache', () => {
  test('a refusal is remembered: a blocked caller costs about one store call a second', async () => {
    const { limiter, store, clock } = await scripted(perUser([window(1)]), CACHED)
    await limiter.check(user('u1'))
    const before = store.requests.length
    for (let ms = 0; ms < 10_000; ms += 10) {
      const calls = Array.from({ length: 5 }, () => limiter.check(user('u1')))
      const decisions = await Promise.all(calls)
      expect(decisions.every(({ allowed }) => !allowed)).toBe(true)
      clock.advance(10)
    }
    // The first five came together; after that one call probes the store before the entry expires.
    const requests = store.requests.length - before
    expect(requests).toBeLessThanOrEqual(5 + 10)
    expect(requests).toBeGreaterThanOrEqual(5 + 9)
  })

  test('a remembered refusal has the source deny-cache and lists only the limits that refuse', async () => {
    const rules = [
      { id: 'wide', by: ['user'], limits: [window(100)] },
      { id: 'narrow', by: ['user'], limits: [window(1), { ...window(9), name: 'nine' }] },
      { id: 'trial', by: ['user'], limits: [window(1)], mode: 'shadow' },
    ]
    const { limiter, store, clock } = await scripted(rules, CACHED)
    await limiter.check(user('u1'))
    const fromStore = await limiter.check(user('u1'))
    expect(fromStore.source).toBe('store')
    clock.advance(100)
    const cached = await limiter.check(user('u1'))
    expect(store.requests).toHaveLength(2)
    expect({ ...cached }).toEqual({
      ...fromStore,
      source: 'deny-cache',
      staleMs: 100,
      resetAfterMs: 3_599_900,
      retryAfterMs: 3_599_900,
    })
    expect(cached.policies().map(({ name }) => name)).toEqual(['narrow:fixed-window-1h'])
    const verdicts: string[] = []
    cached.eachRule((rule, outcome) => verdicts.push(`${rule} ${outcome}`))
    expect(verdicts).toEqual(['wide allowed', 'narrow refused'])
    expect(limiter.decide(user('u1'))).toMatchObject({ source: 'deny-cache' })
  })

  test('a remembered refusal is a state, not a verdict: a smaller cost that may fit goes to the store', async () => {
    const { limiter } = await scripted(perUser([window(10)]), CACHED)
    await limiter.check(user('u1', 7))
    expect((await limiter.check(user('u1', 5))).allowed).toBe(false)
    expect(await limiter.check(user('u1', 4))).toMatchObject({ source: 'deny-cache' })
    expect(await limiter.check(user('u1', 3))).toMatchObject({ allowed: true, source: 'store' })
  })

  test('a remembered refusal ends when the limit has room again, by the store’s latest time', async () => {
    const { limiter, store, clock } = await scripted(perUser(['10/second']), CACHED)
    await limiter.check(user('u1', 10))
    await limiter.check(user('u1'))
    clock.advance(99)
    expect((await limiter.check(user('u1'))).source).toBe('deny-cache')
    store.latestAheadUs = 1000
    expect((await limiter.check(user('u1'))).source).toBe('store')
    store.latestAheadUs = Infinity
    expect((await limiter.check(user('u1'))).source).toBe('store')
  })

  test('a remembered refusal lives at most a second by the monotonic clock', async () => {
    const { limiter, store, clock } = await scripted(perUser([window(1)]), CACHED)
    await limiter.check(user('u1'))
    await limiter.check(user('u1'))
    await store.inner.reset(
      store.requests[0]?.groups[0]?.[0]?.key ?? { hi: 0, lo: 0, partition: 0 },
    )
    clock.advance(949)
    expect((await limiter.check(user('u1'))).source).toBe('deny-cache')
    clock.advance(51)
    expect(await limiter.check(user('u1'))).toMatchObject({ allowed: true, source: 'store' })
  })

  test('a remembered refusal counts from the sending, however late the answer comes', async () => {
    const { limiter, store, clock } = await scripted(perUser([window(1)]), CACHED)
    await limiter.check(user('u1'))
    store.isHeld = true
    const slow = limiter.check(user('u1'))
    await settled()
    clock.advance(600)
    store.release()
    await slow
    clock.advance(300)
    expect((await limiter.check(user('u1'))).source).toBe('deny-cache')
    clock.advance(100)
    expect((await limiter.check(user('u1'))).source).toBe('store')
  })

  test('a refusal by a limit that charges refusals, or beside one, is not remembered', async () => {
    const rules = [
      { id: 'a', by: ['user'], limits: [window(10, { onRefusal: 'charge' })] },
      { id: 'b', by: ['user'], limits: [window(1)] },
    ]
    const { limiter, store } = await scripted(rules, CACHED)
    for (let i = 0; i < 5; i++) await limiter.check(user('u1'))
    expect(store.requests).toHaveLength(5)
    expect((await limiter.peek(user('u1'))).policies()[0]?.remaining).toBe(5)
  })

  test('a refusal that no wait can cure is remembered too, so that a blocked caller stays cheap', async () => {
    const { limiter, store } = await scripted(perUser(['0/hour']), CACHED)
    for (let i = 0; i < 5; i++) {
      expect(await limiter.check(user('u1'))).toMatchObject({ reason: 'cost_exceeds_limit' })
    }
    expect(store.requests).toHaveLength(1)
  })

  test('a remembered refusal of a log holds for the same cost only, until its time', async () => {
    const log = { algorithm: 'sliding-window-log', max: 3, window: '1s' }
    const { limiter, clock } = await scripted(perUser([log]), CACHED)
    await limiter.check(user('u1', 2))
    expect((await limiter.check(user('u1', 2))).source).toBe('store')
    expect(await limiter.check(user('u1', 2))).toMatchObject({
      source: 'deny-cache',
      remaining: 1,
      retryAfterMs: 1000,
      resetAfterMs: 1000,
    })
    expect(await limiter.check(user('u1', 1))).toMatchObject({ allowed: true, source: 'store' })
    await limiter.check(user('u1', 2))
    clock.advance(500)
    expect(await limiter.check(user('u1', 2))).toMatchObject({
      source: 'deny-cache',
      retryAfterMs: 500,
    })
  })

  test.each(RATE_MODULE_NAMES)(
    'a remembered refusal of %s goes to the store again when the clock stepped back',
    async (name) => {
      const limit = { ...MODULE_CHOICES[name], max: 1, window: '1h' }
      const { limiter, store, clock } = await scripted(perUser([limit]), CACHED)
      while ((await limiter.check(user('u1'))).allowed);
      expect((await limiter.check(user('u1'))).source).toBe('deny-cache')
      const before = store.requests.length
      clock.advance(-10 * 3_600_000)
      await limiter.check(user('u1'))
      expect(store.requests.length).toBe(before + 1)
    },
  )

  test('a call with a cost of 0 passes a remembered refusal', async () => {
    const { limiter } = await scripted(perUser([window(1)]), CACHED)
    await limiter.check(user('u1'))
    await limiter.check(user('u1'))
    expect((await limiter.check(user('u1', 0))).allowed).toBe(true)
  })
})

describe('invalidation of the deny cache', () => {
  async function blocked() {
    const made = await scripted(perUser([window(2)]), CACHED)
    const { receipt = '' } = await made.limiter.check(user('u1'), { receipt: true })
    await made.limiter.check(user('u1'))
    await made.limiter.check(user('u1'))
    made.clock.advance(1)
    expect((await made.limiter.check(user('u1'))).source).toBe('deny-cache')
    return { ...made, receipt }
  }

  test('a remembered refusal is dropped by a refund on this node', async () => {
    const { limiter, receipt } = await blocked()
    await limiter.refund(receipt)
    expect(await limiter.check(user('u1'))).toMatchObject({ allowed: true })
    const other = await blocked()
    await other.limiter.refund(user('u1'))
    expect(await other.limiter.check(user('u1'))).toMatchObject({ allowed: true })
  })

  test('a remembered refusal is dropped by a reset on this node', async () => {
    const { limiter } = await blocked()
    await limiter.reset(user('u1'))
    expect(await limiter.check(user('u1'))).toMatchObject({ allowed: true })
  })

  test('a remembered refusal is dropped when other rules become active', async () => {
    const { limiter } = await blocked()
    limiter.setRules(perUser([window(3)]))
    expect(await limiter.check(user('u1'))).toMatchObject({ allowed: true })
  })

  test('a refusal in flight while units were returned is not remembered', async () => {
    const { limiter, store, clock, receipt } = await blocked()
    clock.advance(1000)
    store.isHeld = true
    const slow = limiter.check(user('u1'))
    await settled()
    store.isHeld = false
    const answer = store.inner.sync.peek(store.requests.at(-1)?.groups ?? [])
    await limiter.refund(receipt)
    // What the store read before the refund arrives after it.
    store.take = async () => answer
    store.release()
    await slow
    Reflect.deleteProperty(store, 'take')
    expect((await limiter.check(user('u1'))).source).toBe('store')
  })
})

test('a full deny cache accepts nothing new, and keeps what it holds', async () => {
  const store = new ScriptedStore(CACHED)
  const limiter = limiterOver(store, perUser(['0/hour']))
  await limiter.ready()
  for (let i = 0; i < 3000; i++) await limiter.check(user(`early-${i}`))
  for (let i = 0; i < DENIED_MAX * 1.2; i++) await limiter.check(user(`late-${i}`))
  const requests = store.requests.length
  for (let i = 0; i < 3000; i++) await limiter.check(user(`early-${i}`))
  expect(store.requests).toHaveLength(requests)
})

test('a refusal from the cache is one that the store would have given, for all limits and traces', async () => {
  const choices = fc.constantFrom(...RATE_MODULE_NAMES.map((name) => MODULE_CHOICES[name]))
  const size = fc.record({
    max: fc.integer({ min: 0, max: 8 }),
    window: fc.constantFrom('250ms', '1s', '7s'),
  })
  const blocks = fc.constantFrom({}, { block: '250ms' }, { block: { first: '1s', factor: 3 } })
  const limit = fc
    .tuple(size, choices, blocks)
    .map((parts): object => Object.assign({}, ...parts) as object)
  const limits = fc
    .array(limit, { minLength: 1, maxLength: 3 })
    .map((list) => list.map((each, i) => ({ ...each, name: `n${i}` })))
  const steps = fc.array(
    fc.record({
      afterMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 300 })),
      cost: fc.integer({ min: 0, max: 9 }),
      elsewhere: fc.boolean(),
    }),
    { maxLength: 60 },
  )
  await fc.assert(
    fc.asyncProperty(limits, steps, fc.nat({ max: 3000 }), async (list, trace, aheadUs) => {
      const store = new ScriptedStore(CACHED)
      store.latestAheadUs = aheadUs
      const limiter = limiterOver(store, perUser(list))
      const other = limiterOver(store, perUser(list))
      await Promise.all([limiter.ready(), other.ready()])
      for (const { afterMs, cost, elsewhere } of trace) {
        store.clock.advance(afterMs)
        const truth = await limiter.peek(call({ user: 'u1' }, cost))
        const node = elsewhere ? other : limiter
        const decision = await node.check(user('u1', cost))
        expect(decision.allowed).toBe(truth.allowed)
        if (decision.source !== 'deny-cache' || truth.retryAfterMs === null) continue
        expect(decision.retryAfterMs ?? 0).toBeLessThanOrEqual(truth.retryAfterMs)
      }
    }),
    { numRuns: propertyRuns(200) },
  )
})
