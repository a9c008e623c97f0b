import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseRules } from '../rules/parse-rules.js'
import { sipKey } from '../sip-hash.js'
import { compileRules } from './compile.js'
import type { Snapshot } from './compiled.js'
import { explainMatches } from './explain-matches.js'
import { matchRules } from './match.js'
import { propertyRuns } from '../../../../tools/property-runs.js'

const secret = sipKey(new Uint8Array(16))

function compile(source: object, ipv6Prefix?: number): Snapshot {
  const { rules, errors } = parseRules(source)
  if (rules === undefined) throw new Error(errors.map(({ message }) => message).join('\n'))
  return compileRules(rules, { secret, ...(ipv6Prefix === undefined ? {} : { ipv6Prefix }) })
}

const rule = (id: string, more: object = {}) => ({ id, by: [], limits: ['1/second'], ...more })

function idsOf(
  snapshot: Snapshot,
  attributes: Record<string, string | number | boolean>,
): string[] {
  return matchRules(snapshot, { attributes }).map((matched) => matched.rule.rule.id)
}

describe('a rule matches', () => {
  const snapshot = compile({
    rules: [
      rule('every-call'),
      rule('get-order', { match: { method: ['GET'], path: '/v1/orders/:id' } }),
      rule('below-admin', { match: { path: '/admin/*' } }),
      rule('free-plan', { match: { where: { plan: ['free', 'trial'] } } }),
      rule('anonymous', { match: { where: { user: null } }, by: ['ip'] }),
      rule('office', { match: { where: { ip: ['203.0.113.0/24', '2001:db8::/32'] } } }),
      rule('by-user', { by: ['user'] }),
    ],
  })

  test.each([
    [{ user: 'u1' }, ['every-call', 'by-user']],
    [{ user: 'u1', method: 'GET', path: '/v1/orders/7' }, ['every-call', 'get-order', 'by-user']],
    [{ user: 'u1', method: 'get', path: '/V1/Orders/7/' }, ['every-call', 'get-order', 'by-user']],
    [
      { user: 'u1', method: 'GET', path: '/v1/orders/7?x=1' },
      ['every-call', 'get-order', 'by-user'],
    ],
    [{ user: 'u1', method: 'POST', path: '/v1/orders/7' }, ['every-call', 'by-user']],
    [{ user: 'u1', path: '/v1/orders' }, ['every-call', 'by-user']],
    [{ user: 'u1', path: '/admin' }, ['every-call', 'by-user']],
    [{ user: 'u1', path: '/admin/users/3' }, ['every-call', 'below-admin', 'by-user']],
    [{ user: 'u1', plan: 'trial' }, ['every-call', 'free-plan', 'by-user']],
    [{ user: '', ip: '198.51.100.7' }, ['every-call', 'anonymous']],
    [{ user: 'u1', ip: '::ffff:203.0.113.9' }, ['every-call', 'office', 'by-user']],
    [{ user: 'u1', ip: '2001:db8:1::5' }, ['every-call', 'office', 'by-user']],
    [{ user: 'u1', ip: '2001:db9::5' }, ['every-call', 'by-user']],
    [{ user: 17 }, ['every-call', 'by-user']],
  ])('%o: %o', (attributes, ids) => {
    expect(idsOf(snapshot, attributes)).toEqual(ids)
  })

  test('by own properties only', () => {
    const odd = compile({ rules: [rule('odd', { by: ['constructor'] })] })
    expect(idsOf(odd, {})).toEqual([])
    expect(idsOf(odd, { constructor: 'x' })).toEqual(['odd'])
  })

  test('only the exact spelling of strict paths', () => {
    const strict = compile({
      strictPaths: true,
      rules: [
        rule('login', { match: { path: '/login' } }),
        rule('slash', { match: { path: '/a/' } }),
      ],
    })
    expect(idsOf(strict, { path: '/login' })).toEqual(['login'])
    expect(idsOf(strict, { path: '/Login' })).toEqual([])
    expect(idsOf(strict, { path: '/login/' })).toEqual([])
    expect(idsOf(strict, { path: '/a/' })).toEqual(['slash'])
    expect(idsOf(strict, { path: '/a' })).toEqual([])
  })

  test('never a path that servers read in different ways', () => {
    expect(() => idsOf(snapshot, { path: '//v1/orders/7' })).toThrow(/path .*doubled slash/)
  })
})

