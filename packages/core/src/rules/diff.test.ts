import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { diffRules, type RuleChange } from './diff.js'
import { parseRules } from './parse-rules.js'
import type { RuleSet } from './rule.js'

function parse(rules: readonly object[], set: object = {}): RuleSet {
  const { rules: parsed, errors } = parseRules({ ...set, rules })
  if (parsed === undefined) throw new Error(errors.map(({ message }) => message).join('\n'))
  return parsed
}

const rule = (fields: object = {}) => ({ id: 'a', by: ['user'], limits: ['10/second'], ...fields })

/** Returns the single change between two versions of a rule. */
function changeOf(before: object, after: object): RuleChange {
  const { rules } = diffRules(parse([rule(before)]), parse([rule(after)]))
  const [change] = rules
  if (change === undefined || rules.length > 1) throw new Error(`${rules.length} changes`)
  return change
}

const fieldTexts = ({ fields }: RuleChange) =>
  fields.map(({ field, before, after }) => `${field}: ${before} > ${after}`)
const fateTexts = ({ counters }: RuleChange) =>
  counters.map(({ where, limit, counters: fate, what }) => `${where} ${limit}: ${fate} (${what})`)

const BUCKET = 'token-bucket-1s'
const hourly = (fields: object = {}) => ({
  limits: [{ algorithm: 'fixed-window', max: 10, window: '1h', name: 'hourly', ...fields }],
})

