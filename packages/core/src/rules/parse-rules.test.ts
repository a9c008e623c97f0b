import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { RULES_MAX } from './incremental-parse.js'
import { parseRules } from './parse-rules.js'
import { PROBLEMS_MAX } from './diagnostics.js'
import type { Rule } from './rule.js'

const DAY_MS = 86_400_000
const BLOCKS = [
  { firstMs: 900_000, factor: 1, maxMs: 900_000, forgetMs: DAY_MS },
  { firstMs: 60_000, factor: 3, maxMs: 7_200_000, forgetMs: 7 * DAY_MS },
]
const VALID = new URL('../../../../conformance/rules/valid/', import.meta.url)
const valid = (name: string) => readFileSync(new URL(name, VALID), 'utf8')

function oneRule(fields: object): Rule {
  const { rules, errors } = parseRules([{ id: 'one', limits: ['10/second'], ...fields }])
  expect(errors).toEqual([])
  const [rule] = rules?.rules ?? []
  if (rule === undefined) throw new Error('no rule')
  return rule
}

function messagesOf(source: string | object, file?: string): readonly string[] {
  return parseRules(source, { file }).errors.map(({ message }) => message)
}

describe('a block', () => {
  const blockOf = (block: unknown) => oneRule({ limits: [{ max: 1, window: '1s', block }] }).limits
  const problemsOf = (block: unknown) =>
    messagesOf({ rules: [{ id: 'one', limits: [{ max: 1, window: '1s', block }] }] })

  test('grows by 2 up to a day unless it says otherwise', () => {
    const expected = { firstMs: 60_000, factor: 2, maxMs: DAY_MS, forgetMs: DAY_MS }
    expect(blockOf({ first: '1m' })[0]?.block).toEqual(expected)
    expect(blockOf({ first: '2d' })[0]?.block?.maxMs).toBe(2 * DAY_MS)
  })

  test.each([
    [900, 'limits[0].block: bad duration 900'],
    ['249ms', 'limits[0].block: bad duration "249ms". Accepted: a duration from 250ms to 366d'],
    [true, 'limits[0].block: '],
    [[], 'limits[0].block: '],
    [{}, 'limits[0].block.first: '],
    [{ first: '1m', max: '59s' }, 'block.max: bad duration "59s". Accepted: a duration from 1m'],
    [
      { first: '1m', factor: 0 },
      'block.factor: number 0 is out of range. Accepted: a whole number',
    ],
    [{ first: '1m', factor: 1.5 }, 'limits[0].block.factor: number 1.5'],
    [{ first: '1m', forget: '367d' }, 'limits[0].block.forget: bad duration'],
    [{ first: '1m', forgot: '1d' }, 'unknown key "forgot"; did you mean "forget"?'],
  ])('%j is refused with the place and what is accepted', (block, message) => {
    expect(problemsOf(block)).toEqual([expect.stringContaining(message)])
  })
})