describe('callers', () => {
  const by = (names: string[], attributes: Record<string, string>, prefix?: number) => {
    const snapshot = compile({ rules: [rule('r', { by: names })] }, prefix)
    return matchRules(snapshot, { attributes })[0]?.caller
  }

  test('are distinguished by their values in the order of `by`', () => {
    expect(by(['user', 'ip'], { user: 'a', ip: 'b' })).toEqual(
      by(['user', 'ip'], { ip: 'b', user: 'a' }),
    )
    expect(by(['a', 'b'], { a: 'x_y', b: 'z' })).not.toEqual(by(['a', 'b'], { a: 'x', b: 'y_z' }))
  })

  test('in one IPv6 network are the same, and so are all notations of one address', () => {
    const base = by(['ip'], { ip: '2001:db8:1:2::1' })
    expect(by(['ip'], { ip: '2001:DB8:1:2:ffff:0:0:9' })).toEqual(base)
    expect(by(['ip'], { ip: '2001:db8:1:2::/64' })).toEqual(base)
    expect(by(['ip'], { ip: '2001:db8:1:3::1' })).not.toEqual(base)
    expect(by(['ip'], { ip: '2001:db8:1:3::1' }, 48)).toEqual(
      by(['ip'], { ip: '2001:db8:1:2::1' }, 48),
    )
    expect(by(['ip'], { ip: '::ffff:1.2.3.4' })).toEqual(by(['ip'], { ip: '1.2.3.4' }))
  })

  test('with a value that is too long are refused, not truncated', () => {
    expect(() => by(['user'], { user: 'x'.repeat(8193) })).toThrow(/attribute user: found 8193/)
  })
})

describe('limits of a caller', () => {
  const snapshot = compile({
    rules: [
      {
        id: 'r',
        by: ['user'],
        limits: ['1/second'],
        tiers: { plan: { pro: ['10/second'], partner: [] } },
        overrides: [
          { caller: { user: 'vip' }, limits: ['100/second'] },
          { caller: { user: 'guest' }, limits: [], until: '2026-06-01T00:00:00Z' },
        ],
        candidate: { limits: ['5/second'], tiers: { plan: { pro: ['7/second'] } } },
      },
    ],
  })
  const maxOf = (attributes: Record<string, string>, wallMs = 0) => {
    const [matched] = matchRules(snapshot, { attributes }, wallMs)
    const max = (
      limits: typeof matched extends undefined
        ? never
        : readonly { limit: { max: number } }[] | undefined,
    ) => limits?.map(({ limit }) => limit.max)
    return [max(matched?.limits), max(matched?.candidate)]
  }

  test.each([
    [{ user: 'u1' }, [[1], [5]]],
    [{ user: 'u1', plan: 'unknown' }, [[1], [5]]],
    [{ user: 'u1', plan: 'pro' }, [[10], [7]]],
    [{ user: 'u1', plan: 'partner' }, [[], [5]]],
    [{ user: 'vip', plan: 'pro' }, [[100], undefined]],
  ])('come from its override, else its tier, else the rule: %o', (attributes, expected) => {
    expect(maxOf(attributes)).toEqual(expected)
  })

  test('come from an override until it ends', () => {
    const end = Date.parse('2026-06-01T00:00:00Z')
    expect(maxOf({ user: 'guest' }, end - 1)).toEqual([[], undefined])
    expect(maxOf({ user: 'guest' }, end)).toEqual([[1], [5]])
  })

  test('come from an override by address in any notation', () => {
    const byIp = compile({
      rules: [
        {
          id: 'r',
          by: ['ip'],
          limits: ['1/second'],
          overrides: [
            { caller: { ip: '::ffff:192.0.2.7' }, limits: ['2/second'] },
            { caller: { ip: '2001:DB8:0:0:1::9' }, limits: ['3/second'] },
          ],
        },
      ],
    })
    const max = (ip: string) => matchRules(byIp, { attributes: { ip } })[0]?.limits[0]?.limit.max
    expect([max('192.0.2.7'), max('2001:db8::5'), max('192.0.2.8')]).toEqual([2, 3, 1])
  })

  test('come from a tier by method, path or address in any notation', () => {
    const tiers = [
      [{ method: { get: ['9/second'] } }, { method: 'GET' }],
      [{ path: { '/V1/X/': ['9/second'] } }, { path: '/v1/x' }],
      [{ ip: { '::ffff:192.0.2.7': ['9/second'] } }, { ip: '192.0.2.7' }],
    ] as const
    for (const [tier, attributes] of tiers) {
      const tiered = compile({ rules: [rule('r', { tiers: tier })] })
      expect(matchRules(tiered, { attributes })[0]?.limits[0]?.limit.max).toBe(9)
    }
  })

  test('share a seed by name across tiers; a candidate has its own', () => {
    const seedOf = (attributes: Record<string, string>) => matchRules(snapshot, { attributes })[0]
    const base = seedOf({ user: 'u1' })
    const seed = (limit: { hi: number; lo: number } | undefined) => [limit?.hi, limit?.lo]
    const pro = seedOf({ user: 'u1', plan: 'pro' })
    expect(seed(pro?.limits[0])).toEqual(seed(base?.limits[0]))
    expect(seed(base?.candidate?.[0])).not.toEqual(seed(base?.limits[0]))
  })
})

