import { describe, expect, test } from 'vitest'
import type { Decision, PostureName } from '../index.js'
import { createLimiter, SluiceError } from '../index.js'
import { call, perUser, user } from '../limiter.test-helper.js'
import { ScriptedStore, scripted, settled } from '../scripted-store.test-helper.js'

const window = (max: number, more: object = {}) => ({
  algorithm: 'fixed-window',
  max,
  window: '1h',
  ...more,
})

function degraded(decision: Decision): readonly (readonly [string, PostureName])[] {
  const found: [string, PostureName][] = []
  decision.degraded((rule, posture) => found.push([rule, posture]))
  return found
}

async function silent(rules: object[] | string) {
  const made = await scripted(rules)
  made.store.all('not-run')
  return made
}

describe('fallback by posture', () => {
  test('a rule that fails open admits, with the numbers of an unused counter', async () => {
    const { limiter } = await silent(perUser([window(3)], { posture: 'open' }))
    for (let i = 0; i < 5; i++) {
      const decision = await limiter.check(user('u1', 2))
      expect({ ...decision }).toMatchObject({
        allowed: true,
        reason: 'posture',
        source: 'posture',
        rule: 'per-user',
        limit: 3,
        remaining: 1,
        retryAfterMs: 0,
      })
    }
  })

  test('a rule named constructor that the store answered is not reported as decided by posture', async () => {
    const rules = [
      { id: 'constructor', by: ['user'], limits: [window(4)] },
      { id: 'silent', by: ['user'], limits: [window(4)] },
    ]
    const { limiter, store } = await scripted(rules)
    store.script.fate = (_, at) => (at === 0 ? 'answer' : 'not-run')
    const decision = await limiter.check(user('u1'))
    expect(degraded(decision)).toEqual([['silent', 'local']])
    expect(Object.keys(decision.postures ?? {})).toEqual(['silent'])
    const shares: [string, number][] = []
    decision.eachCaller((rule, _by, _caller, _outcome, left) => shares.push([rule, left]))
    expect(shares[0]).toEqual(['constructor', 0.75])
    // What is left of the other rule is unknown.
    expect(shares[1]?.[1]).toBeLessThan(0)
  })

  test('a rule that fails closed refuses, to be retried in a second', async () => {
    const { limiter } = await silent(perUser([window(3)], { posture: 'closed' }))
    expect(await limiter.check(user('u1'))).toMatchObject({
      allowed: false,
      reason: 'posture',
      source: 'posture',
      retryAfterMs: 1000,
      remaining: 0,
    })
  })

  test('a rule that fails local with a factor above 1 grants up to that factor of its limit', async () => {
    const { limiter, store } = await silent(perUser([window(10)], { posture: { local: 2.5 } }))
    store.nodes = 2
    const decisions: Decision[] = []
    for (let i = 0; i < 14; i++) decisions.push(await limiter.check(user('u1')))
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(13)
    // What is left is shown beside the limit, and is never more.
    expect(decisions.map(({ remaining }) => remaining)).toEqual([
      10, 10, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0,
    ])
    expect(decisions.every(({ limit }) => limit === 10)).toBe(true)
  })

  test('a rule with a factor above 1 still refuses a cost above its capacity', async () => {
    const { limiter } = await silent(perUser([window(10)], { posture: { local: 10 } }))
    expect(await limiter.check(user('u1', 11))).toMatchObject({
      allowed: false,
      reason: 'cost_exceeds_limit',
    })
  })

  test('a rule with a factor above 1 is charged down to empty once the store answers', async () => {
    const { limiter, store } = await silent(perUser([window(10)], { posture: { local: 3 } }))
    for (let i = 0; i < 30; i++) expect((await limiter.check(user('u1'))).allowed).toBe(true)
    store.recover()
    await settled()
    expect(await limiter.peek(user('u1'))).toMatchObject({ allowed: false, remaining: 0 })
  })

  test('a rule that fails local grants its share, by its own algorithm and the store’s clock', async () => {
    const { limiter, store, clock } = await silent(perUser(['6/minute']))
    store.nodes = 3
    const decisions = [await limiter.check(user('u1')), await limiter.check(user('u1'))]
    expect(decisions.map(({ allowed, remaining }) => [allowed, remaining])).toEqual([
      [true, 1],
      [true, 0],
    ])
    expect(await limiter.check(user('u1'))).toMatchObject({
      allowed: false,
      reason: 'posture',
      source: 'posture',
      limit: 6,
      remaining: 0,
      retryAfterMs: 30_000,
    })
    clock.advance(30_000)
    expect((await limiter.check(user('u1'))).allowed).toBe(true)
    expect((await limiter.check(user('u2'))).remaining).toBe(1)
  })

  test('a decision by posture names the posture, in JSON too; other decisions do not', async () => {
    const rules = [
      { id: 'a', by: ['user'], limits: [window(3), '9/minute'], posture: 'open' },
      { id: 'b', by: ['user'], limits: [window(3)] },
      { id: 'c', by: ['user'], limits: [window(3)], mode: 'shadow' },
    ]
    const { limiter, store } = await silent(rules)
    const decision = await limiter.check(user('u1'))
    expect(degraded(decision)).toEqual([
      ['a', 'open'],
      ['b', 'local'],
    ])
    expect(JSON.parse(JSON.stringify(decision))).toMatchObject({
      reason: 'posture',
      source: 'posture',
      postures: { a: 'open', b: 'local' },
    })
    store.all('answer')
    const whole = await limiter.check(user('u1'))
    expect(degraded(whole)).toEqual([])
    expect(whole).not.toHaveProperty('postures')
    expect(whole.source).toBe('store')
    expect(degraded(createLimiter({ rules: [] }).checkSync(user('u1')))).toEqual([])
  })

  test.each(['open', 'closed', 'local'])(
    'a rule that fails %s refuses a cost above its capacity for good',
    async (posture) => {
      const { limiter } = await silent(perUser([window(3)], { posture }))
      expect(await limiter.check(user('u1', 4))).toMatchObject({
        allowed: false,
        reason: 'cost_exceeds_limit',
        retryAfterMs: null,
      })
      const none = await silent(perUser(['0/hour'], { posture }))
      expect(await none.limiter.check(user('u1'))).toMatchObject({
        allowed: false,
        reason: 'cost_exceeds_limit',
      })
    },
  )

  test.each(['open', 'closed', 'local'])(
    'a rule that fails %s admits a cost of 0',
    async (posture) => {
      const { limiter } = await silent(perUser([window(1)], { posture }))
      await limiter.check(user('u1'))
      expect((await limiter.check(user('u1', 0))).allowed).toBe(true)
    },
  )

  test('a rule whose store does not answer refuses a cost that only the whole limit holds until the store is called again', async () => {
    const { limiter, store } = await silent(perUser([window(10)]))
    store.nodes = 5
    expect(await limiter.check(user('u1', 5))).toMatchObject({
      allowed: false,
      reason: 'posture',
      retryAfterMs: 1000,
    })
    expect((await limiter.check(user('u1', 2))).allowed).toBe(true)
  })

  test('a rule whose store does not answer delays as its share does', async () => {
    const leaky = { algorithm: 'leaky-bucket', max: 10, window: '1s' }
    const { limiter, store } = await silent(perUser([leaky]))
    store.nodes = 5
    const delays = [await limiter.check(user('u1')), await limiter.check(user('u1'))]
    expect(delays.map(({ delayMs }) => delayMs)).toEqual([0, 500])
    expect((await limiter.check(user('u1'), { canWait: false })).allowed).toBe(false)
  })

  test('a rule whose store does not answer gives no receipt for what no store has taken', async () => {
    const { limiter } = await silent(perUser([window(3)]))
    const decision = await limiter.check(user('u1'), { receipt: true })
    expect(decision.allowed).toBe(true)
    expect(decision.receipt).toBeUndefined()
  })

  test.each([
    ['rejects', new Error('connection lost')],
    ['says that it failed', new SluiceError('STORE_FAILED', 'no answer')],
  ])('a rule is decided by its posture when the store %s', async (_, error) => {
    const { limiter, store } = await scripted(perUser([window(1)]))
    store.script.error = error
    expect((await limiter.check(user('u1'))).source).toBe('posture')
    expect(await limiter.check(user('u1'))).toMatchObject({ allowed: false, reason: 'posture' })
  })

  test('a store that reports misuse, or throws, does not cause a fallback', async () => {
    const { limiter, store } = await scripted(perUser([window(1)]))
    store.script.error = new SluiceError('LIMITER_CLOSED', 'closed')
    await expect(limiter.check(user('u1'))).rejects.toMatchObject({ code: 'LIMITER_CLOSED' })
    store.take = () => {
      throw new Error('broken')
    }
    expect((await limiter.check(user('u1'))).source).toBe('posture')
  })
})