describe('a rule set', () => {
  test('gets its defaults', () => {
    expect(parseRules('rules: [{ id: one, limits: [10/second] }]').rules).toEqual({
      routes: [],
      strictPaths: false,
      rules: [
        {
          id: 'one',
          description: undefined,
          match: { method: [], path: undefined, where: new Map() },
          by: [],
          limits: [{ algorithm: 'token-bucket', max: 10, windowMs: 1000 }],
          tiers: undefined,
          overrides: [],
          candidate: undefined,
          cost: 1,
          mode: 'enforce',
          coordination: 'exact',
          regions: 'merged',
          maxStranded: 0.05,
          syncEveryMs: 100,
          posture: { local: 1 },
          deadlineMs: undefined,
          hedge: false,
          durable: false,
          onExpiry: 'charge',
          tag: false,
        },
      ],
    })
  })

  test('may be a plain list of rules, as text and as objects', () => {
    const rules = [{ id: 'one', limits: ['10/second'] }]
    const expected = parseRules({ rules }).rules
    expect(expected?.rules).toHaveLength(1)
    expect(parseRules(rules).rules).toEqual(expected)
    expect(parseRules(JSON.stringify(rules)).rules).toEqual(expected)
    expect(parseRules('- { id: one, limits: [10/second] }').rules).toEqual(expected)
  })

  test('is empty only if written so: a truncated file must not lift all limits', () => {
    expect(parseRules('rules: []').rules?.rules).toEqual([])
    expect(parseRules([]).rules?.rules).toEqual([])
    for (const source of ['', '# nothing\n', 'null', 'rules:', 'routes: []', '{}']) {
      expect(parseRules(source).rules).toBeUndefined()
    }
  })

  test('keeps the order of rules and routes', () => {
    const { rules } = parseRules(valid('design.yaml'))
    expect(rules?.routes).toEqual(['GET /v1/orders/:id', 'POST /v1/login'])
    expect(rules?.rules.map(({ id }) => id)).toEqual(['orders-per-user', 'orders-without-user'])
  })

  test(`has at most ${RULES_MAX} rules`, () => {
    const rules = Array.from({ length: RULES_MAX + 1 }, (_, index) => ({
      id: `rule-${index}`,
      match: { where: { tenant: `t${index}` } },
      limits: ['10/second'],
    }))
    expect(parseRules(rules.slice(1)).rules?.rules).toHaveLength(RULES_MAX)
    expect(messagesOf(rules)).toEqual(['rules: too many: 10001 rules. Accepted: up to 10000 rules'])
  })
})