describe('counters after a change', () => {
  test.each<[string, object, object, readonly string[]]>([
    [
      'a new max keeps the counter',
      {},
      { limits: ['20/second'] },
      [`limits ${BUCKET}: go on (max 10 to 20)`],
    ],
    [
      'a new burst keeps the counter',
      {},
      { limits: [{ max: 10, window: '1s', burst: 30 }] },
      [`limits ${BUCKET}: go on (burst default to 30)`],
    ],
    [
      'a new window under a default name starts a new counter',
      {},
      { limits: ['10/minute'] },
      [
        'limits token-bucket-1m: start anew (new: 10/minute)',
        `limits ${BUCKET}: end (was 10/second)`,
      ],
    ],
    [
      'a new window under an explicit name keeps the counter',
      hourly(),
      hourly({ window: '2h' }),
      ['limits hourly: go on (window 1h to 2h)'],
    ],
    [
      'another algorithm under the same name starts a new counter',
      hourly(),
      hourly({ algorithm: 'sliding-window-counter' }),
      ['limits hourly: start anew (algorithm fixed-window to sliding-window-counter)'],
    ],
    [
      'another zone under a default name starts a new counter',
      { limits: [{ algorithm: 'fixed-window', max: 10, window: 'month' }] },
      { limits: [{ algorithm: 'fixed-window', max: 10, window: 'month', zone: 'Europe/Berlin' }] },
      [
        'limits fixed-window-month-europe-berlin: start anew (new: { algorithm: fixed-window, max: 10, window: month, zone: Europe/Berlin })',
        'limits fixed-window-month: end (was { algorithm: fixed-window, max: 10, window: month })',
      ],
    ],
    [
      'another zone and unit under an explicit name keep the counter',
      hourly({ window: 'month' }),
      hourly({ window: 'week', zone: 'Europe/Berlin' }),
      ['limits hourly: go on (window month to week, zone UTC to Europe/Berlin)'],
    ],
    [
      'a calendar day starts a new counter where a window of 24 hours was',
      hourly({ window: '1d' }),
      hourly({ window: 'day' }),
      ['limits hourly: start anew (window 1d to day)'],
    ],
    [
      'windows that begin with a call start a new counter under the same name',
      hourly(),
      hourly({ start: 'call' }),
      ['limits hourly: start anew (start clock to call)'],
    ],
    [
      'naming the default start of windows changes nothing',
      hourly(),
      hourly({ start: 'clock' }),
      ['limits hourly: go on ()'],
    ],
    [
      'a change from token-bucket to gcra starts a new counter',
      hourly({ algorithm: 'token-bucket' }),
      hourly({ algorithm: 'gcra' }),
      ['limits hourly: start anew (algorithm token-bucket to gcra)'],
    ],
    [
      'another name starts a new counter',
      hourly(),
      hourly({ name: 'each-hour' }),
      [
        'limits each-hour: start anew (new: { algorithm: fixed-window, max: 10, window: 1h, name: each-hour })',
        'limits hourly: end (was { algorithm: fixed-window, max: 10, window: 1h, name: hourly })',
      ],
    ],
    [
      'naming a limit by its default name changes nothing',
      {},
      { limits: [{ max: 10, window: '1s', name: BUCKET }] },
      [`limits ${BUCKET}: go on ()`],
    ],
    [
      'a split starts new counters on each node, reported once',
      { tiers: { plan: { pro: ['100/second'] } } },
      { tiers: { plan: { pro: ['100/second'] } }, coordination: 'split' },
      [`limits ${BUCKET}: start anew (coordination exact to split)`],
    ],
    [
      'the end of a split starts new counters as well',
      { coordination: 'split' },
      { coordination: 'local', limits: ['20/second'] },
      [`limits ${BUCKET}: start anew (coordination split to local, max 10 to 20)`],
    ],
    [
      'leased and local coordination keep the counters',
      { coordination: 'leased' },
      { coordination: 'local' },
      [`limits ${BUCKET}: go on ()`],
    ],
    [
      'other attributes in `by` start new counters, reported once',
      { tiers: { plan: { pro: ['20/second'] } } },
      { by: ['ip'], tiers: { plan: { pro: ['20/second'] } } },
      [`limits ${BUCKET}: start anew (by [user] to [ip])`],
    ],
    [
      'another order of `by` starts new counters',
      { by: ['user', 'ip'] },
      { by: ['ip', 'user'] },
      [`limits ${BUCKET}: start anew (by [user, ip] to [ip, user])`],
    ],
    [
      'a change to shadow keeps the counters',
      {},
      { mode: 'shadow' },
      [`limits ${BUCKET}: go on ()`],
    ],
    ['a change to off keeps the counters', {}, { mode: 'off' }, [`limits ${BUCKET}: go on ()`]],
    [
      'a new tier keeps the counter of the rule',
      {},
      { tiers: { plan: { pro: ['100/second', '1000/hour'] } } },
      [
        `tiers.plan.pro ${BUCKET}: go on (max 10 to 100)`,
        'tiers.plan.pro token-bucket-1h: start anew (new: 1000/hour)',
      ],
    ],
    [
      'a removed tier keeps the counter under the limits of the rule',
      { tiers: { plan: { pro: ['100/second'], free: ['1/second'] } } },
      { tiers: { plan: { free: ['1/second'] } } },
      [`tiers.plan.pro ${BUCKET}: go on (max 100 to 10)`],
    ],
    [
      'a tier without a limit ends its counters',
      {},
      { tiers: { plan: { partner: [] } } },
      [`limits ${BUCKET}: go on ()`, `tiers.plan.partner ${BUCKET}: end (was 10/second)`],
    ],
    [
      'a limit that only a tier had starts a new counter for other callers',
      { tiers: { plan: { pro: ['100/minute'] } } },
      { limits: ['100/minute'] },
      [
        'limits token-bucket-1m: start anew (new: 100/minute)',
        `limits ${BUCKET}: end (was 10/second)`,
        'tiers.plan.pro token-bucket-1m: go on ()',
      ],
    ],
    [
      'a candidate has its own counters',
      {},
      { candidate: { limits: ['5/second'], tiers: { plan: { pro: ['6/second'] } } } },
      [`limits ${BUCKET}: go on ()`, `candidate.limits ${BUCKET}: start anew (new: 5/second)`],
    ],
    [
      'promoting a candidate keeps the active counters',
      { candidate: { limits: ['5/second'] } },
      { limits: ['5/second'] },
      [`limits ${BUCKET}: go on (max 10 to 5)`, `candidate.limits ${BUCKET}: end (was 5/second)`],
    ],
    [
      'a changed candidate keeps its own counters',
      { candidate: { limits: ['5/second'] } },
      { candidate: { limits: ['4/second'] } },
      [`limits ${BUCKET}: go on ()`, `candidate.limits ${BUCKET}: go on (max 5 to 4)`],
    ],
    [
      'an override keeps the counter of the same name',
      {},
      {
        overrides: [
          { caller: { user: 'u1' }, limits: ['90/second'] },
          { caller: { user: 'u2' }, limits: ['90/second', '900/hour'] },
        ],
      },
      [
        `limits ${BUCKET}: go on ()`,
        `overrides ${BUCKET}: go on (2 callers)`,
        'overrides token-bucket-1h: start anew (1 caller)',
      ],
    ],
    [
      'the end of an override keeps the counter too',
      { overrides: [{ caller: { user: 'u1' }, limits: ['90/second', '900/hour'] }] },
      {},
      [
        `limits ${BUCKET}: go on ()`,
        `overrides ${BUCKET}: go on (1 caller)`,
        'overrides token-bucket-1h: end (1 caller)',
      ],
    ],
  ])('%s', (_, before, after, expected) => {
    expect(fateTexts(changeOf(before, after))).toEqual(expected)
  })
})

