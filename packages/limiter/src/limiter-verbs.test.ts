import { describe, expect, test } from 'vitest'
import { createLimiter, memoryStore, RulesError, SluiceError, type Store } from './index.js'
import { call, limiterOf, perUser, user } from './limiter.test-helper.js'

describe('peek and explain', () => {
  test('peek and explain charge nothing', async () => {
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

  test('a refund gives back exactly what a receipt took, once', async () => {
    const { limiter } = limiterOf(perUser(hourly(10)))
    limiter.checkSync(user('u1', 2))
    const { receipt = '' } = limiter.checkSync(user('u1', 5), { receipt: true })
    await limiter.refund(receipt)
    await limiter.refund(receipt)
    expect((await limiter.peek(user('u1'))).remaining).toBe(8)
  })

  test('a refund distinguishes two calls that took the same at the same instant', async () => {
    const { limiter } = limiterOf(perUser(hourly(10)))
    const receipts = [1, 2].map(
      () => limiter.checkSync(user('u1'), { receipt: true }).receipt ?? '',
    )
    for (const receipt of receipts) await limiter.refund(receipt)
    expect((await limiter.peek(user('u1'))).remaining).toBe(10)
  })

  test('a refund never gives into another window', async () => {
    const { clock, limiter } = limiterOf(perUser(hourly(10)))
    const { receipt = '' } = limiter.checkSync(user('u1', 5), { receipt: true })
    clock.advance(3_600_000)
    limiter.checkSync(user('u1', 5))
    await limiter.refund(receipt)
    expect((await limiter.peek(user('u1'))).remaining).toBe(5)
  })

  test('a refund by attributes goes into the present window, never above full', async () => {
    const { limiter } = limiterOf(perUser(hourly(10)))
    limiter.checkSync(user('u1', 5))
    await limiter.refund(user('u1', 2))
    expect((await limiter.peek(user('u1'))).remaining).toBe(7)
    await limiter.refund(user('u1', 10))
    expect((await limiter.peek(user('u1'))).remaining).toBe(10)
  })

  test('a refund uses the limit that is active after a change of rules, and does nothing for a rule that is gone', async () => {
    const { limiter } = limiterOf(perUser(['10/hour']))
    const { receipt = '' } = limiter.checkSync(user('u1', 10), { receipt: true })
    limiter.setRules(perUser(['100/hour']))
    limiter.checkSync(user('u1', 50))
    await limiter.refund(receipt)
    expect((await limiter.peek(user('u1'))).remaining).toBe(50)
    limiter.setRules([])
    await expect(limiter.refund(receipt)).resolves.toBeUndefined()
  })

  test('a refund returns what shadow groups took too', async () => {
    const rules = perUser(['10/hour'], { candidate: { limits: ['1/hour'] } })
    const { limiter } = limiterOf(rules)
    const { receipt = '' } = limiter.checkSync(user('u1'), { receipt: true })
    await limiter.refund(receipt)
    expect(limiter.checkSync(user('u1')).shadow).toEqual([])
  })

  test('a refund of 1 gives back 1, whichever limit of that name is found', async () => {
    const pro = (max: number, burst: number) => ({
      tiers: { plan: { pro: [{ max, burst, window: '1m', name: 'x' }] } },
    })
    const base = [{ max: 10, window: '1m', name: 'x' }]
    const { limiter } = limiterOf(perUser(base, pro(10, 100)))
    const caller = call({ user: 'u1', plan: 'pro' })
    limiter.checkSync({ ...caller, cost: 79 })
    const { receipt = '' } = limiter.checkSync(caller, { receipt: true })
    limiter.setRules(perUser(base, pro(20, 200)))
    await limiter.refund(receipt)
    expect((await limiter.peek(caller)).remaining).toBe(121)
  })

  test('a refund that failed half-way gives back only the rest when it is tried again', async () => {
    const inner = memoryStore()
    let failures = 1
    const give: Store['give'] = async (one) => {
      if (one.limit.windowMs === 60_000 && failures-- > 0) throw new Error('connection lost')
      return inner.give(one)
    }
    const store: Store = { ...inner, sync: undefined, give }
    const limits = hourly(10).concat({ algorithm: 'fixed-window', max: 10, window: '1m' })
    const limiter = createLimiter({ rules: perUser(limits), store })
    await limiter.check(user('u1', 3))
    const { receipt = '' } = await limiter.check(user('u1', 6), { receipt: true })
    await expect(limiter.refund(receipt)).rejects.toMatchObject({ code: 'STORE_FAILED' })
    await limiter.refund(receipt)
    const left = (await limiter.peek(user('u1'))).policies().map(({ remaining }) => remaining)
    expect(left).toEqual([7, 7])
  })

  test('a receipt cannot be forged by a caller whose name looks like one', async () => {
    const { limiter } = limiterOf([{ id: 'r', by: ['user', 'device'], limits: hourly(10) }])
    const receiptOf = (device: string) => {
      const asked = call({ user: 'receipt', device })
      return (limiter.checkSync(asked, { receipt: true }).receipt ?? '').split('~')
    }
    const numbersOf = (text: string) => text.split('.').map((part) => Number.parseInt(part, 36))
    // The key of a caller is its hash and a seed of the limit; of two callers, the seed cancels
    // out.
    const keyOf = (entry = '') => numbersOf(entry.split('.').slice(3, 5).join('.'))
    const genuine = receiptOf('any')
    const body = genuine.slice(0, -1).join('~')
    const wanted = body.replace('1~', '1~z')
    const [known, target] = [keyOf(receiptOf(body)[2]), keyOf(receiptOf(wanted)[2])]
    const forged = numbersOf(genuine.at(-1) ?? '')
      .map((half, i) => ((half ^ (known[i] ?? 0) ^ (target[i] ?? 0)) >>> 0).toString(36))
      .join('.')
    await expect(limiter.refund(`${wanted}~${forged}`)).rejects.toMatchObject({
      code: 'RECEIPT_INVALID',
    })
  })

  test('a refund refuses receipts that are damaged, or of another deployment', async () => {
    const { limiter } = limiterOf(perUser(['10/hour']))
    const { receipt = '' } = limiter.checkSync(user('u1'), { receipt: true })
    const other = createLimiter({ rules: perUser(['10/hour']) })
    for (const bad of ['', '~', 'x', `${receipt}0`, receipt.replace('per-user', 'per-uses')]) {
      await expect(limiter.refund(bad)).rejects.toThrow(/receipt: /)
    }
    await expect(other.refund(receipt)).rejects.toMatchObject({ code: 'RECEIPT_INVALID' })
  })

  test('a refused decision has no receipt', () => {
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

  test('a reset forgets the counters of one caller, whatever path or tier, and no shared one', async () => {
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

  test('a reset of an unknown rule is an error', async () => {
    const { limiter } = limiterOf(rules)
    await expect(limiter.reset(user('u1'), { rule: 'typo' })).rejects.toMatchObject({
      code: 'RULE_UNKNOWN',
    })
  })

  test('a reset of a rule by name forgets that one, shared or not', async () => {
    const { limiter } = limiterOf(rules)
    limiter.checkSync(call({ user: 'u1', path: '/a' }))
    await limiter.reset(call({}), { rule: 'everybody' })
    const { explain = [] } = await limiter.explain(call({ user: 'u1', path: '/a' }))
    expect(explain.map(({ limits }) => limits[0]?.remaining)).toEqual([0, 0, 2])
  })
})

describe('setRules', () => {
  test('setRules keeps what was used when a limit is raised, lowered or moved to a tier', async () => {
    const { limiter } = limiterOf(perUser(['10/minute']))
    limiter.checkSync(user('u1', 10))
    limiter.setRules(perUser(['100/minute']))
    expect((await limiter.peek(user('u1'))).remaining).toBe(90)
    limiter.setRules(perUser(['5/minute']))
    expect((await limiter.peek(user('u1'))).remaining).toBe(0)
    limiter.setRules(perUser(['5/minute'], { tiers: { plan: { pro: ['20/minute'] } } }))
    expect((await limiter.peek(call({ user: 'u1', plan: 'pro' }))).remaining).toBe(10)
  })

  test('setRules starts a new counter for another window, unless the limit has a name of its own', async () => {
    const named = (max: number, window: string) => perUser([{ max, window, name: 'main' }])
    const { limiter } = limiterOf(named(10, '1m'))
    limiter.checkSync(user('u1', 10))
    limiter.setRules(named(100, '1h'))
    expect((await limiter.peek(user('u1'))).remaining).toBe(90)
    limiter.setRules(perUser(['100/hour']))
    expect((await limiter.peek(user('u1'))).remaining).toBe(100)
  })

  test('setRules replaces nothing when the rules have errors, and names them all', () => {
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

  test('setRules takes YAML text and returns warnings', () => {
    const { limiter } = limiterOf('rules:\n  - { id: a, by: [path], limits: [10/second] }\n')
    expect(limiter.checkSync(call({ path: '/x' })).remaining).toBe(9)
    expect(limiter.setRules('- { id: a, by: [path], limits: [10/second] }').length).toBe(1)
  })
})

describe('a limiter and its store', () => {
  const failing: Store = {
    take: async () => Promise.reject(new Error('connection lost')),
    peek: async () => Promise.reject(new Error('connection lost')),
    give: async () => {},
    charge: async () => {},
    reset: async () => {},
    close: async () => {},
  }

  test('a limiter whose store fails decides by posture, and has no checkSync', async () => {
    const limiter = createLimiter({ rules: perUser(['1/second']), store: failing })
    expect(await limiter.check(user('u1'))).toMatchObject({ allowed: true, source: 'posture' })
    expect(await limiter.check(user('u1'))).toMatchObject({ allowed: false, reason: 'posture' })
    expect(() => limiter.checkSync(user('u1'))).toThrow(SluiceError)
  })

  test('a limiter decides through a store that answers later', async () => {
    const store: Store = { ...memoryStore(), sync: undefined }
    const limiter = createLimiter({ rules: perUser(['1/hour']), store })
    expect((await limiter.check(user('u1'))).allowed).toBe(true)
    expect((await limiter.check(user('u1'), { receipt: true })).allowed).toBe(false)
  })

  test('a closed limiter rejects calls', async () => {
    const { limiter } = limiterOf(perUser(['1/second']))
    await limiter.close()
    await limiter.close()
    expect(() => limiter.checkSync(user('u1'))).toThrow(/closed/)
    await expect(limiter.check(user('u1'))).rejects.toMatchObject({ code: 'LIMITER_CLOSED' })
    expect(() => limiter.setRules([])).toThrow(/closed/)
  })

  test.each([
    [{ secret: new Uint8Array(8) }, /secret: found 8 bytes; accepted: 16 bytes/],
    [{ clock: {} as never }, /clock: found one without now; accepted: one with now/],
    [{ store: { take: () => {} } as never }, /store: found one without peek, give/],
    [{ ipv6Prefix: 128 }, /ipv6Prefix: found 128; accepted: a whole number from 32 to 64/],
  ])('a limiter is not created with %o', (options, message) => {
    expect(() => createLimiter({ rules: [], ...options })).toThrow(message)
  })
})