describe('local shares', () => {
  test('the share of a limit is not handed out again when the store comes and goes', async () => {
    const { limiter, store } = await silent(perUser([window(4)]))
    store.nodes = 2
    let admitted = 0
    for (let i = 0; i < 50; i++) {
      store.all(i % 2 === 0 ? 'not-run' : 'answer')
      // The store itself is empty, so that only the share can admit.
      if (i === 1) for (let n = 0; n < 4; n++) await limiter.check(user('u1'))
      const { allowed, source } = await limiter.check(user('u1'))
      if (allowed && source === 'posture') admitted += 1
    }
    expect(admitted).toBe(2)
  })

  test.each([
    [5, 20, 1],
    [100, 7, 1],
    [100, 7, 0.3],
    [1000, 3, 0.5],
  ])(
    'the share of a limit %d on %d nodes with a factor of %d is kept by the fleet',
    async (max, nodes, factor) => {
      let admitted = 0
      for (let node = 0; node < nodes; node++) {
        const { limiter, store } = await silent(
          perUser([window(max)], { posture: { local: factor } }),
        )
        store.nodes = nodes
        while ((await limiter.check(user('u1'))).allowed) admitted += 1
      }
      expect(admitted).toBeGreaterThanOrEqual(Math.min(factor * max, nodes))
      expect(admitted).toBeLessThanOrEqual(factor * max + nodes - 1)
    },
  )

  test('the share of a limit is kept in a bounded number of counters', async () => {
    const store = new ScriptedStore()
    const limiter = createLimiter({ rules: perUser([window(1)]), store, localCounters: 100 })
    await limiter.ready()
    store.all('not-run')
    for (let i = 0; i < 1000; i++) await limiter.check(user(`u${i}`))
    expect(limiter.stats?.localCounters).toBe(100)
    expect(() => createLimiter({ rules: [], store, localCounters: 0 })).toThrow(
      /localCounters: found 0; accepted: a whole number from 1/,
    )
  })
})