describe('routes', () => {
  const snapshot = compile({
    routes: ['GET /v1/orders/:id', '/v1/orders/:id', '/v1/orders/new', '/v1/*', 'POST /v1/login'],
    rules: [
      rule('r', { by: ['route'] }),
      rule('new', { match: { where: { route: '/v1/orders/new' } } }),
    ],
  })
  const names = new Map(
    ['GET /v1/orders/:id', '/v1/orders/:id', '/v1/orders/new', '/v1/*', 'POST /v1/login'].map(
      (route) => [
        JSON.stringify(matchRules(snapshot, { attributes: { route } })[0]?.caller),
        route,
      ],
    ),
  )
  const routeOf = (method: string, path: string) =>
    names.get(JSON.stringify(matchRules(snapshot, { attributes: { method, path } })[0]?.caller))

  test.each([
    ['GET', '/v1/orders/7', 'GET /v1/orders/:id'],
    ['PUT', '/v1/orders/7', '/v1/orders/:id'],
    ['GET', '/v1/orders/new', '/v1/orders/new'],
    ['POST', '/V1/Login/', 'POST /v1/login'],
    ['GET', '/v1/login', '/v1/*'],
    ['GET', '/v2', undefined],
  ])('%s %s takes %s', (method, path, route) => {
    expect(routeOf(method, path)).toBe(route)
  })
})

