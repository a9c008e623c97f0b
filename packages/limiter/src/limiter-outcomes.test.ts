import { type Decision, formatHash, readNormalized, type RuleOutcome } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { call, limiterOf, user } from './limiter.test-helper.js'

function outcomes(decision: Decision): readonly (readonly [string, RuleOutcome])[] {
  const found: [string, RuleOutcome][] = []
  decision.eachRule((rule, outcome) => found.push([rule, outcome]))
  return found
}

describe('rule outcomes of a decision', () => {
  const rules = [
    { id: 'tight', by: ['user'], limits: ['1/minute', '1/hour'] },
    { id: 'wide', by: ['user'], limits: ['9/minute'], candidate: { limits: ['1/hour'] } },
    { id: 'free', by: ['user'], limits: ['1/minute'], tiers: { plan: { pro: [] } } },
    { id: 'trial', by: ['user'], limits: ['1/day'], mode: 'shadow' },
    { id: 'other', match: { path: '/else' }, by: ['user'], limits: ['1/day'] },
  ]

  test('a decision lists each rule once, with its own outcome', () => {
    const { limiter } = limiterOf(rules)
    const pro = call({ user: 'u1', plan: 'pro' })
    expect(outcomes(limiter.checkSync(pro))).toEqual([
      ['tight', 'allowed'],
      ['wide', 'allowed'],
      ['wide:candidate', 'allowed'],
      ['free', 'allowed'],
      ['trial', 'allowed'],
    ])
    // Shadow rules do not judge a refused call, so there is no outcome.
    expect(outcomes(limiter.checkSync(pro))).toEqual([
      ['tight', 'refused'],
      ['wide', 'allowed'],
      ['free', 'allowed'],
    ])
  })

  test('a decision lists each shadow rule with what it would have refused', () => {
    const { limiter } = limiterOf(rules.slice(1))
    const pro = call({ user: 'u1', plan: 'pro' })
    limiter.checkSync(pro)
    expect(outcomes(limiter.checkSync(pro))).toEqual([
      ['wide', 'allowed'],
      ['wide:candidate', 'shadow_refused'],
      ['free', 'allowed'],
      ['trial', 'shadow_refused'],
    ])
  })

  test('a decision of an unmatched call lists one rule with an empty name', () => {
    const decision = limiterOf(rules).limiter.checkSync(call({}))
    expect(outcomes(decision)).toEqual([['', 'allowed']])
    expect(decision.bound()).toBeUndefined()
  })

  test('a decision lists the caller of each rule by the hash that explain shows', async () => {
    const { limiter } = limiterOf(rules)
    const bound = limiter.checkSync(user('u1')).bound()
    expect(bound).toEqual({
      rule: 'tight',
      by: ['user'],
      call: expect.objectContaining({ attributes: { user: 'u1' } }) as object,
      caller: expect.stringMatching(/^[0-9a-f]{16}$/),
    })
    const { explain } = await limiter.explain(user('u1'))
    expect(explain?.find(({ rule }) => rule === 'tight')?.caller).toBe(bound?.caller)
    expect(explain?.find(({ rule }) => rule === 'other')?.caller).toBeNull()
    expect(limiter.checkSync(user('u2')).bound()?.caller).not.toBe(bound?.caller)
  })
})

describe('shadow tags', () => {
  const shadow = { by: ['user'], limits: ['1/day'], mode: 'shadow' }

  test('the tag names the shadow rules with a tag that would have refused', () => {
    const { limiter } = limiterOf([
      { id: 'quiet', ...shadow },
      { id: 'tagged', ...shadow, tag: true },
    ])
    expect(limiter.checkSync(user('u1')).tags()).toEqual([])
    const second = limiter.checkSync(user('u1'))
    expect([second.shadow, second.tags()]).toEqual([['quiet', 'tagged'], ['tagged']])
  })

  test('the tag is absent for a rule that refuses the call itself', () => {
    const { limiter } = limiterOf([{ id: 'tagged', ...shadow, mode: 'enforce', tag: true }])
    limiter.checkSync(user('u1'))
    expect(limiter.checkSync(user('u1')).tags()).toEqual([])
  })
})