describe('the fields of a rule', () => {
  const everything = parseRules(valid('every-field.yaml')).rules
  const [rule] = everything?.rules ?? []

  test('match', () => {
    expect(rule?.match.method).toEqual(['GET'])
    expect(rule?.match.path).toBe('/v1/orders/:id')
    expect([...(rule?.match.where ?? [])]).toEqual([
      ['plan', ['free']],
      ['beta', ['true']],
      ['shard', ['1', '2.5', 'x']],
      ['user', null],
      ['ip', ['2001:db8::/32', '10.0.0.1/32']],
    ])
  })

  test('limits', () => {
    const bucket = { algorithm: 'token-bucket' }
    expect(rule?.limits).toEqual([
      { ...bucket, max: 10, windowMs: 1000 },
      { ...bucket, max: 100, windowMs: 60_000 },
      { ...bucket, max: 1000, windowMs: 3_600_000 },
      { ...bucket, max: 10_000, windowMs: 86_400_000 },
      { ...bucket, max: 5, windowMs: 250 },
      { ...bucket, max: 0, windowMs: 366 * 86_400_000 },
      { ...bucket, max: 10, windowMs: 10_000, burst: 20, waitMs: 500, name: 'smoothed' },
      { algorithm: 'gcra', max: 10, windowMs: 1000, burst: 5, waitMs: 0, onRefusal: 'charge' },
      { algorithm: 'leaky-bucket', max: 10, windowMs: 1000, queue: 5, maxWaitMs: 2000 },
      { algorithm: 'fixed-window', max: 10, windowMs: 1000, onRefusal: 'none' },
      { algorithm: 'fixed-window', max: 10, windowMs: 60_000, start: 'call' },
      {
        algorithm: 'fixed-window',
        max: 10,
        windowMs: 500,
        start: 'clock',
        onRefusal: 'overdraw',
      },
      { ...bucket, max: 5, windowMs: 5000, block: BLOCKS[0] },
      { ...bucket, max: 5, windowMs: 7000, block: BLOCKS[1] },
      {
        algorithm: 'sliding-window-counter',
        max: 10,
        windowMs: 1000,
        onRefusal: 'overdraw',
        debt: 5,
      },
      { algorithm: 'sliding-window-log', max: 10, windowMs: 1000, debt: 0 },
    ])
  })

  test('calendar windows', () => {
    const budgets = everything?.rules.find(({ id }) => id === 'budgets')
    const fixed = { algorithm: 'fixed-window' }
    const day = { windowMs: 86_400_000, window: 'day' }
    expect(budgets?.limits).toEqual([
      { ...fixed, max: 1000, windowMs: 31 * 86_400_000, window: 'month' },
      { ...fixed, max: 100, windowMs: 7 * 86_400_000, window: 'week', zone: 'UTC', start: 'clock' },
      { ...fixed, ...day, max: 0, zone: 'Europe/Berlin' },
      { ...fixed, ...day, max: 100, zone: 'America/New_York', name: 'daily' },
    ])
  })

  test('tiers, candidate and overrides', () => {
    const perSecond = (max: number) => [{ algorithm: 'token-bucket', max, windowMs: 1000 }]
    expect(rule?.tiers?.attribute).toBe('plan')
    expect([...(rule?.tiers?.limits ?? [])]).toEqual([
      ['free', perSecond(5)],
      ['404', []],
    ])
    expect(rule?.candidate).toEqual({
      limits: perSecond(20),
      tiers: { attribute: 'plan', limits: new Map([['free', []]]) },
    })
    expect(rule?.overrides).toEqual([
      {
        caller: new Map([['ip', '203.0.113.7']]),
        limits: [],
        untilMs: Date.parse('2026-12-31T16:30:00.500Z'),
      },
      { caller: new Map([['ip', '2001:db8::/64']]), limits: perSecond(1), untilMs: undefined },
    ])
  })

  test('by, cost, mode, posture', () => {
    expect(rule?.by).toEqual(['ip'])
    expect(rule?.cost).toEqual({ attribute: 'tokens' })
    expect(rule?.posture).toEqual({ local: 0.5 })
    const others = everything?.rules
      .slice(1, 4)
      .map(({ cost, mode, posture }) => [cost, mode, posture])
    expect(others).toEqual([
      [0, 'shadow', 'open'],
      [1_000_000, 'off', 'closed'],
      [1, 'enforce', { local: 1 }],
    ])
  })

  test('deadline, hedge, durable', () => {
    const read = everything?.rules
      .slice(0, 4)
      .map(({ deadlineMs, hedge, durable }) => [deadlineMs, hedge, durable])
    expect(read).toEqual([
      [5, false, true],
      [undefined, false, false],
      [undefined, false, false],
      [10_000, true, false],
    ])
  })

  test('coordination, maxStranded, syncEvery', () => {
    const read = everything?.rules
      .slice(3, 7)
      .map(({ coordination, maxStranded, syncEveryMs }) => [coordination, maxStranded, syncEveryMs])
    expect(read).toEqual([
      ['exact', 0.05, 100],
      ['leased', 0.025, 100],
      ['local', 0.05, 250],
      ['split', 0.05, 100],
    ])
  })

  test('an undefined field is an absent field', () => {
    expect(oneRule({ by: undefined, cost: undefined })).toEqual(oneRule({}))
  })

  test('an attribute may have the name of an Object.prototype member', () => {
    const { match } = oneRule({ match: { where: { constructor: 'x' } } })
    expect(match.where.get('constructor')).toEqual(['x'])
  })

  test.each([
    ['2026-12-31T18:00Z', '2026-12-31T18:00:00.000Z'],
    ['2024-02-29T23:59:59.999-00:00', '2024-02-29T23:59:59.999Z'],
    ['2026-01-01T00:00:00.01+14:00', '2025-12-31T10:00:00.010Z'],
    ['1970-01-01T00:00:00-01:00', '1970-01-01T01:00:00.000Z'],
  ])('until %s is %s', (until, utc) => {
    const { overrides } = oneRule({ overrides: [{ caller: {}, limits: [], until }] })
    expect(new Date(overrides[0]?.untilMs ?? 0).toISOString()).toBe(utc)
  })
})