describe('differences are short texts', () => {
  test.each<[string, object, object, readonly string[]]>([
    ['mode', {}, { mode: 'shadow' }, ['mode: enforce > shadow']],
    [
      'a description may have several lines',
      { description: 'one' },
      { description: 'one\ntwo' },
      ['description: one > one\\u000atwo'],
    ],
    [
      'match',
      { match: { method: 'GET', where: { plan: ['pro'], region: { not: ['eu'] } } } },
      { match: { path: '/v1/:id', where: { plan: null, ip: ['203.0.113.0/24'] } } },
      [
        'match.method: [GET] > ',
        'match.where.plan: [pro] > absent',
        'match.where.region.not: [eu] > ',
        'match.path:  > /v1/:id',
        'match.where.ip:  > [203.0.113.0/24]',
      ],
    ],
    [
      'coordination and its fields are shown, with a share in one form',
      { coordination: 'leased', maxStranded: '10%', limits: ['100/second'] },
      { coordination: 'local', syncEvery: '1s', limits: ['100/second'] },
      ['coordination: leased > local', 'maxStranded: 0.1 > 0.05', 'syncEvery: 100ms > 1s'],
    ],
    [
      'limits are shown in short form if they have one',
      { limits: ['10/second', '100/30s'] },
      { limits: ['10/second', { algorithm: 'gcra', max: 5, window: '1m', wait: '1s' }] },
      [
        'limits: [10/second, 100/30s] > [10/second, { algorithm: gcra, max: 5, window: 1m, wait: 1s }]',
      ],
    ],
    [
      'tiers are shown one by one',
      { tiers: { plan: { pro: ['20/second'], free: ['1/second'] } } },
      { tiers: { plan: { pro: [], free: ['1/second'], 'a b': ['2/second'] } } },
      ['tiers.plan.pro: [20/second] > no limit', 'tiers.plan."a b":  > [2/second]'],
    ],
    [
      'candidate',
      {},
      { candidate: { limits: ['5/second'], tiers: { plan: { pro: ['6/second'] } } } },
      ['candidate.limits:  > [5/second]', 'candidate.tiers.plan.pro:  > [6/second]'],
    ],
    [
      'posture, cost, deadline and flags are shown',
      { posture: 'open', cost: 2 },
      {
        posture: { local: 0.5 },
        cost: { attribute: 'n' },
        deadline: '5ms',
        hedge: true,
        onExpiry: 'refund',
        tag: true,
      },
      [
        'cost: 2 > { attribute: n }',
        'posture: open > { local: 0.5 }',
        'hedge: false > true',
        'onExpiry: charge > refund',
        'tag: false > true',
        'deadline:  > 5ms',
      ],
    ],
  ])('%s', (_, before, after, expected) => {
    expect(fieldTexts(changeOf(before, after))).toEqual(expected)
  })

  test('a long list is counted, not shown', () => {
    const users = Array.from({ length: 1000 }, (_, n) => `u${n}`)
    const where = (user: readonly string[]) => ({ match: { where: { user } } })
    const texts = (after: readonly string[]) => fieldTexts(changeOf(where(users), where(after)))
    const field = 'match.where.user: 1000 values >'
    expect(texts(['x', ...users.slice(2)])).toEqual([`${field} 999 values, 1 added, 2 removed`])
    expect(texts(users.toReversed())).toEqual([`${field} 1000 values, in another order`])
    expect(texts(['x'])).toEqual([`${field} 1 values, 1 added, 1000 removed`])
  })

  test('changes of routes and strictPaths belong to the set', () => {
    const after = parse([rule()], { routes: ['GET /v1/:id'], strictPaths: true })
    expect(diffRules(parse([rule()]), after)).toEqual({
      set: [
        { field: 'routes', before: '[]', after: '[GET /v1/:id]' },
        { field: 'strictPaths', before: 'false', after: 'true' },
      ],
      rules: [],
    })
  })
})