describe('WebSocket messages', () => {
  const requests = { id: 'requests', by: ['user'], limits: ['1/minute'] }
  const chat = {
    id: 'chat',
    match: { method: 'MESSAGE', path: '/chat' },
    by: ['user'],
    limits: ['2/minute'],
  }
  const message = call({ user: 'u1', method: 'MESSAGE', path: '/chat' })

  test('WebSocket messages match only rules that name them', () => {
    const { limiter } = limiterOf([requests, chat])
    expect(limiter.countsMessages).toBe(true)
    const allowed = [1, 2, 3].map(() => limiter.checkSync(message))
    expect(allowed.map(({ rule, remaining }) => [rule, remaining])).toEqual([
      ['chat', 1],
      ['chat', 0],
      ['chat', 0],
    ])
    expect(limiter.checkSync(call({ user: 'u1', method: 'GET', path: '/chat' })).rule).toBe(
      'requests',
    )
  })

  test('WebSocket messages match no rule if none names them, and explain shows why', async () => {
    const { limiter } = limiterOf([requests])
    expect(limiter.countsMessages).toBe(false)
    expect(limiter.checkSync(message).reason).toBe('unmatched')
    const { explain } = await limiter.explain(message)
    expect(explain?.[0]?.why).toBe('method is "MESSAGE", which only a rule that names it matches')
  })
})

describe('WebSocket messages in other cases', () => {
  const requests = { id: 'requests', by: ['user'], limits: ['1/minute'] }
  const chat = { id: 'chat', match: { method: 'MESSAGE' }, by: ['user'], limits: ['2/minute'] }

  test.each(['message', 'Message'])(
    'a call of the method %s is a message and matches no other rule',
    async (method) => {
      const message = call({ user: 'u1', method })
      expect(outcomes(limiterOf([requests, chat]).limiter.checkSync(message))).toEqual([
        ['chat', 'allowed'],
      ])
      const { limiter } = limiterOf([requests])
      expect(limiter.checkSync(message).reason).toBe('unmatched')
      const { explain } = await limiter.explain(message)
      expect(explain?.[0]?.why).toBe('method is "MESSAGE", which only a rule that names it matches')
    },
  )
})

describe('limits', () => {
  const rules = [
    { id: 'orders', match: { method: 'GET', path: '/orders' }, by: ['user'], limits: ['5/minute'] },
    { id: 'pro-only', match: { where: { plan: 'pro' } }, by: ['user'], limits: ['9/minute'] },
    { id: 'address', match: { where: { user: null } }, by: ['ip'], limits: ['7/minute'] },
    { id: 'by-route', by: ['route'], limits: ['7/minute'] },
    { id: 'trial', by: ['user'], limits: ['1/minute'], mode: 'shadow' },
    { id: 'all', by: [], limits: ['100/minute'], cost: { attribute: 'tokens' } },
  ]

  test('`limits` lists every enforced limit that counts the caller, and charges nothing', async () => {
    const { limiter } = limiterOf(rules)
    limiter.checkSync(call({ user: 'u1', method: 'GET', path: '/orders' }))
    for (let round = 0; round < 3; round++) {
      const shownLimits = await limiter.limits(call({ user: 'u1', ip: '192.0.2.1', tokens: '7' }))
      expect(shownLimits.map(({ rule, limit, remaining }) => [rule, limit, remaining])).toEqual([
        ['orders', 5, 4],
        ['all', 100, 99],
      ])
    }
    const anonymous = await limiter.limits(call({ ip: '192.0.2.1' }))
    expect(anonymous.map(({ rule }) => rule)).toEqual(['address', 'all'])
  })
})

