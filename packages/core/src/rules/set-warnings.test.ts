import { describe, expect, test } from 'vitest'
import { parseRules } from './parse-rules.js'

/** Returns the rules that have a warning, with its code. */
function warningsOf(rules: readonly object[], strictPaths = false): readonly string[] {
  const filled = rules.map((rule, index) => ({ id: `r${index}`, limits: ['10/second'], ...rule }))
  const { errors, warnings } = parseRules({ strictPaths, rules: filled })
  expect(errors).toEqual([])
  return warnings.map(({ rule, code }) => `${rule} ${code}`)
}

describe('a rule that a caller can dodge by leaving an attribute out', () => {
  const byUser = { match: { method: ['GET'], path: '/v1/orders/:id' }, by: ['user'] }
  const dodged = ['r0 dodged-rule']
  const whereNoUser = (match: object) => ({
    match: { ...match, where: { user: null } },
    by: ['ip'],
  })

  test('gives a warning', () => {
    expect(warningsOf([byUser])).toEqual(dodged)
  })

  test.each([
    ['the same path', whereNoUser({ path: '/v1/orders/:id' })],
    ['the same path in another spelling', whereNoUser({ path: '/V1/orders/:order/' })],
    ['the same method and more', whereNoUser({ path: '/v1/orders/:id', method: ['PUT', 'GET'] })],
    ['a path above it', whereNoUser({ path: '/v1/*' })],
    ['every path', whereNoUser({})],
    ['every call', { by: ['ip'] }],
    ['all callers together', { by: [] }],
  ])('is covered by a rule for %s', (_, rule) => {
    expect(warningsOf([byUser, rule])).toEqual([])
  })

  test.each([
    ['another path', whereNoUser({ path: '/v1/carts/:id' })],
    ['a part of the path', whereNoUser({ path: '/v1/orders/1' })],
    ['paths below the path', whereNoUser({ path: '/v1/orders/:id/*' })],
    ['another method', whereNoUser({ method: 'POST' })],
    ['some callers only', { match: { where: { plan: 'free' } }, by: ['ip'] }],
    ['callers with a user only', { match: { where: { user: ['u1'] } }, by: ['ip'] }],
  ])('is not covered by a rule for %s', (_, rule) => {
    expect(warningsOf([byUser, rule])).toEqual(dodged)
  })

  test('is not covered by a rule that is not enforced or can be dodged as well', () => {
    expect(warningsOf([byUser, { by: ['ip'], mode: 'shadow' }])).toEqual(dodged)
    expect(warningsOf([byUser, { by: ['ip'], mode: 'off' }])).toEqual(dodged)
    expect(warningsOf([byUser, { by: ['session'] }])).toEqual([...dodged, 'r1 dodged-rule'])
  })

  test('cannot be dodged by leaving out the priority, which every call of the set has', () => {
    const rules = [{ id: 'r0', by: ['priority'], limits: ['10/second'] }]
    const priorities = ['critical', 'reads']
    expect(parseRules({ priorities, rules }).warnings).toEqual([])
    expect(warningsOf(rules)).toEqual(dodged)
  })

  test('gives no warning if it is not enforced', () => {
    expect(warningsOf([{ ...byUser, mode: 'shadow' }])).toEqual([])
    expect(warningsOf([{ ...byUser, mode: 'off' }])).toEqual([])
  })

  test('may count by an attribute that its own match requires', () => {
    const where = { plan: ['free', 'pro'], beta: null }
    const rule = { match: { where }, by: ['user'] }
    const caughtBy = (wider: object, by = ['ip']) =>
      warningsOf([rule, { match: { where: wider }, by }])
    expect(caughtBy({ plan: ['pro', 'free', 'x'] })).toEqual([])
    expect(caughtBy({ plan: ['free'] })).toEqual(dodged)
    expect(caughtBy({ beta: null })).toEqual([])
    expect(caughtBy({ beta: 'on' })).toEqual(dodged)
    // Every call of the first rule has a plan; one of the second may lack it.
    expect(caughtBy({}, ['plan'])).toEqual(['r1 dodged-rule'])
  })

  test('is covered without each attribute, and without all of them', () => {
    const rules = [{ by: ['tenant', 'user'] }, { by: ['tenant'] }, { by: ['user'] }]
    // Either may be absent, but not both: the two covering rules can be dodged themselves.
    expect(warningsOf(rules)).toEqual(['r1 dodged-rule', 'r2 dodged-rule'])
    expect(warningsOf([...rules, { by: ['ip'] }])).toEqual([])
  })

  test('is compared with others by case and trailing slash if paths are strict', () => {
    const rules = [byUser, whereNoUser({ path: '/v1/Orders/:id' })]
    expect(warningsOf(rules)).toEqual([])
    expect(warningsOf(rules, true)).toEqual(dodged)
  })
})

describe('an address rule tighter than the user rule of its path', () => {
  const user = { match: { path: '/v1/orders' }, by: ['user'], limits: ['10/second', '600/hour'] }
  const address = { match: { path: '/v1/orders' }, by: ['ip'], limits: ['10/second', '500/hour'] }
  const tight = ['r1 tight-address-rule']

  test('gives a warning, by user and by key', () => {
    expect(warningsOf([user, address])).toEqual(tight)
    expect(warningsOf([{ ...user, by: ['tenant', 'api_key'] }, address])).toContain(tight[0])
  })

  test.each([
    ['as wide', { ...address, limits: ['600/hour'] }],
    ['wider for long', { ...address, limits: ['1/second'] }],
    ['of another path', { ...address, match: { path: '/v1/*' } }],
    ['of another cost', { ...address, cost: 2 }],
    [
      'for certain networks',
      { ...address, match: { ...address.match, where: { ip: '10.0.0.0/8' } } },
    ],
    ['that refuses all', { ...address, limits: ['0/hour'] }],
    ['in shadow', { ...address, mode: 'shadow' }],
    ['by user as well', { ...address, by: ['ip', 'user'] }],
  ])('gives no warning for one %s', (_, rule) => {
    expect(warningsOf([user, rule])).not.toContain(tight[0])
  })

  test('gives no warning if no call of the user rule matches it', () => {
    const where = (conditions: object) => ({
      ...address,
      match: { path: '/v1/orders', where: conditions },
    })
    expect(warningsOf([user, where({ user: null })])).toEqual([])
    const free = { ...user, match: { path: '/v1/orders', where: { plan: ['free', 'trial'] } } }
    expect(warningsOf([free, where({ plan: 'pro' })])).not.toContain(tight[0])
    expect(warningsOf([free, where({ plan: null })])).not.toContain(tight[0])
    expect(warningsOf([free, where({ plan: ['trial', 'pro'] })])).toContain(tight[0])
    const get = { ...user, match: { path: '/v1/orders', method: 'GET' } }
    expect(
      warningsOf([get, { ...address, match: { path: '/v1/orders', method: 'PUT' } }]),
    ).not.toContain(tight[0])
  })
})

test('a set parsed without comparison reports the problems of each rule alone', () => {
  const rules = [{ id: 'per-user', by: ['user'], limits: ['10/second'] }]
  expect(parseRules(rules).warnings.map(({ code }) => code)).toEqual(['dodged-rule'])
  expect(parseRules(rules, { compare: false })).toMatchObject({ errors: [], warnings: [] })
  const limits = [{ algorithm: 'fixed-window', max: 9, window: '1h' }]
  const alone = parseRules([{ id: 'hourly', by: ['ip'], limits }], { compare: false })
  expect(alone.warnings.map(({ code }) => code)).toEqual(['long-fixed-window'])
})