describe('a message', () => {
  test('names file, line, column, rule, field, the value found and the suggestion', () => {
    const text = 'rules:\n  - id: orders\n    limits: [{ max: 1, windw: 1s, window: 1s }]\n'
    expect(parseRules(text, { file: 'rules.yaml' }).errors).toEqual([
      {
        code: 'unknown-key',
        file: 'rules.yaml',
        line: 3,
        column: 24,
        rule: 'orders',
        field: 'limits[0].windw',
        found: '"windw"',
        accepted:
          'algorithm, max, window, zone, lease, start, burst, queue, maxWait, wait, name, onRefusal, debt, block',
        suggestion: 'window',
        message:
          'rules.yaml:3:24: rule "orders": limits[0].windw: unknown key "windw"; did you mean ' +
          '"window"? Accepted: algorithm, max, window, zone, lease, start, burst, queue, maxWait, wait, name, onRefusal, debt, block',
      },
    ])
  })

  test('omits the position for objects', () => {
    expect(messagesOf([{ id: 'one', limits: [] }])).toEqual([
      'rule "one": limits: found an empty list. Accepted: one or more limits; mode: off for no limit',
    ])
    expect(messagesOf({ rules: 1 }, 'api')).toEqual([
      'api: rules: found 1. Accepted: a list of rules',
    ])
  })

  test('counts lines the same with either line ending and with a byte order mark', () => {
    const text = 'rules:\n  - id: one\n    limits: [1/second]\n    mode: of\n'
    const [unix, windows, marked] = [text, text.replaceAll('\n', '\r\n'), `\ufeff${text}`].map(
      (source) => messagesOf(source),
    )
    expect(unix?.[0]).toMatch(/^4:11: rule "one": mode: unknown value "of"; did you mean "off"\?/)
    expect(windows).toEqual(unix)
    expect(marked).toEqual(unix)
  })

  test('shows at most 64 characters of the value, escaped so that it cannot forge a line', () => {
    const id = `a\r\n\u001b[2J\u202e\u2028\ud800"\\${'x'.repeat(1000)}`
    const [error] = parseRules([{ id, limits: ['1/second'] }]).errors
    expect(error?.found).toHaveLength(64)
    expect(error?.found).toMatch(/^"a\\u000d\\u000a\\u001b\[2J\\u202e\\u2028\\ud800\\"\\\\x+…"$/)
  })

  test(`comes ${PROBLEMS_MAX} times at most, and then once more with the count of the rest`, () => {
    const rules = Array.from({ length: 1000 }, (_, index) => ({ id: `rule-${index}` }))
    const messages = messagesOf(rules)
    expect(messages).toHaveLength(PROBLEMS_MAX + 1)
    expect(messages.at(-1)).toBe(
      'document: 900 more problems. Accepted: none; the first 100 are listed',
    )
  })

  test('is given for every warning at once, strict or not', () => {
    const log = { algorithm: 'sliding-window-log', max: 5000, window: '1h' }
    const rules = [{ id: 'one', by: ['user', 'path'], limits: [log] }]
    const codes = ['by-path', 'large-log', 'dodged-rule']
    expect(parseRules(rules).warnings.map(({ code }) => code)).toEqual(codes)
    expect(parseRules(rules, { strict: true }).errors.map(({ code }) => code)).toEqual(codes)
  })

  test('is given for every problem at once, in the order of the text', () => {
    const text = 'rules:\n  - limits: [x]\n    id: A\n  - id: b\nroutes: 1\n'
    const places = parseRules(text).errors.map(({ line, code }) => `${line} ${code}`)
    expect(places).toEqual(['2 bad-limit', '3 bad-id', '4 missing-field', '5 wrong-type'])
  })
})

test('rules cannot pollute Object.prototype', () => {
  const json = '{"__proto__":{"rules":[]},"constructor":{"prototype":{"polluted":1}}}'
  for (const source of [json, JSON.parse(json) as object, `<<: ${json}`]) {
    expect(
      parseRules(source).errors.every(({ code }) => /unknown-key|missing-field/.test(code)),
    ).toBe(true)
  }
  expect('polluted' in {}).toBe(false)
})