describe('limits of rules that count by route', () => {
  const routes = ['GET /orders/:id', 'POST /login', '/admin/*', '/', '/*']
  const shownLimits = async (
    rules: object[],
    attributes: Record<string, string>,
    used: object[] = [],
  ) => {
    const { limiter } = limiterOf({ routes, rules })
    for (const each of used) limiter.checkSync(call(each as Record<string, string>))
    const limits = await limiter.limits(call(attributes))
    expect(await limiter.limits(call(attributes))).toEqual(limits)
    return limits.map(({ rule, route, remaining }) => [rule, route, remaining])
  }
  const byRoute = { id: 'by-route', by: ['ip', 'route'], limits: ['7/minute'] }
  const ip = '192.0.2.1'

  test('limits of rules that count by route are listed last, for each route with what is left on it', async () => {
    const all = { id: 'all', by: [], limits: ['100/minute'] }
    const used = [
      { ip, method: 'GET', path: '/orders/1' },
      { ip, method: 'GET', path: '/orders/2' },
      { ip, method: 'POST', path: '/login' },
      { ip: '192.0.2.9', method: 'POST', path: '/login' },
    ]
    expect(await shownLimits([byRoute, all], { ip }, used)).toEqual([
      ['all', undefined, 96],
      ['by-route', 'GET /orders/:id', 5],
      ['by-route', 'POST /login', 6],
      ['by-route', '/admin/*', 7],
      ['by-route', '/', 7],
      ['by-route', '/*', 7],
    ])
  })

  test('limits of rules that count by route are listed for the one route that the call names or its path has', async () => {
    const login = ['by-route', 'POST /login', 7]
    expect(await shownLimits([byRoute], { ip, route: 'POST /login' })).toEqual([login])
    expect(await shownLimits([byRoute], { ip, method: 'POST', path: '/LOGIN/' })).toEqual([login])
  })

  test.each([
    ['a method', { method: 'POST' }, ['POST /login', '/admin/*', '/', '/*']],
    ['HEAD', { method: 'HEAD' }, ['GET /orders/:id', '/admin/*', '/', '/*']],
    ['one path', { path: '/Orders/7' }, ['GET /orders/:id', '/*']],
    ['one path and method', { method: 'GET', path: '/orders/7' }, ['GET /orders/:id']],
    ['a path with a parameter', { path: '/admin/:page' }, ['/admin/*', '/*']],
    ['paths below another', { path: '/orders/*' }, ['GET /orders/:id', '/*']],
    ['the root', { path: '/' }, ['/']],
    [
      'routes that it names',
      { where: { route: ['/', 'POST /login', 'GET /gone'] } },
      ['POST /login', '/'],
    ],
    [
      'routes that it leaves out',
      { where: { route: { not: ['/', '/*'] } } },
      ['GET /orders/:id', 'POST /login', '/admin/*'],
    ],
    ['another user', { where: { user: 'ann' } }, []],
  ])(
    'limits of rules that count by route are listed for the routes that the rule can match: for %s',
    async (_name, match, expected) => {
      const found = await shownLimits([{ ...byRoute, match }], { ip })
      expect(new Set(found.map(([, route]) => route))).toEqual(new Set(expected))
      expect(found).toHaveLength(expected.length)
    },
  )

  test('limits of rules that match routes but count them together are listed once', async () => {
    const match = { where: { route: ['POST /login', '/admin/*'] } }
    const rule = { id: 'doors', match, by: ['ip'], limits: ['7/minute'] }
    const used = [
      { ip, method: 'POST', path: '/login' },
      { ip, method: 'GET', path: '/admin/x' },
      { ip, method: 'GET', path: '/else' },
    ]
    expect(await shownLimits([rule], { ip }, used)).toEqual([['doors', undefined, 5]])
  })

  test('limits of rules that count by route are not listed without routes, or in shadow', async () => {
    const { limiter } = limiterOf([byRoute])
    expect(await limiter.limits(call({ ip }))).toEqual([])
    expect(await shownLimits([{ ...byRoute, mode: 'shadow' }], { ip })).toEqual([])
  })

  test('limits of rules that count by route are at most 1,000, and rules of other kinds are among them', async () => {
    const many = Array.from({ length: 1000 }, (_, index) => `/r${index}/*`)
    const rules = [
      { ...byRoute, limits: ['7/minute', '70/hour'] },
      { ...byRoute, id: 'second' },
      { id: 'all', by: [], limits: ['100/minute'] },
    ]
    const { limiter } = limiterOf({ routes: many, rules })
    const limits = await limiter.limits(call({ ip }))
    expect(limits).toHaveLength(1000)
    expect(limits[0]).toMatchObject({ rule: 'all' })
    expect(limits[999]).toMatchObject({ rule: 'by-route', route: '/r499/*' })
  })
})

describe('receipts only for delayed calls', () => {
  test('a receipt if delayed is set only for a call that is delayed', () => {
    const { limiter } = limiterOf([
      { id: 'paced', by: ['user'], limits: [{ max: 1, window: '1s', wait: '1s' }] },
    ])
    const options = { receipt: 'if-delayed' } as const
    expect(limiter.checkSync(user('u1'), options)).not.toHaveProperty('receipt')
    expect(limiter.checkSync(user('u1'), options).receipt).toEqual(expect.any(String))
    expect(limiter.checkSync(user('u1'), options)).toMatchObject({ allowed: false })
  })
})

