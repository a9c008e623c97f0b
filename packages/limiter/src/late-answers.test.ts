import { describe, expect, test } from 'vitest'
import { call, perUser, user } from './limiter.test-helper.js'
import { scripted, settled } from './scripted-store.test-helper.js'

const window = (max: number, more: object = {}) => ({
  algorithm: 'fixed-window',
  max,
  window: '1h',
  ...more,
})
const two = (a: object = {}, b: object = {}) => [
  { id: 'a', by: ['user'], limits: [window(10)], ...a },
  { id: 'b', by: ['ip'], limits: [window(10)], ...b },
]
const both = call({ user: 'u1', ip: '192.0.2.1' })

describe('late answers', () => {
  test('a late answer that granted a call which was refused is given back, shadow groups too', async () => {
    const rules = [
      ...two({ posture: 'closed' }),
      { id: 'c', by: ['user'], limits: [window(10)], mode: 'shadow' },
    ]
    const { limiter, store } = await scripted(rules)
    store.all('ran')
    expect((await limiter.check(both)).allowed).toBe(false)
    expect(store.gives).toEqual([])
    store.comeLate()
    expect(store.gives).toHaveLength(3)
    store.all('answer')
    const { explain = [] } = await limiter.explain(both)
    expect(explain.map(({ limits }) => limits[0]?.remaining)).toEqual([10, 10, 10])
  })

  test('a late answer keeps what a limit charges for refusals', async () => {
    const charging = [window(10, { onRefusal: 'charge' })]
    const { limiter, store } = await scripted(two({ limits: charging }, { posture: 'closed' }))
    store.all('ran')
    await limiter.check(both)
    store.comeLate()
    expect(store.gives).toHaveLength(1)
    store.all('answer')
    const remaining = (await limiter.peek(both)).policies().map((policy) => policy.remaining)
    expect(remaining).toEqual([9, 10])
  })

  test('a late answer that granted an admitted call returns what was spent locally', async () => {
    const { limiter, store } = await scripted(perUser([window(3)]))
    store.all('ran')
    for (let i = 0; i < 3; i++) expect((await limiter.check(user('u1'))).allowed).toBe(true)
    expect((await limiter.check(user('u1'))).allowed).toBe(false)
    store.comeLate()
    expect(store.gives).toEqual([])
    store.all('not-run')
    // The share is whole again, and the store has the three.
    const admitted = []
    for (let i = 0; i < 4; i++) admitted.push((await limiter.check(user('u1'))).allowed)
    expect(admitted).toEqual([true, true, true, false])
    store.all('answer')
    expect((await limiter.peek(user('u1'))).remaining).toBe(0)
  })

  test('a late answer that nothing ran makes local usage chargeable, and not before', async () => {
    const { limiter, store } = await scripted(perUser([window(5)]))
    store.all('lost')
    await limiter.check(user('u1', 2))
    expect(limiter.stats?.reportsWaiting).toBe(0)
    store.comeLate()
    expect(limiter.stats?.reportsWaiting).toBe(1)
    store.recover()
    await settled()
    expect(store.charges).toMatchObject([{ amount: 2, debt: 0, limit: { max: 5 } }])
    expect((await limiter.peek(user('u1'))).remaining).toBe(3)
  })

  test('usage without a late answer is not charged, because it may have run', async () => {
    const { limiter, store } = await scripted(perUser([window(5)]))
    store.all('ran')
    await limiter.check(user('u1', 2))
    store.recover()
    await settled()
    expect(store.charges).toEqual([])
    expect((await limiter.peek(user('u1'))).remaining).toBe(3)
  })

  test('a late answer that refused an admitted call leaves the usage to be charged', async () => {
    const { limiter, store } = await scripted(perUser([window(5)]))
    await limiter.check(user('u1', 4))
    store.all('ran')
    expect((await limiter.check(user('u1', 3))).allowed).toBe(true)
    store.comeLate()
    store.recover()
    await settled()
    expect(store.charges).toMatchObject([{ amount: 3 }])
    expect((await limiter.peek(user('u1'))).remaining).toBe(0)
  })

  test('a late answer counts once, however often it is delivered, and only for takes of unknown fate', async () => {
    const { limiter, store } = await scripted(two({}, { posture: 'closed' }))
    store.script.fate = (_, i) => (i === 0 ? 'answer' : 'ran')
    await limiter.check(both)
    expect(store.gives).toHaveLength(1)
    const { options } = store.requests[0] ?? {}
    store.comeLate()
    expect(store.gives).toHaveLength(2)
    const outcome = {
      granted: 1,
      remaining: 9,
      resetAfterMs: 0,
      retryAfterMs: 0,
      delayMs: 0,
      at: 0,
    }
    options?.onLate?.([[outcome, outcome]])
    expect(store.gives).toHaveLength(2)
  })

  test('a late answer may come before the decision is made', async () => {
    const { limiter, store } = await scripted(perUser([window(10)], { posture: 'closed' }))
    const take = store.take.bind(store)
    store.take = async (groups, options) => {
      const answers = await take(groups, options)
      store.comeLate()
      return answers
    }
    store.all('ran')
    expect((await limiter.check(user('u1'))).allowed).toBe(false)
    await settled()
    expect(store.gives).toHaveLength(1)
    expect((await limiter.peek(user('u1'))).remaining).toBe(10)
  })

  test('a late answer to a call that the store rejected is reconciled too', async () => {
    const { limiter, store } = await scripted(perUser([window(10)], { posture: 'closed' }))
    store.script.error = new Error('cut')
    await limiter.check(user('u1'))
    const outcome = {
      granted: 1,
      remaining: 9,
      resetAfterMs: 0,
      retryAfterMs: 0,
      delayMs: 0,
      at: 7,
    }
    store.requests[0]?.options?.onLate?.([[outcome]])
    expect(store.gives).toMatchObject([{ amount: 1, at: 7 }])
  })

  test('a late answer to a rule that fails open changes nothing', async () => {
    const { limiter, store } = await scripted(perUser([window(2)], { posture: 'open' }))
    store.all('ran')
    for (let i = 0; i < 3; i++) await limiter.check(user('u1'))
    store.comeLate()
    store.recover()
    await settled()
    expect([store.gives, store.charges]).toEqual([[], []])
  })
})