describe('fallback of calls with several rules', () => {
  const two = (a: object = {}, b: object = {}) => [
    { id: 'a', by: ['user'], limits: [window(10)], ...a },
    { id: 'b', by: ['ip'], limits: [window(10)], ...b },
  ]
  const both = call({ user: 'u1', ip: '192.0.2.1' })

  test('a call that one rule refuses by posture takes nothing from the shares of the others', async () => {
    const { limiter, store } = await silent(two({}, { limits: [window(1)] }))
    for (let i = 0; i < 5; i++) await limiter.check(both)
    store.script.peekError = new Error('gone')
    const policies = (await limiter.peek(both)).policies()
    expect(policies.map(({ remaining }) => remaining)).toEqual([9, 0])
    const closed = await silent(two({}, { posture: 'closed' }))
    await closed.limiter.check(both)
    closed.store.script.peekError = new Error('gone')
    expect((await closed.limiter.peek(both)).policies()[0]?.remaining).toBe(10)
  })

  test('a call with several rules keeps the outcomes that the store gave, and gives back what it granted if it is refused', async () => {
    const { limiter, store } = await scripted(two({}, { posture: 'closed' }))
    store.script.fate = (_, i) => (i === 0 ? 'answer' : 'not-run')
    const refused = await limiter.check(both)
    expect(refused).toMatchObject({ allowed: false, reason: 'posture', rule: 'b' })
    expect(refused.policies().map(({ remaining }) => remaining)).toEqual([9, 0])
    expect(degraded(refused)).toEqual([['b', 'closed']])
    expect(store.gives).toMatchObject([{ amount: 1, at: store.clock.now() }])
    store.all('answer')
    expect((await limiter.peek(both)).policies()[0]?.remaining).toBe(10)
  })

  test('a call with several rules is refused as over where a limit that the store answered for refuses', async () => {
    const { limiter, store } = await scripted(two({ limits: [window(1)] }))
    await limiter.check(both)
    store.script.fate = (_, i) => (i === 0 ? 'answer' : 'not-run')
    expect(await limiter.check(both)).toMatchObject({
      allowed: false,
      reason: 'over',
      rule: 'a',
      source: 'posture',
    })
  })

  test('a call with several rules lets a limit that charges for refusals keep what it took', async () => {
    const charging = { limits: [window(10, { onRefusal: 'charge' })] }
    const { limiter, store } = await scripted(two(charging, { posture: 'closed' }))
    store.script.fate = (_, i) => (i === 0 ? 'answer' : 'not-run')
    await limiter.check(both)
    expect(store.gives).toEqual([])
    store.all('answer')
    expect((await limiter.peek(both)).policies()[0]?.remaining).toBe(9)
  })

  test('a failed return is counted', async () => {
    const { limiter, store } = await scripted(two({}, { posture: 'closed' }))
    store.script.fate = (_, i) => (i === 0 ? 'answer' : 'not-run')
    store.script.verbError = new Error('gone')
    await limiter.check(both)
    await Promise.resolve()
    expect(limiter.stats?.givesLost).toBe(1)
  })
})