describe('callers of a decision', () => {
  type OutcomeRow = readonly [rule: string, by: string, outcome: RuleOutcome, left: number]
  const rowsOf = (decision: Decision): readonly OutcomeRow[] => {
    const found: OutcomeRow[] = []
    decision.eachCaller((rule, by, _caller, outcome, left) => {
      found.push([rule, by.join(), outcome, left])
    })
    return found
  }
  const rules = [
    { id: 'two', by: ['user'], limits: ['4/minute', '10/hour'] },
    { id: 'none', by: ['user'], limits: ['1/minute'], tiers: { plan: { pro: [] } } },
    { id: 'trial', by: ['ip'], limits: ['1/day'], mode: 'shadow' },
    { id: 'all', by: [], limits: ['2/day'], candidate: { limits: ['1/day'] } },
  ]
  const pro = call({ user: 'u1', plan: 'pro', ip: '192.0.2.1' })

  test('a decision lists the caller of each rule with the smallest share left; for a shadow rule it is unknown', () => {
    const { limiter } = limiterOf(rules)
    expect(rowsOf(limiter.checkSync(pro))).toEqual([
      ['two', 'user', 'allowed', 0.75],
      ['none', 'user', 'allowed', 1],
      ['trial', 'ip', 'allowed', -1],
      ['all', '', 'allowed', 0.5],
    ])
    limiter.checkSync(pro)
    expect(rowsOf(limiter.checkSync(pro))).toEqual([
      ['two', 'user', 'allowed', 0.5],
      ['none', 'user', 'allowed', 1],
      ['all', '', 'refused', 0],
    ])
  })

  test('a decision lists no share left for a limit of 0', () => {
    const { limiter } = limiterOf([
      { id: 'ban', by: ['user'], limits: [{ max: 0, window: '1s' }, '10/hour'] },
    ])
    expect(rowsOf(limiter.checkSync(user('u1')))).toEqual([['ban', 'user', 'refused', -1]])
  })

  test('a decision lists the caller of each rule by the hash that logs show', () => {
    const { limiter } = limiterOf(rules)
    const decision = limiter.checkSync(pro)
    const hashes = new Map<string, string>()
    decision.eachCaller((rule, _by, caller) => hashes.set(rule, formatHash(caller)))
    expect(hashes.get('all')).toBe(decision.bound()?.caller)
    expect(hashes.get('two')).not.toBe(hashes.get('trial'))
  })

  test('a decision lists the caller as the rule counted it: its route, the network of its address, its method in capitals', () => {
    const { limiter } = limiterOf({
      routes: ['GET /v1/orders/:id'],
      rules: [{ id: 'routed', by: ['route', 'ip', 'method'], limits: ['1/minute'] }],
    })
    const attributes = { method: 'get', path: '/v1/Orders/7?x=1', ip: '2001:db8::7' }
    const decision = limiter.checkSync({ attributes })
    const values: unknown[] = []
    decision.eachCaller((_rule, by, _caller, _outcome, _left, _cost, counted) => {
      values.push(by.map((name) => readNormalized(counted, name)))
    })
    expect(values).toEqual([['GET /v1/orders/:id', '2001:db8::/64', 'GET']])
    expect(decision.bound()?.call.route).toBe('GET /v1/orders/:id')
  })

  test('a decision lists when the empty limits of a caller are full again', () => {
    const { limiter } = limiterOf([
      {
        id: 'two',
        by: ['user'],
        limits: [
          { algorithm: 'token-bucket', max: 1, window: '2s' },
          { algorithm: 'token-bucket', max: 100, window: '1h' },
        ],
      },
      {
        id: 'ban',
        match: { where: { user: 'u2' } },
        by: ['user'],
        limits: [{ max: 0, window: '1d' }],
      },
    ])
    const resets = (decision: Decision) => {
      const found: number[] = []
      decision.eachCaller((_rule, _by, _caller, _outcome, _left, _cost, _call, resetAfterMs) => {
        found.push(resetAfterMs)
      })
      return found
    }
    expect(resets(limiter.checkSync(user('u1')))).toEqual([2000])
    expect(resets(limiter.checkSync(user('u1')))).toEqual([2000])
    expect(resets(limiter.checkSync(user('u2')))).toEqual([0, 0])
  })

  test('a decision lists no caller if no rule matched', () => {
    expect(rowsOf(limiterOf([]).limiter.checkSync(pro))).toEqual([])
  })
})
