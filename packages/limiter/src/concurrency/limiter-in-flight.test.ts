/** Calls in flight as a program meets them: which calls count, and what gives their places back. */
import type { Decision } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { createLimiter, memoryStore } from '../index.js'
import { call, user } from '../limiter.test-helper.js'
import { FakeScheduler } from '../redis/connection/channel.test-helper.js'
import { ScriptedStore, scripted, settled } from '../scripted-store.test-helper.js'
import { manualClock } from '../testing/index.js'

const PLACES = { algorithm: 'concurrency', max: 2 }
const IN_FLIGHT = { inFlight: true } as const
const rule = (more: object = {}) => ({ id: 'places', by: ['user'], limits: [PLACES], ...more })

describe('in memory', () => {
  test('a call holds its place until it is released, and only once', () => {
    const limiter = createLimiter({ rules: [rule()] })
    const check = () => limiter.checkSync(user('u1'), IN_FLIGHT)
    const first = check()
    expect(first).toMatchObject({ allowed: true, limit: 2, remaining: 1, rule: 'places' })
    expect(check()).toMatchObject({ allowed: true, remaining: 0 })
    const refused = check()
    expect(refused).toMatchObject({ allowed: false, reason: 'over', retryAfterMs: 1000 })
    expect(refused.release).toBeUndefined()
    expect(limiter.checkSync(user('u2'), IN_FLIGHT).allowed).toBe(true)
    first.release?.()
    first.release?.()
    expect(check()).toMatchObject({ allowed: true, remaining: 0 })
    expect(check().allowed).toBe(false)
  })

  test('a call whose end nobody reports does not match a rule that only counts calls in flight', async () => {
    const limiter = createLimiter({
      rules: [rule(), { id: 'rate', by: ['user'], limits: ['9/day'] }],
    })
    for (let n = 0; n < 3; n++) {
      const decision = limiter.checkSync(user('u1'))
      expect(decision).toMatchObject({ allowed: true, rule: 'rate' })
      expect(decision.release).toBeUndefined()
    }
    expect((await limiter.peek(user('u1'))).policies()).toHaveLength(1)
    limiter.setRules([rule()])
    expect(limiter.checkSync(user('u1')).reason).toBe('unmatched')
    expect((await limiter.peek(user('u1'))).reason).toBe('unmatched')
  })

  test('a call costs as many places as its rule says', () => {
    const limiter = createLimiter({ rules: [rule({ cost: 2 })] })
    const decision = limiter.checkSync(user('u1'), IN_FLIGHT)
    expect(decision).toMatchObject({ allowed: true, remaining: 0 })
    decision.release?.()
    expect(limiter.checkSync(user('u1', 0), IN_FLIGHT)).toMatchObject({ remaining: 2 })
    expect(limiter.checkSync(user('u1', 2), IN_FLIGHT)).toMatchObject({
      allowed: false,
      reason: 'cost_exceeds_limit',
    })
  })

  test('a call that another limit refuses holds no place', () => {
    const limiter = createLimiter({ rules: [rule({ limits: [PLACES, '1/day'] })] })
    limiter.checkSync(user('u1'), IN_FLIGHT).release?.()
    const refused = limiter.checkSync(user('u1'), IN_FLIGHT)
    expect(refused.policies().map(({ remaining }) => remaining)).toEqual([2, 0])
    expect(refused.release).toBeUndefined()
  })

  test('a place is held for longer than its lease', async () => {
    const scheduler = new FakeScheduler()
    const clock = { now: () => 1_767_225_600_000_000 + scheduler.nowMs * 1000 }
    const monotonicMs = () => scheduler.nowMs
    const limiter = createLimiter({ rules: [rule()], clock, scheduler, monotonicMs })
    const held = limiter.checkSync(user('u1', 2), IN_FLIGHT)
    await scheduler.advance(3_600_000)
    expect(limiter.checkSync(user('u1'), IN_FLIGHT).allowed).toBe(false)
    held.release?.()
    expect(limiter.checkSync(user('u1'), IN_FLIGHT).allowed).toBe(true)
  })

  test('shadow rules and candidates hold places as an enforcing twin does', () => {
    const limits = [{ algorithm: 'concurrency', max: 1 }]
    const shadow = createLimiter({
      rules: [
        rule({ id: 'tried', limits, mode: 'shadow' }),
        rule({ candidate: { limits }, limits: [{ algorithm: 'concurrency', max: 9 }] }),
      ],
    })
    const twin = createLimiter({ rules: [rule({ limits })] })
    const held: Decision[] = []
    for (const step of ['call', 'call', 'end', 'call', 'call', 'end', 'end', 'call']) {
      if (step === 'end') {
        held.shift()?.release?.()
        continue
      }
      const decision = shadow.checkSync(user('u1'), IN_FLIGHT)
      const expected = twin.checkSync(user('u1'), IN_FLIGHT)
      expect(decision.allowed).toBe(true)
      expect(decision.shadow).toEqual(expected.allowed ? [] : ['tried', 'places:candidate'])
      held.push({
        ...decision,
        release: () => {
          decision.release?.()
          expected.release?.()
        },
      })
    }
  })

  test('a receipt returns units, and no place', async () => {
    const limiter = createLimiter({ rules: [rule({ limits: [PLACES, '9/day'] })] })
    const decision = await limiter.check(user('u1'), { ...IN_FLIGHT, receipt: true })
    await limiter.refund(decision.receipt ?? '')
    await limiter.refund(user('u1'))
    const [places] = (await limiter.limits(user('u1'))).map(({ remaining }) => remaining)
    expect(places).toBe(1)
  })

  test('the calls in flight are counted by rule and priority', () => {
    const limiter = createLimiter({
      rules: {
        priorities: ['high', 'low'],
        classify: [{ match: { where: { plan: 'pro' } }, as: 'high' }],
        rules: [
          rule({ limits: [PLACES, { ...PLACES, max: 9, name: 'more' }], headroom: { high: 0.5 } }),
          rule({ id: 'tried', by: [], mode: 'shadow' }),
        ],
      },
    })
    expect(Object.fromEntries(limiter.inFlight)).toEqual({
      places: { inFlight: 0, max: 2 },
      tried: { inFlight: 0, max: 2 },
    })
    const first = limiter.checkSync(call({ user: 'u1' }), IN_FLIGHT)
    const second = limiter.checkSync(call({ user: 'u1', plan: 'pro' }), IN_FLIGHT)
    const third = limiter.checkSync(call({ user: 'u2', plan: 'pro' }), IN_FLIGHT)
    expect(Object.fromEntries(limiter.inFlight)).toEqual({
      places: { inFlight: 3, max: 2, priorities: { low: 1, high: 2 } },
      tried: { inFlight: 2, max: 2, priorities: { low: 1, high: 1 } },
    })
    for (const decision of [first, second, third]) decision.release?.()
    expect(limiter.inFlight.get('places')).toMatchObject({ inFlight: 0 })
  })

  test('the limit that calls in flight are shown against is that of the active rules', () => {
    const limiter = createLimiter({ rules: [rule()] })
    const { release } = limiter.checkSync(user('u1'), IN_FLIGHT)
    limiter.setRules([rule({ limits: [{ ...PLACES, max: 9 }] })])
    expect(limiter.inFlight.get('places')).toEqual({ inFlight: 1, max: 9 })
    release?.()
    expect(limiter.inFlight.get('places')).toEqual({ inFlight: 0, max: 9 })
    limiter.checkSync(user('u1'), IN_FLIGHT)
    limiter.setRules([])
    expect(limiter.inFlight.get('places')).toEqual({ inFlight: 1, max: 9 })
  })

  test('headroom keeps places free for calls of a higher priority', () => {
    const limiter = createLimiter({
      rules: {
        priorities: ['high', 'low'],
        classify: [{ match: { where: { plan: 'pro' } }, as: 'high' }],
        rules: [rule({ headroom: { high: 0.5 } })],
      },
    })
    expect(limiter.checkSync(user('u1'), IN_FLIGHT)).toMatchObject({ allowed: true })
    expect(limiter.checkSync(user('u1'), IN_FLIGHT)).toMatchObject({ allowed: false })
    const pro = call({ user: 'u1', plan: 'pro' })
    expect(limiter.checkSync(pro, IN_FLIGHT)).toMatchObject({ allowed: true })
  })

  test('an explanation lists the holders of places, and says who counts them', async () => {
    const limiter = createLimiter({ rules: [rule()], clock: manualClock() })
    limiter.checkSync(user('u1'), IN_FLIGHT)
    const { explain = [], allowed } = await limiter.explain(user('u1'))
    expect(allowed).toBe(true)
    expect(explain[0]).toMatchObject({
      matched: true,
      note: expect.stringContaining('gateway, middlewares, reservations'),
      limits: [
        {
          algorithm: 'concurrency',
          windowMs: 0,
          remaining: 1,
          state: [{ holder: expect.any(Number), places: 1, expiresAtMs: expect.any(Number) }],
        },
      ],
    })
    const { counters } = await limiter.inspect('places', user('u1'))
    expect(counters[0]).toMatchObject({
      state: { places: 1, holders: 1 },
      holders: [{ places: 1 }],
    })
  })

  test('the policy of a limit names its unit, and has no window', () => {
    const limiter = createLimiter({ rules: [rule()] })
    const decision = limiter.checkSync(user('u1'), IN_FLIGHT)
    expect(decision.policyField()).toBe('"places";q=2;qu="concurrent-requests"')
    expect(decision.leftField(0)).toBe('"places";r=1;t=10')
  })

  test('a limiter that is closed has given its places back to a store that others use', async () => {
    const store = { ...memoryStore(), close: async () => {} }
    const secret = new Uint8Array(16)
    const [one, other] = [1, 2].map(() => createLimiter({ rules: [rule()], store, secret }))
    const held = one?.checkSync(user('u1', 2), IN_FLIGHT)
    expect(other?.checkSync(user('u1'), IN_FLIGHT).allowed).toBe(false)
    await one?.close()
    expect(other?.checkSync(user('u1'), IN_FLIGHT).allowed).toBe(true)
    held?.release?.()
    expect(other?.checkSync(user('u1'), IN_FLIGHT).remaining).toBe(0)
  })
})