describe('added and removed rules', () => {
  test('a new rule is reported with the fields that are not defaults', () => {
    const { rules } = diffRules(parse([]), parse([rule({ posture: 'open', mode: 'enforce' })]))
    expect(rules).toEqual([
      {
        id: 'a',
        change: 'added',
        fields: [
          { field: 'by', before: '', after: '[user]' },
          { field: 'limits', before: '', after: '[10/second]' },
          { field: 'posture', before: '', after: 'open' },
        ],
        counters: [
          { where: 'limits', limit: BUCKET, counters: 'start anew', what: 'new: 10/second' },
        ],
        overrides: { added: 0, changed: 0, removed: 0 },
      },
    ])
  })

  test('a removed rule ends its counters, each reported once', () => {
    const overrides = [{ caller: { user: 'u1' }, limits: [] }]
    const tiers = { plan: { pro: ['20/second', '5/day'] } }
    const [change] = diffRules(parse([rule({ tiers, overrides })]), parse([])).rules
    expect(change).toMatchObject({
      change: 'removed',
      counters: [
        { where: 'limits', limit: BUCKET, counters: 'end' },
        { where: 'tiers.plan.pro', limit: 'token-bucket-1d', counters: 'end' },
      ],
      overrides: { added: 0, changed: 0, removed: 1 },
    })
  })

  test('overrides are counted by caller', () => {
    const override = (user: string, limits: readonly string[], until?: string) => ({
      caller: { user },
      limits,
      ...(until === undefined ? {} : { until }),
    })
    const { overrides, fields } = changeOf(
      { overrides: [override('u1', ['1/second']), override('u2', []), override('u3', [])] },
      {
        overrides: [
          override('u4', []),
          override('u3', [], '2030-01-01T00:00:00Z'),
          override('u1', ['1/second']),
        ],
      },
    )
    expect(overrides).toEqual({ added: 1, changed: 1, removed: 1 })
    expect(fields).toEqual([])
  })

  test('every override counts as replaced if the rule counts by other attributes', () => {
    const overrides = (attribute: string) => ({
      by: [attribute],
      overrides: [{ caller: { [attribute]: 'x' }, limits: [] }],
    })
    const change = changeOf(overrides('user'), overrides('account'))
    expect(change.overrides).toEqual({ added: 1, changed: 0, removed: 1 })
  })
})

describe('order', () => {
  const set = (ids: string) => parse(ids.split('').map((id) => rule({ id })))
  const moves = (before: string, after: string) =>
    diffRules(set(before), set(after)).rules.map(({ id, change, fields }) => {
      const [position] = fields
      return change === 'moved' ? `${id} ${position?.before}-${position?.after}` : `${change} ${id}`
    })

  test.each([
    ['equal orders have no moves', 'abc', 'abc', []],
    ['one rule that moves down is one move', 'abcd', 'bcda', ['a 1-4']],
    ['one rule that moves up is one move', 'abcd', 'dabc', ['d 4-1']],
    ['an inserted rule moves no other', 'abc', 'axbc', ['added x']],
    ['a removed rule moves no other', 'abc', 'bc', ['removed a']],
    [
      'changes follow the new order, with removed rules last',
      'abcd',
      'xca',
      ['added x', 'a 1-3', 'removed b', 'removed d'],
    ],
  ])('%s', (_, before, after, expected) => {
    expect(moves(before, after)).toEqual(expected)
  })

  test('a rule that is moved and changed reports both', () => {
    const after = parse([rule({ id: 'c', mode: 'off' }), rule({ id: 'a' }), rule({ id: 'b' })])
    const [change, ...others] = diffRules(set('abc'), after).rules
    expect(others).toEqual([])
    expect(change?.change).toBe('changed')
    expect(change?.fields).toEqual([
      { field: 'position', before: '3', after: '1' },
      { field: 'mode', before: 'enforce', after: 'off' },
    ])
  })
})

const VALID = new URL('../../../../conformance/rules/valid/', import.meta.url)

test.each(readdirSync(VALID))('%s: a set does not differ from itself', (name) => {
  const read = () => parseRules(readFileSync(new URL(name, VALID), 'utf8')).rules as RuleSet
  expect(diffRules(read(), read())).toEqual({ set: [], rules: [] })
})
