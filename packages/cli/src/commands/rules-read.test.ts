import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { answer, cleanAfterTests, startAdmin, tempFile } from '../cli.test-helper.js'

cleanAfterTests()

const rules = [
  {
    id: 'per-user',
    by: ['user'],
    limits: ['10/second'],
    tiers: { plan: { pro: ['40/second'], partner: ['120/second'] } },
    version: 7,
    overrideCount: 2,
    candidate: { limits: [] },
  },
  {
    id: 'login',
    match: {
      method: ['POST', 'PUT'],
      path: '/v1/login',
      where: { user: null, plan: ['free', 'pro'] },
    },
    by: 'ip',
    limits: [{ algorithm: 'sliding-window-log', max: 5, window: '5m', onRefusal: 'charge' }],
    mode: 'shadow',
    version: 3,
    overrideCount: 0,
  },
]
const page = { version: 7, routes: [], strictPaths: false }

describe('sluice rules list', () => {
  test('prints one line for each rule, from all pages', async () => {
    const admin = await startAdmin({
      'GET /rules': [
        answer({ ...page, rules: rules.slice(0, 1), next: 'per-user' }),
        answer({ ...page, rules: rules.slice(1), next: null }),
      ],
    })
    const { code, out } = await admin.run(['rules', 'list'])
    expect(code).toBe(0)
    expect(out.split('\n').map((line) => line.split(/ {2,}/))).toEqual([
      ['ID', 'MODE', 'BY', 'LIMITS', 'MATCH', 'OVERRIDES', 'VERSION'],
      [
        'per-user',
        'enforce +candidate',
        'user',
        '10/second, custom limits for plans pro and partner',
        'every call',
        '2',
        '7',
      ],
      [
        'login',
        'shadow',
        'ip',
        '5/5m sliding-window-log onRefusal charge',
        'POST, PUT /v1/login where user is absent and plan is free or pro',
        '0',
        '3',
      ],
      [''],
    ])
  })

  test('cuts lines to the width of a terminal', async () => {
    const admin = await startAdmin({ 'GET /rules': answer({ ...page, rules, next: null }) })
    const { out } = await admin.run(['rules', 'list'], { columns: 80 })
    for (const line of out.split('\n')) expect(line.length).toBeLessThanOrEqual(80)
    expect(out).toContain('…')
  })

  test('prints the whole set with --json, escaped for a terminal', async () => {
    const odd = { ...rules[0], description: '\u001b[2J\u009b1m\u202e' }
    const admin = await startAdmin({ 'GET /rules': answer({ ...page, rules: [odd], next: null }) })
    const { out } = await admin.run(['rules', 'list', '--json'])
    expect(JSON.parse(out)).toEqual({ ...page, rules: [odd], next: null })
    expect(out.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\u202e]/u)
  })

  test('explains what an empty set means', async () => {
    const admin = await startAdmin({ 'GET /rules': answer({ ...page, rules: [], next: null }) })
    expect((await admin.run(['rules', 'list'])).out).toBe(
      'No rules: every call is allowed, since version 7.\n',
    )
    const unwritten = { ...page, version: 0, rules: [], next: null }
    const fresh = await startAdmin({ 'GET /rules': answer(unwritten) })
    expect((await fresh.run(['rules', 'list'])).out).toBe('No rules: every call is allowed.\n')
  })
})

test('sluice rules get prints YAML that can be edited, below other facts about the rule as comments', async () => {
  const admin = await startAdmin({ 'GET /rules/login': answer(rules[1]) })
  const { out } = await admin.run(['rules', 'get', 'login'])
  expect(out.split('\n').slice(0, 3)).toEqual(['# version 3, 0 overrides', 'id: login', 'match:'])
  expect(out).not.toContain('overrideCount')
})

describe('sluice rules history', () => {
  const versions = [
    {
      version: 9,
      at: '2026-01-02T03:04:05.678Z',
      by: 'ann',
      why: 'INC-7',
      changeCount: 2,
      changes: [
        { kind: 'set', id: 'main', before: {}, after: {} },
        { kind: 'rule', id: 'per-user', before: null, after: {} },
      ],
    },
    {
      version: 8,
      at: '2026-01-02T03:04:00.000Z',
      by: 'ci',
      why: null,
      changeCount: 250,
      changes: Array.from({ length: 100 }, (_, i) => {
        return { kind: 'override', id: `per-user/user=${i}`, before: null, after: {} }
      }),
    },
  ]

  test('prints who changed what, when and why', async () => {
    const admin = await startAdmin({ 'GET /versions': answer({ versions, next: 8 }) })
    const { out } = await admin.run(['rules', 'history', '--limit', '2'])
    expect(out).toBe(
      [
        'VERSION  AT                    BY   WHAT                           WHY',
        '      9  2026-01-02T03:04:05Z  ann  rule per-user added            INC-7',
        '      8  2026-01-02T03:04:00Z  ci   100 overrides added, 150 more  -',
        '',
      ].join('\n'),
    )
    expect(admin.requests.map(({ query }) => query)).toEqual([{ limit: '2' }])
  })

  test('requests the history of one rule', async () => {
    const admin = await startAdmin({
      'GET /rules/per-user/versions': answer({ versions: [], next: null }),
    })
    const ran = await admin.run(['rules', 'history', 'per-user', '--before', '5'])
    expect(ran.out).toBe('No changes.\n')
    expect(admin.requests[0]?.query).toEqual({ before: '5', limit: '20' })
  })
})

describe('sluice rules export', () => {
  const text = "rules:\n  - id: a\n    description: '\u009b'\n"

  test('prints the text of the server unchanged to a program or a file', async () => {
    const admin = await startAdmin({ 'GET /export': answer(text) })
    expect((await admin.run(['rules', 'export'])).out).toBe(text)
    const file = tempFile('rules.yaml', '')
    const ran = await admin.run(['rules', 'export', '-o', file])
    expect(ran).toMatchObject({ code: 0, out: '' })
    expect(readFileSync(file, 'utf8')).toBe(text)
  })

  test('escapes the text on a terminal', async () => {
    const admin = await startAdmin({ 'GET /export': answer(text) })
    expect((await admin.run(['rules', 'export'], { columns: 80 })).out).toContain("'\\u009b'")
  })
})
