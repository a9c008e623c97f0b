import { describe, expect, test } from 'vitest'
import { createLimiter, memoryStore, RulesError, SluiceError, type Store } from './index.js'
import { manualClock } from './testing/index.js'

const call = (attributes: Record<string, string>, cost?: number) => ({ attributes, cost })
const user = (name: string, cost?: number) => call({ user: name }, cost)

function limiterOf(rules: string | object) {
  const clock = manualClock()
  return { clock, limiter: createLimiter({ rules, clock }) }
}

const perUser = (limits: unknown[], more: object = {}) => [
  { id: 'per-user', by: ['user'], limits, ...more },
]

describe('check', () => {
  test('spends until nothing is left, then refuses and says how long to wait', () => {
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

  test('answers the same awaited', async () => {
    const { limiter } = limiterOf(perUser(['1/second']))
    expect((await limiter.check(user('u1'))).allowed).toBe(true)
    expect((await limiter.check(user('u1'))).allowed).toBe(false)
  })

  test('allows what no rule speaks of', () => {
    const { limiter } = limiterOf(perUser(['1/second']))
    expect(limiter.checkSync(call({ ip: '192.0.2.1' }))).toMatchObject({
      allowed: true,
      reason: 'unmatched',
      rule: null,
      limit: null,
    })
    expect(createLimiter({ rules: [] }).checkSync(user('u1')).reason).toBe('unmatched')
  })

  test('with a tier without limit allows without a binding rule', () => {
    const rules = perUser(['1/second'], { tiers: { plan: { partner: [] } } })
    const decision = limiterOf(rules).limiter.checkSync(call({ user: 'u1', plan: 'partner' }))
    expect(decision).toMatchObject({ allowed: true, reason: 'within', rule: null })
  })

  test('refuses a cost that no wait can cure, with its own reason', () => {
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

  test('lets a cost of 0 pass a caller that has nothing left, and writes nothing', () => {
    const { limiter } = limiterOf(perUser(['1/second']))
    limiter.checkSync(user('u1'))
    expect(limiter.checkSync(user('u1', 0))).toMatchObject({ allowed: true, remaining: 0 })
  })

  test('multiplies the cost, or takes it from an attribute', () => {
    const times = limiterOf(perUser(['10/second'], { cost: 3 })).limiter
    expect(times.checkSync(user('u1', 2)).remaining).toBe(4)
    const { limiter } = limiterOf(perUser(['10/second'], { cost: { attribute: 'tokens' } }))
    expect(limiter.checkSync(call({ user: 'u1', tokens: '7' }, 5)).remaining).toBe(3)
    expect(limiter.checkSync(call({ user: 'u2' }, 5)).remaining).toBe(5)
  })

  test.each([Number.NaN, Infinity, -5, 1.5, 2 ** 53, '1', '1.5', '01', '0x10'])(
    'refuses to count a cost of %s',
    (cost) => {
      const { limiter } = limiterOf(perUser(['10/second']))
      const bad = { attributes: { user: 'u1' }, cost: cost as number }
      expect(() => limiter.checkSync(bad)).toThrow(
        /^cost must be an integer between 0 and 2\^53-1, got /,
      )
    },
  )

  test.each(['', ' 1', '1.5', '1e3', '-1', 'x', '9007199254740992'])(
    'takes no cost from an attribute that says "%s"',
    (tokens) => {
      const { limiter } = limiterOf(perUser(['10/second'], { cost: { attribute: 'tokens' } }))
      const decide = () => limiter.checkSync(call({ user: 'u1', tokens }))
      if (tokens === '') expect(decide().remaining).toBe(9)
      else expect(decide).toThrow(/^attribute tokens must be an integer/)
    },
  )

  test.each([undefined, null, 'u1', {}, { attributes: null }])('takes no call like %o', (bad) => {
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

  test('names its policies by rule, and by limit where there are several', () => {
    const { limiter } = limiterOf(
      perUser(['10/second', { max: 100, window: '1h', name: 'hourly' }]),
    )
    const names = limiter
      .checkSync(user('u1'))
      .policies()
      .map(({ name }) => name)
    expect(names).toEqual(['per-user:token-bucket-1s', 'per-user:hourly'])
  })

  test('with onRefusal: charge, a refused call is charged there', async () => {
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

describe('a call that must wait', () => {
  const leaky = { algorithm: 'leaky-bucket', max: 10, window: '1s' }

  test('is admitted with its delay; of several delays the longest holds', () => {
    const slow = { algorithm: 'leaky-bucket', max: 2, window: '1s', name: 'slow' }
    const { limiter } = limiterOf(perUser([leaky, slow]))
    expect([1, 2].map(() => limiter.checkSync(user('u1')).delayMs)).toEqual([0, 500])
  })

  test('is refused and charged nothing where nobody can hold it', () => {
    const { clock, limiter } = limiterOf(perUser([leaky]))
    limiter.checkSync(user('u1'))
    const held = limiter.checkSync(user('u1'), { canWait: false })
    expect(held).toMatchObject({ allowed: false, reason: 'over', retryAfterMs: 100, delayMs: 0 })
    clock.advance(100)
    expect(limiter.checkSync(user('u1'), { canWait: false }).allowed).toBe(true)
  })

  test('frees its place when it leaves, by its receipt', async () => {
    const { limiter } = limiterOf(perUser([{ ...leaky, queue: 2 }]))
    limiter.checkSync(user('u1'))
    const second = limiter.checkSync(user('u1'), { receipt: true })
    expect(limiter.checkSync(user('u1')).delayMs).toBe(200)
    expect(limiter.checkSync(user('u1')).allowed).toBe(false)
    await limiter.refund(second.receipt ?? '')
    expect(limiter.checkSync(user('u1'))).toMatchObject({ allowed: true, delayMs: 300 })
  })

  test('smooths paying callers where free ones are refused', () => {
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
  test('rules never refuse, and say what they would have refused', () => {
    const rules = [
      { id: 'real', by: ['user'], limits: ['5/second'] },
      { id: 'trial', by: ['user'], limits: ['2/second'], mode: 'shadow' },
    ]
    const { limiter } = limiterOf(rules)
    const seen = [1, 2, 3, 4].map(() => limiter.checkSync(user('u1')))
    expect(seen.map(({ allowed }) => allowed)).toEqual([true, true, true, true])
    expect(seen.map(({ shadow }) => shadow)).toEqual([[], [], ['trial'], ['trial']])
    expect(seen[3]?.policies().map(({ name }) => name)).toEqual(['real'])
  })

  test('rules alone leave a call within, with no limit that binds', () => {
    const { limiter } = limiterOf(perUser(['1/second'], { mode: 'shadow' }))
    limiter.checkSync(user('u1'))
    expect(limiter.checkSync(user('u1'))).toMatchObject({
      allowed: true,
      reason: 'within',
      rule: null,
      shadow: ['per-user'],
    })
  })

  test('candidates count apart from the limits in force', () => {
    const rules = perUser(['4/second'], { candidate: { limits: ['1/second'] } })
    const { limiter } = limiterOf(rules)
    const seen = [1, 2].map(() => limiter.checkSync(user('u1')))
    expect(seen.map(({ shadow }) => shadow)).toEqual([[], ['per-user:candidate']])
    expect(seen[1]?.remaining).toBe(2)
  })

  test('counts of the calls that really got through: 50 where 100 of 200 do', () => {
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

describe('peek and explain', () => {
  test('spend nothing', async () => {
    const { limiter } = limiterOf(perUser(['2/second']))
    for (let i = 0; i < 5; i++) await limiter.peek(user('u1'))
    for (let i = 0; i < 5; i++) await limiter.explain(user('u1'))
    expect(limiter.checkSync(user('u1')).remaining).toBe(1)
    expect((await limiter.peek(user('u1', 2))).allowed).toBe(false)
  })

  test('explain names every rule, matched or why not, with its limits and state', async () => {
    const rules = [
      ...perUser(['2/second'], { candidate: { limits: ['9/second'] } }),
      { id: 'login', match: { path: '/login' }, by: ['ip'], limits: ['1/minute'] },
    ]
    const { limiter } = limiterOf(rules)
    limiter.checkSync(user('u1'))
    const { allowed, explain = [] } = await limiter.explain(user('u1'))
    expect(allowed).toBe(true)
    expect(explain.map(({ rule, matched, why }) => [rule, matched, why])).toEqual([
      ['per-user', true, null],
      ['login', false, 'path is absent, which /login does not match'],
    ])
    expect(explain[0]?.limits).toMatchObject([
      { name: 'token-bucket-1s', limit: 2, remaining: 1, candidate: false, state: { used: 1 } },
      { name: 'token-bucket-1s', limit: 9, remaining: 8, candidate: true },
    ])
    expect(JSON.parse(JSON.stringify(explain))).toEqual(explain)
  })

  test('explain says why nothing matched', async () => {
    const { limiter } = limiterOf(perUser(['2/second']))
    expect(await limiter.explain(call({}))).toMatchObject({
      reason: 'unmatched',
      explain: [{ rule: 'per-user', matched: false, why: 'it counts by user, which is absent' }],
    })
  })
})

describe('refund', () => {
  const hourly = (max: number) => [{ algorithm: 'fixed-window', max, window: '1h' }]

  test('gives back exactly what a receipt took, once', async () => {
    const { limiter } = limiterOf(perUser(hourly(10)))
    limiter.checkSync(user('u1', 2))
    const { receipt = '' } = limiter.checkSync(user('u1', 5), { receipt: true })
    await limiter.refund(receipt)
    await limiter.refund(receipt)
    expect((await limiter.peek(user('u1'))).remaining).toBe(8)
  })

  test('tells apart two calls that took the same at the same instant', async () => {
    const { limiter } = limiterOf(perUser(hourly(10)))
    const receipts = [1, 2].map(
      () => limiter.checkSync(user('u1'), { receipt: true }).receipt ?? '',
    )
    for (const receipt of receipts) await limiter.refund(receipt)
    expect((await limiter.peek(user('u1'))).remaining).toBe(10)
  })

  test('never gives into another window', async () => {
    const { clock, limiter } = limiterOf(perUser(hourly(10)))
    const { receipt = '' } = limiter.checkSync(user('u1', 5), { receipt: true })
    clock.advance(3_600_000)
    limiter.checkSync(user('u1', 5))
    await limiter.refund(receipt)
    expect((await limiter.peek(user('u1'))).remaining).toBe(5)
  })

  test('by attributes goes into the present window, never above full', async () => {
    const { limiter } = limiterOf(perUser(hourly(10)))
    limiter.checkSync(user('u1', 5))
    await limiter.refund(user('u1', 2))
    expect((await limiter.peek(user('u1'))).remaining).toBe(7)
    await limiter.refund(user('u1', 10))
    expect((await limiter.peek(user('u1'))).remaining).toBe(10)
  })

  test('goes by the limit in force after a change of rules, and is nothing for a rule that is gone', async () => {
    const { limiter } = limiterOf(perUser(['10/hour']))
    const { receipt = '' } = limiter.checkSync(user('u1', 10), { receipt: true })
    limiter.setRules(perUser(['100/hour']))
    limiter.checkSync(user('u1', 50))
    await limiter.refund(receipt)
    expect((await limiter.peek(user('u1'))).remaining).toBe(50)
    limiter.setRules([])
    await expect(limiter.refund(receipt)).resolves.toBeUndefined()
  })

  test('returns what shadow groups took too', async () => {
    const rules = perUser(['10/hour'], { candidate: { limits: ['1/hour'] } })
    const { limiter } = limiterOf(rules)
    const { receipt = '' } = limiter.checkSync(user('u1'), { receipt: true })
    await limiter.refund(receipt)
    expect(limiter.checkSync(user('u1')).shadow).toEqual([])
  })

  test('refuses receipts that are damaged, or of another deployment', async () => {
    const { limiter } = limiterOf(perUser(['10/hour']))
    const { receipt = '' } = limiter.checkSync(user('u1'), { receipt: true })
    const other = createLimiter({ rules: perUser(['10/hour']) })
    for (const bad of ['', '~', 'x', `${receipt}0`, receipt.replace('per-user', 'per-uses')]) {
      await expect(limiter.refund(bad)).rejects.toThrow(/receipt: /)
    }
    await expect(other.refund(receipt)).rejects.toMatchObject({ code: 'RECEIPT_INVALID' })
  })

  test('a refusal has no receipt', () => {
    const { limiter } = limiterOf(perUser(['1/hour']))
    limiter.checkSync(user('u1'))
    expect(limiter.checkSync(user('u1'), { receipt: true })).not.toHaveProperty('receipt')
  })
})

describe('reset', () => {
  const rules = [
    { id: 'per-user', by: ['user'], match: { path: '/a' }, limits: ['1/hour'] },
    { id: 'tiered', by: ['user'], limits: ['1/hour'], tiers: { plan: { pro: ['1/day'] } } },
    { id: 'everybody', by: [], limits: ['2/hour'] },
  ]

  test('forgets the counters of one caller, whatever path or tier, and no shared one', async () => {
    const { limiter } = limiterOf(rules)
    for (const name of ['u1', 'u2'])
      limiter.checkSync(call({ user: name, path: '/a', plan: 'pro' }))
    await limiter.reset(user('u1'))
    const left = async (name: string) => {
      const { explain = [] } = await limiter.explain(call({ user: name, path: '/a', plan: 'pro' }))
      return explain.map(({ limits }) => limits[0]?.remaining)
    }
    expect(await left('u1')).toEqual([1, 1, 0])
    expect(await left('u2')).toEqual([0, 0, 0])
  })

  test('of a rule by name forgets that one, shared or not', async () => {
    const { limiter } = limiterOf(rules)
    limiter.checkSync(call({ user: 'u1', path: '/a' }))
    await limiter.reset(call({}), { rule: 'everybody' })
    const { explain = [] } = await limiter.explain(call({ user: 'u1', path: '/a' }))
    expect(explain.map(({ limits }) => limits[0]?.remaining)).toEqual([0, 0, 2])
  })
})

describe('setRules', () => {
  test('keeps what was used when a limit is raised, lowered or moved to a tier', async () => {
    const { limiter } = limiterOf(perUser(['10/minute']))
    limiter.checkSync(user('u1', 10))
    limiter.setRules(perUser(['100/minute']))
    expect((await limiter.peek(user('u1'))).remaining).toBe(90)
    limiter.setRules(perUser(['5/minute']))
    expect((await limiter.peek(user('u1'))).remaining).toBe(0)
    limiter.setRules(perUser(['5/minute'], { tiers: { plan: { pro: ['20/minute'] } } }))
    expect((await limiter.peek(call({ user: 'u1', plan: 'pro' }))).remaining).toBe(10)
  })

  test('starts a new counter for another window, unless the limit has a name of its own', async () => {
    const named = (max: number, window: string) => perUser([{ max, window, name: 'main' }])
    const { limiter } = limiterOf(named(10, '1m'))
    limiter.checkSync(user('u1', 10))
    limiter.setRules(named(100, '1h'))
    expect((await limiter.peek(user('u1'))).remaining).toBe(90)
    limiter.setRules(perUser(['100/hour']))
    expect((await limiter.peek(user('u1'))).remaining).toBe(100)
  })

  test('replaces nothing when the rules have errors, and names them all', () => {
    const { limiter } = limiterOf(perUser(['1/second']))
    limiter.checkSync(user('u1'))
    const bad = perUser(['x'], { mdoe: 'shadow' })
    expect(() => limiter.setRules(bad)).toThrow(RulesError)
    try {
      limiter.setRules(bad)
    } catch (error) {
      expect((error as RulesError).problems).toHaveLength(2)
      expect((error as RulesError).message).toMatch(/^2 errors in the rules\n/)
    }
    expect(limiter.checkSync(user('u1')).allowed).toBe(false)
  })

  test('takes YAML text and returns warnings', () => {
    const { limiter } = limiterOf('rules:\n  - { id: a, by: [path], limits: [10/second] }\n')
    expect(limiter.checkSync(call({ path: '/x' })).remaining).toBe(9)
    expect(limiter.setRules('- { id: a, by: [path], limits: [10/second] }').length).toBe(1)
  })
})

describe('a limiter', () => {
  const failing: Store = {
    take: async () => Promise.reject(new Error('connection lost')),
    peek: async () => Promise.reject(new Error('connection lost')),
    give: async () => {},
    charge: async () => {},
    reset: async () => {},
    close: async () => {},
  }

  test('rejects with a code when its store fails, and cannot decide at once without one in process', async () => {
    const limiter = createLimiter({ rules: perUser(['1/second']), store: failing })
    await expect(limiter.check(user('u1'))).rejects.toMatchObject({
      code: 'STORE_FAILED',
      status: 503,
      cause: new Error('connection lost'),
    })
    expect(() => limiter.checkSync(user('u1'))).toThrow(SluiceError)
  })

  test('decides through a store that answers later', async () => {
    const { take, peek, give, charge, reset, close } = memoryStore()
    const store = { take, peek, give, charge, reset, close }
    const limiter = createLimiter({ rules: perUser(['1/hour']), store })
    expect((await limiter.check(user('u1'))).allowed).toBe(true)
    expect((await limiter.check(user('u1'), { receipt: true })).allowed).toBe(false)
  })

  test('that was closed says so', async () => {
    const { limiter } = limiterOf(perUser(['1/second']))
    await limiter.close()
    await limiter.close()
    expect(() => limiter.checkSync(user('u1'))).toThrow(/closed/)
    await expect(limiter.check(user('u1'))).rejects.toMatchObject({ code: 'LIMITER_CLOSED' })
    expect(() => limiter.setRules([])).toThrow(/closed/)
  })

  test.each([
    [{ secret: new Uint8Array(8) }, /secret: found 8 bytes; accepted: 16/],
    [{ ipv6Prefix: 128 }, /ipv6Prefix: found 128; accepted: a whole number from 32 to 64/],
  ])('is not made with %o', (options, message) => {
    expect(() => createLimiter({ rules: [], ...options })).toThrow(message)
  })
})
