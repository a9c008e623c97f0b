import { describe, expect, test } from 'vitest'
import { createLimiter } from './index.js'
import { call, limiterOf, perUser, user } from './limiter.test-helper.js'

describe('check', () => {
  test('check spends until nothing is left, then refuses and says how long to wait', () => {
    const { clock, limiter } = limiterOf(perUser(['3/second']))
    const remaining = [1, 2, 3].map(() => limiter.checkSync(user('u1')).remaining)
    expect(remaining).toEqual([2, 1, 0])
    expect({ ...limiter.checkSync(user('u1')) }).toEqual({
      allowed: false,
      reason: 'over',
      rule: 'per-user',
      limitName: 'token-bucket-1s',
      limit: 3,
      remaining: 0,
      resetAfterMs: 1000,
      retryAfterMs: 334,
      delayMs: 0,
      shadow: [],
      source: 'store',
    })
    clock.advance(333)
    expect(limiter.checkSync(user('u1')).allowed).toBe(false)
    clock.advance(1)
    expect(limiter.checkSync(user('u1')).allowed).toBe(true)
    expect(limiter.checkSync(user('u2')).remaining).toBe(2)
  })

  test('check and checkSync decide alike', async () => {
    const { limiter } = limiterOf(perUser(['1/second']))
    expect((await limiter.check(user('u1'))).allowed).toBe(true)
    expect((await limiter.check(user('u1'))).allowed).toBe(false)
  })

  test('check allows a call that no rule matches', () => {
    const { limiter } = limiterOf(perUser(['1/second']))
    expect(limiter.checkSync(call({ ip: '192.0.2.1' }))).toMatchObject({
      allowed: true,
      reason: 'unmatched',
      rule: null,
      limit: null,
    })
    expect(createLimiter({ rules: [] }).checkSync(user('u1')).reason).toBe('unmatched')
  })

  test('check with a tier without limits allows without a binding rule', () => {
    const rules = perUser(['1/second'], { tiers: { plan: { partner: [] } } })
    const decision = limiterOf(rules).limiter.checkSync(call({ user: 'u1', plan: 'partner' }))
    expect(decision).toMatchObject({ allowed: true, reason: 'within', rule: null })
  })

  test('check refuses a cost that no wait can cure, with its own reason', () => {
    const { limiter } = limiterOf(perUser(['10/second']))
    expect(limiter.checkSync(user('u1', 11))).toMatchObject({
      allowed: false,
      reason: 'cost_exceeds_limit',
      retryAfterMs: null,
      remaining: 10,
    })
    expect(limiterOf(perUser(['0/second'])).limiter.checkSync(user('u1'))).toMatchObject({
      allowed: false,
      reason: 'cost_exceeds_limit',
      retryAfterMs: null,
    })
  })

  test('check lets a cost of 0 pass a caller that has nothing left, and writes nothing', () => {
    const { limiter } = limiterOf(perUser(['1/second']))
    limiter.checkSync(user('u1'))
    expect(limiter.checkSync(user('u1', 0))).toMatchObject({ allowed: true, remaining: 0 })
  })

  test('check multiplies the cost, or takes it from an attribute', () => {
    const times = limiterOf(perUser(['10/second'], { cost: 3 })).limiter
    expect(times.checkSync(user('u1', 2)).remaining).toBe(4)
    const { limiter } = limiterOf(perUser(['10/second'], { cost: { attribute: 'tokens' } }))
    expect(limiter.checkSync(call({ user: 'u1', tokens: '7' }, 5)).remaining).toBe(3)
    expect(limiter.checkSync(call({ user: 'u2' }, 5)).remaining).toBe(5)
  })

  test.each([Number.NaN, Infinity, -5, 1.5, 2 ** 53, '1', '1.5', '01', '0x10'])(
    'check refuses to count a cost of %s',
    (cost) => {
      const { limiter } = limiterOf(perUser(['10/second']))
      const bad = { attributes: { user: 'u1' }, cost: cost as number }
      expect(() => limiter.checkSync(bad)).toThrow(
        /^cost must be an integer between 0 and 2\^53-1, got /,
      )
    },
  )

  test.each(['', ' 1', '1.5', '1e3', '-1', 'x', '9007199254740992'])(
    'check takes no cost from an attribute "%s"',
    (tokens) => {
      const { limiter } = limiterOf(perUser(['10/second'], { cost: { attribute: 'tokens' } }))
      const decide = () => limiter.checkSync(call({ user: 'u1', tokens }))
      if (tokens === '') expect(decide().remaining).toBe(9)
      else expect(decide).toThrow(/^attribute tokens must be an integer/)
    },
  )

  test.each([5n, 17, true])('check counts an attribute of %s as its text', (value) => {
    const { limiter } = limiterOf(perUser(['2/hour']))
    limiter.checkSync({ attributes: { user: value } })
    expect(limiter.checkSync(user(String(value))).remaining).toBe(0)
  })

  test.each([{ id: 1 }, ['a'], Symbol('a'), Number.NaN, () => 'a'])(
    'check rejects an attribute with an invalid value instead of ignoring it: %s',
    (value) => {
      const { limiter } = limiterOf(perUser(['2/hour']))
      const bad = { attributes: { user: value as never } }
      expect(() => limiter.checkSync(bad)).toThrow(/attribute user: found .*; accepted: text/)
    },
  )

  test.each([
    undefined,
    null,
    'u1',
    {},
    { attributes: null },
    { attributes: ['a'] },
    { attributes: new Map() },
  ])('check rejects %o as a call', (bad) => {
    const { limiter } = limiterOf(perUser(['10/second']))
    expect(() => limiter.checkSync(bad as never)).toThrow(/accepted: \{ attributes/)
  })
})

describe('several limits', () => {
  test('1,000 a minute, 10,000 an hour and 100,000 a day together: the tightest binds', () => {
    const window = (max: number, length: string) => ({
      algorithm: 'fixed-window',
      max,
      window: length,
    })
    const { clock, limiter } = limiterOf(
      perUser([window(1000, '1m'), window(10_000, '1h'), window(100_000, '1d')]),
    )
    const admitted = { minute: 0, hour: 0, day: 0 }
    for (let minute = 0; minute < 24 * 60; minute++) {
      let passed = 0
      while (limiter.checkSync(user('u1', 100)).allowed) passed += 100
      if (minute === 0) admitted.minute = passed
      if (minute < 60) admitted.hour += passed
      admitted.day += passed
      clock.advance(60_000)
    }
    expect(admitted).toEqual({ minute: 1000, hour: 10_000, day: 100_000 })
    clock.advance(-60_000)
    expect(limiter.checkSync(user('u1'))).toMatchObject({
      allowed: false,
      limitName: 'fixed-window-1d',
    })
  })

  test('a refused call charges none of them', async () => {
    const rules = [
      { id: 'wide', by: ['user'], limits: ['100/second'] },
      { id: 'narrow', by: ['user'], limits: ['1/second'] },
    ]
    const { limiter } = limiterOf(rules)
    for (let i = 0; i < 20; i++) limiter.checkSync(user('u1'))
    const { explain = [] } = await limiter.explain(user('u1'))
    expect(explain[0]?.limits[0]?.remaining).toBe(99)
  })

  test('the longest wait binds a refusal, the smallest share left an admission', () => {
    const rules = [
      { id: 'second', by: ['user'], limits: ['10/second'] },
      { id: 'hour', by: ['user'], limits: ['12/hour'] },
    ]
    const { limiter } = limiterOf(rules)
    expect(limiter.checkSync(user('u1')).rule).toBe('second')
    limiter.checkSync(user('u1', 9))
    const refused = limiter.checkSync(user('u1', 9))
    expect(refused).toMatchObject({ allowed: false, rule: 'hour' })
    expect(refused.policies().map(({ name }) => name)).toEqual(['second', 'hour'])
  })

  test('policies are named by rule, and by limit if there are several', () => {
    const { limiter } = limiterOf(
      perUser(['10/second', { max: 100, window: '1h', name: 'hourly' }]),
    )
    const names = limiter
      .checkSync(user('u1'))
      .policies()
      .map(({ name }) => name)
    expect(names).toEqual(['per-user:token-bucket-1s', 'per-user:hourly'])
  })

  test('a limit with onRefusal: charge is charged for a refused call', async () => {
    const rules = [
      { id: 'attempts', by: ['user'], limits: [{ max: 10, window: '1h', onRefusal: 'charge' }] },
      { id: 'narrow', by: ['user'], limits: ['1/hour'] },
    ]
    const { limiter } = limiterOf(rules)
    for (let i = 0; i < 4; i++) limiter.checkSync(user('u1'))
    const { explain = [] } = await limiter.explain(user('u1'))
    expect(explain[0]?.limits[0]?.remaining).toBe(6)
  })
})

describe('delayed calls', () => {
  const leaky = { algorithm: 'leaky-bucket', max: 10, window: '1s' }

  test('a call that must wait is admitted with its delay; of several delays the longest holds', () => {
    const slow = { algorithm: 'leaky-bucket', max: 2, window: '1s', name: 'slow' }
    const { limiter } = limiterOf(perUser([leaky, slow]))
    expect([1, 2].map(() => limiter.checkSync(user('u1')).delayMs)).toEqual([0, 500])
  })

  test('a call that must wait is refused and charged nothing if it cannot be delayed', () => {
    const { clock, limiter } = limiterOf(perUser([leaky]))
    limiter.checkSync(user('u1'))
    const held = limiter.checkSync(user('u1'), { canWait: false })
    expect(held).toMatchObject({ allowed: false, reason: 'over', retryAfterMs: 100, delayMs: 0 })
    clock.advance(100)
    expect(limiter.checkSync(user('u1'), { canWait: false }).allowed).toBe(true)
  })

  test('a call that must wait frees its place when it leaves, by its receipt', async () => {
    const { limiter } = limiterOf(perUser([{ ...leaky, queue: 2 }]))
    limiter.checkSync(user('u1'))
    const second = limiter.checkSync(user('u1'), { receipt: true })
    expect(limiter.checkSync(user('u1')).delayMs).toBe(200)
    expect(limiter.checkSync(user('u1')).allowed).toBe(false)
    await limiter.refund(second.receipt ?? '')
    expect(limiter.checkSync(user('u1'))).toMatchObject({ allowed: true, delayMs: 300 })
  })

  test('a tier can delay paying callers while free ones are refused', () => {
    const rules = perUser(['1/second'], {
      tiers: { plan: { pro: [{ max: 1, window: '1s', wait: '2s' }] } },
    })
    const { limiter } = limiterOf(rules)
    const delays = [1, 2, 3, 4].map(() => {
      const { allowed, delayMs } = limiter.checkSync(call({ user: 'u1', plan: 'pro' }))
      return allowed ? delayMs : 'refused'
    })
    expect(delays).toEqual([0, 1000, 2000, 'refused'])
  })
})

describe('shadow', () => {
  test('shadow rules never refuse, and report what they would have refused', () => {
    const rules = [
      { id: 'real', by: ['user'], limits: ['5/second'] },
      { id: 'trial', by: ['user'], limits: ['2/second'], mode: 'shadow' },
    ]
    const { limiter } = limiterOf(rules)
    const decisions = [1, 2, 3, 4].map(() => limiter.checkSync(user('u1')))
    expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true, true, true])
    expect(decisions.map(({ shadow }) => shadow)).toEqual([[], [], ['trial'], ['trial']])
    expect(decisions[3]?.policies().map(({ name }) => name)).toEqual(['real'])
  })

  test('a call with shadow rules only is within its limits, without a binding limit', () => {
    const { limiter } = limiterOf(perUser(['1/second'], { mode: 'shadow' }))
    limiter.checkSync(user('u1'))
    expect(limiter.checkSync(user('u1'))).toMatchObject({
      allowed: true,
      reason: 'within',
      rule: null,
      shadow: ['per-user'],
    })
  })

  test('neither shadow rules nor rules that are off make a call fail', () => {
    const real = { id: 'real', by: ['user'], limits: ['5/second'] }
    const trials = [
      { cost: { attribute: 'tokens' }, by: ['user'] },
      { by: ['session'] },
      { match: { path: '/x' }, by: ['user'] },
    ]
    for (const mode of ['shadow', 'off']) {
      for (const trial of trials) {
        const rules = [real, { id: 'trial', limits: ['2/second'], mode, ...trial }]
        const attributes = { user: 'u1', tokens: 'abc', session: 'x'.repeat(9000), path: '//x' }
        expect(limiterOf(rules).limiter.checkSync(call(attributes)).remaining).toBe(4)
      }
    }
  })

  test('shadow rules charge refusals as enforced rules do', () => {
    const limits = [{ max: 10, window: '1m', onRefusal: 'charge' }]
    const refusals = (mode: string) => {
      const { limiter } = limiterOf(perUser(limits, { mode }))
      return [3, 3, 3, 3, 1].map((cost) => {
        const { allowed, shadow } = limiter.checkSync(user('u1', cost))
        return allowed && shadow.length === 0
      })
    }
    expect(refusals('shadow')).toEqual(refusals('enforce'))
  })

  test('candidates count separately from the active limits', () => {
    const rules = perUser(['4/second'], { candidate: { limits: ['1/second'] } })
    const { limiter } = limiterOf(rules)
    const decisions = [1, 2].map(() => limiter.checkSync(user('u1')))
    expect(decisions.map(({ shadow }) => shadow)).toEqual([[], ['per-user:candidate']])
    expect(decisions[1]?.remaining).toBe(2)
  })

  test('a shadow rule counts the calls that were admitted: 50 where 100 of 200 are', () => {
    const rules = [
      { id: 'real', by: ['user'], limits: [{ algorithm: 'fixed-window', max: 100, window: '1h' }] },
      { id: 'trial', by: ['user'], limits: ['1/second'], mode: 'shadow' },
    ]
    const { clock, limiter } = limiterOf(rules)
    let wouldRefuse = 0
    for (let i = 0; i < 400; i++) {
      wouldRefuse += limiter.checkSync(user('u1')).shadow.length
      clock.advance(500)
    }
    expect(wouldRefuse).toBe(50)
  })
})

test('a limiter without rules decides nothing until setRules', async () => {
  const limiter = createLimiter({ rules: undefined })
  const request = { attributes: { user: 'u1' } }
  const absent = { code: 'RULES_ABSENT', status: 503 }
  expect(() => limiter.checkSync(request)).toThrow(expect.objectContaining(absent))
  await expect(limiter.check(request)).rejects.toMatchObject(absent)
  await expect(limiter.peek(request)).rejects.toMatchObject(absent)
  await expect(limiter.limits(request)).rejects.toMatchObject(absent)
  limiter.setRules('rules: [{ id: r, by: [user], limits: [1/hour] }]')
  expect(limiter.checkSync(request).allowed).toBe(true)
  expect(limiter.checkSync(request).allowed).toBe(false)
})