test('a lease that is made shorter frees no place of a call that another node has in flight', async () => {
  const scheduler = new FakeScheduler()
  const clock = { now: () => 1_767_225_600_000_000 + scheduler.nowMs * 1000 }
  const monotonicMs = () => scheduler.nowMs
  const leasing = (lease: string) => [rule({ limits: [{ ...PLACES, max: 1, lease }] })]
  const shared = { store: memoryStore({ clock }), secret: new Uint8Array(16), clock }
  const options = { ...shared, scheduler, monotonicMs, rules: leasing('5m') }
  const [one, other] = [createLimiter(options), createLimiter(options)]
  const held = one.checkSync(user('u1'), IN_FLIGHT)
  for (const limiter of [one, other]) limiter.setRules(leasing('1s'))
  for (let n = 0; n < 300; n++) {
    expect(other.checkSync(user('u1'), IN_FLIGHT).allowed, `after ${n} s`).toBe(false)
    await scheduler.advance(1000)
  }
  held.release?.()
  expect(other.checkSync(user('u1'), IN_FLIGHT).allowed).toBe(true)
})

describe('with a remote store', () => {
  const check = (limiter: { check: typeof createLimiter.prototype.check }, cost?: number) =>
    limiter.check(user('u1', cost), IN_FLIGHT) as Promise<Decision>

  test('a call takes a place of the store, and gives it back', async () => {
    const { limiter, store } = await scripted([rule()])
    const decision = await check(limiter)
    expect(decision).toMatchObject({ allowed: true, remaining: 1, source: 'store' })
    decision.release?.()
    decision.release?.()
    await settled()
    expect(store.gives).toHaveLength(1)
    expect((await check(limiter)).remaining).toBe(1)
  })

  test('a refusal is not remembered, because a call may end at any moment', async () => {
    const { limiter, store } = await scripted([rule()], { denyCacheMs: 1000 })
    const [held] = [await check(limiter, 2)]
    for (let n = 0; n < 3; n++) expect((await check(limiter)).source).toBe('store')
    expect(store.requests).toHaveLength(4)
    held?.release?.()
    expect((await check(limiter)).allowed).toBe(true)
  })

  test('a hedged rule waits for the store', async () => {
    const { limiter, store } = await scripted([rule({ hedge: true })])
    await check(limiter)
    store.isHeld = true
    const decision = check(limiter)
    await settled()
    store.release()
    expect(await decision).toMatchObject({ source: 'store', remaining: 0 })
  })

  test('while the store is silent a share of the places is counted and released here', async () => {
    const { limiter, store } = await scripted([rule()])
    store.all('lost')
    const held = [await check(limiter), await check(limiter)]
    expect(held).toMatchObject([
      { allowed: true, source: 'posture', postures: { places: 'local' } },
      { allowed: true, source: 'posture' },
    ])
    expect(await check(limiter)).toMatchObject({ allowed: false, reason: 'posture' })
    held[0]?.release?.()
    held[0]?.release?.()
    expect((await check(limiter)).allowed).toBe(true)
    expect((await check(limiter)).allowed).toBe(false)
    expect(limiter.inFlight.get('places')).toMatchObject({ inFlight: 2 })
    // The store is told nothing of places that it did not grant.
    store.recover()
    await settled()
    expect([store.charges, store.gives]).toEqual([[], []])
    expect(limiter.stats).toMatchObject({ reportsWaiting: 0 })
  })

  test('an open rule admits all without a place while the store is silent', async () => {
    const { limiter, store } = await scripted([rule({ posture: 'open' })])
    store.all('lost')
    for (let n = 0; n < 5; n++) expect((await check(limiter)).allowed).toBe(true)
    expect(limiter.inFlight.get('places')?.inFlight).toBe(0)
  })

  test('a place that is granted late is given back, whatever the posture decided', async () => {
    for (const posture of ['closed', 'local', 'open']) {
      const { limiter, store } = await scripted([rule({ posture })])
      store.all('ran')
      const decision = await check(limiter)
      expect(decision.allowed).toBe(posture !== 'closed')
      store.comeLate()
      await settled()
      expect(store.gives).toMatchObject([{ amount: 1 }])
      decision.release?.()
      await settled()
      expect(store.gives).toHaveLength(1)
    }
  })

  test('a place that one shard granted is given back if the posture of another rule refuses', async () => {
    const rate = { id: 'rate', by: ['user'], limits: ['9/day'], posture: 'closed' }
    const { limiter, store } = await scripted([rule(), rate])
    store.script.fate = (_, at) => (at === 0 ? 'answer' : 'lost')
    const refused = await check(limiter)
    expect(refused).toMatchObject({ allowed: false })
    expect(refused.release).toBeUndefined()
    await settled()
    expect(store.gives).toMatchObject([{ amount: 1 }])
  })

  test('a place that one shard granted is held if the posture of another rule admits', async () => {
    const rate = { id: 'rate', by: ['user'], limits: ['9/day'], posture: 'open' }
    const { limiter, store } = await scripted([rule(), rate])
    store.script.fate = (_, at) => (at === 0 ? 'answer' : 'lost')
    const decision = await check(limiter)
    expect(decision).toMatchObject({ allowed: true })
    decision.release?.()
    await settled()
    expect(store.gives).toMatchObject([{ amount: 1 }])
  })

  test.each(['node', 'split'])(
    'with coordination %s places are counted and released without the store',
    async (coordination) => {
      const { limiter, store } = await scripted([rule({ coordination })])
      const first = limiter.decide(user('u1'), IN_FLIGHT) as Decision
      expect(first).toMatchObject({ allowed: true, source: 'local', remaining: 1 })
      expect(limiter.decide(user('u1'), IN_FLIGHT)).toMatchObject({ allowed: true })
      expect(limiter.decide(user('u1'), IN_FLIGHT)).toMatchObject({ allowed: false })
      first.release?.()
      expect(limiter.decide(user('u1'), IN_FLIGHT)).toMatchObject({ allowed: true })
      expect(store.requests).toEqual([])
      expect(limiter.inFlight.get('places')).toMatchObject({ inFlight: 2 })
    },
  )

  test('places of this node are free again if the store refuses the call', async () => {
    const rate = { id: 'rate', by: ['user'], limits: ['1/day'] }
    const { limiter } = await scripted([rule({ coordination: 'node' }), rate])
    ;(await check(limiter)).release?.()
    expect(await check(limiter)).toMatchObject({ allowed: false, rule: 'rate' })
    const { explain = [] } = await limiter.explain(user('u1'))
    expect(explain[0]?.limits[0]?.remaining).toBe(2)
  })

  test('a silent store leaves nothing behind once it answers, and close gives back the rest', async () => {
    const scheduler = new FakeScheduler()
    const store = new ScriptedStore()
    const limiter = createLimiter({
      rules: [rule()],
      store,
      clock: store.clock,
      monotonicMs: () => scheduler.nowMs,
      scheduler,
    })
    await limiter.ready()
    const first = await check(limiter)
    store.script.verbError = new Error('gone')
    first.release?.()
    await settled()
    store.recover()
    const second = await check(limiter)
    expect(second.remaining).toBe(0)
    await scheduler.advance(5000)
    const { explain = [] } = await limiter.explain(user('u1'))
    expect(explain[0]?.limits[0]?.remaining).toBe(1)
    await limiter.close()
    const [[state] = []] = store.inner.sync.peek(store.requests[0]?.groups ?? [])
    expect(state?.remaining).toBe(2)
  })
})