describe('the index', () => {
  const segment = fc.constantFrom('a', 'b', 'C', ':x')
  const path = fc
    .tuple(fc.array(segment, { maxLength: 3 }), fc.constantFrom('', '/*', '/'))
    .map(([segments, end]) => `/${segments.join('/')}${segments.length === 0 ? '' : end}`)
  const value = fc.constantFrom('1', '2', '3')
  const where = fc.dictionary(
    fc.constantFrom('plan', 'tenant', 'user'),
    fc.oneof(fc.constant(null), value, fc.uniqueArray(value, { minLength: 1 })),
  )
  const networks = fc.constantFrom(
    ['10.0.0.0/8'],
    ['10.1.0.0/16', '192.0.2.0/24'],
    ['2001:db8::/32'],
  )
  const match = fc.record(
    {
      path,
      method: fc.uniqueArray(fc.constantFrom('GET', 'POST', 'PUT'), { minLength: 1 }),
      where: fc
        .tuple(where, fc.option(networks, { nil: undefined }))
        .map(([equal, ip]) => (ip === undefined ? equal : { ...equal, ip })),
    },
    { requiredKeys: [] },
  )
  const rules = fc
    .array(
      fc.record({
        match,
        mode: fc.constantFrom('enforce', 'shadow', 'off'),
        by: fc.constantFrom([], ['user'], ['ip']),
      }),
      { maxLength: 12 },
    )
    .map((list) => list.map((each, index) => rule(`r${index}`, each)))
  const attributes = fc.record(
    {
      method: fc.constantFrom('GET', 'POST', 'DELETE'),
      path: fc
        .array(fc.constantFrom('a', 'B', 'c', 'd'), { maxLength: 4 })
        .map((segments) => `/${segments.join('/')}`),
      plan: value,
      tenant: value,
      user: value,
      ip: fc.constantFrom('10.1.2.3', '10.9.9.9', '192.0.2.1', '2001:db8::1', '::1', 'nonsense'),
    },
    { requiredKeys: [] },
  )

  test('finds exactly the rules that match one by one, in the order of the set', () => {
    fc.assert(
      fc.property(rules, fc.boolean(), attributes, (list, strictPaths, call) => {
        const parsed = parseRules({ strictPaths, rules: list })
        fc.pre(parsed.rules !== undefined)
        const snapshot = compile({ strictPaths, rules: list })
        const plain = explainMatches(snapshot, { attributes: call })
        const expected = plain.filter(({ matched }) => matched).map(({ rule: id }) => id)
        expect(idsOf(snapshot, call)).toEqual(expected)
      }),
      { numRuns: propertyRuns(2000) },
    )
  })
})

describe('explain', () => {
  const snapshot = compile({
    rules: [
      rule('post', { match: { method: ['POST', 'PUT'] } }),
      rule('path', { match: { path: '/a/:b' } }),
      rule('plan', { match: { where: { plan: ['pro', 'free'] } } }),
      rule('nobody', { match: { where: { user: null } } }),
      rule('user', { by: ['user', 'tenant'] }),
      rule('off', { mode: 'off' }),
    ],
  })

  test('states why each rule did not match', () => {
    const attributes = { method: 'GET', path: '/x', user: 'u\n1' }
    expect(explainMatches(snapshot, { attributes }).map(({ why }) => why)).toEqual([
      'method is "GET", not POST or PUT',
      'path is "/x", which /a/:b does not match',
      'plan is absent, not "pro" or "free"',
      'user is "u\\u000a1", not absent',
      'it counts by tenant, which is absent',
      'its mode is off',
    ])
  })
})

describe('HEAD', () => {
  const rules = [
    { id: 'get', match: { method: 'GET' }, limits: ['1/second'] },
    { id: 'post', match: { method: 'POST' }, limits: ['1/second'] },
    { id: 'route', by: ['route'], limits: ['1/second'] },
  ]
  const ids = (routes: string[], method: string) => {
    const snapshot = compile({ routes, rules })
    const matched = matchRules(snapshot, { attributes: { method, path: '/a' } })
    return { ids: matched.map(({ rule: { id } }) => id), route: snapshot.routeOf(method, '/a') }
  }

  test('matches the rules and the route of GET', () => {
    expect(ids(['GET /a'], 'HEAD')).toEqual({ ids: ['get', 'route'], route: 'GET /a' })
    expect(ids(['GET /a'], 'POST')).toEqual({ ids: ['post'], route: undefined })
  })

  test('prefers its own route to that of GET, in any order', () => {
    for (const routes of [
      ['GET /a', 'HEAD /a'],
      ['HEAD /a', 'GET /a'],
    ]) {
      expect([ids(routes, 'HEAD').route, ids(routes, 'GET').route]).toEqual(['HEAD /a', 'GET /a'])
    }
  })
})
