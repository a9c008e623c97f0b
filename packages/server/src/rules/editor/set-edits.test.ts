/** Edits of whole sets: apply, apply in shadow and validate. */
import { readdirSync, readFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { wholeSet } from '../../entrypoints/admin/admin-views.js'
import {
  contentsOf,
  type EditingNode,
  editingNode,
  failureOf,
  META,
  OTHER,
  RULE,
} from './editor.test-helper.js'

let node: EditingNode
beforeEach(async () => {
  node = await editingNode()
})
afterEach(() => node.close())

const FOLDER = new URL('../../../../../conformance/rules/', import.meta.url)
const readFixture = (name: string) => readFileSync(new URL(name, FOLDER), 'utf8')
const FIXTURES = readdirSync(FOLDER)
  .filter((name) => name.endsWith('.yaml'))
  .map((name) => name.slice(0, -'.yaml'.length))

const ids = () => node.catalog.rules().map(({ document }) => document.id)
const messagesOf = (problems: readonly { readonly message: string }[]) =>
  problems.map(({ message }) => `${message}\n`).join('')

describe('invalid rules', () => {
  test.each(FIXTURES)('validate and apply report the stored messages for %s', async (name) => {
    const file = `${name}.yaml`
    const text = readFixture(file)
    const { errors, warnings, diff } = await node.editor.validate(text, { file })
    expect(messagesOf([...errors, ...warnings])).toBe(readFixture(`${name}.txt`))
    expect(diff === undefined).toBe(errors.length > 0)
    if (errors.length === 0) return
    const failure = await failureOf(node.editor.apply(text, META, { file }))
    expect(failure.code).toBe('rules_invalid')
    expect(failure.problems).toEqual(errors)
    expect(node.catalog.position?.version).toBe(1)
  })

  test('a warning is reported, and is an error with strict', async () => {
    const text = readFixture('by-path.yaml')
    const { errors } = await node.editor.validate(text, { file: 'by-path.yaml', strict: true })
    expect(messagesOf(errors)).toBe(readFixture('by-path.txt'))
    const failure = await failureOf(node.editor.apply(text, META, { strict: true }))
    expect(failure.code).toBe('rules_invalid')
    const { warnings } = await node.editor.apply(text, META, { file: 'by-path.yaml' })
    expect(messagesOf(warnings)).toBe(readFixture('by-path.txt'))
  })
})

describe('a cost from an attribute', () => {
  const costRule = (attribute: string) => ({
    id: attribute,
    by: ['ip'],
    limits: ['10/second'],
    cost: { attribute },
  })

  test('a cost from an attribute that the configuration reads from a header is a warning', async () => {
    const known = await editingNode({ ruleContext: { fromHeaders: new Set(['weight']) } })
    const set = [costRule('weight'), costRule('tokens')]
    for (const given of [set, JSON.stringify(set)]) {
      const { warnings } = await known.editor.validate(given, {})
      expect(warnings.map(({ code, rule }) => [code, rule])).toEqual([['free-cost', 'weight']])
    }
    const { errors } = await known.editor.validate(set, { strict: true })
    expect(errors.map(({ rule }) => rule)).toEqual(['weight'])
    const applied = await known.editor.apply(set, META, {})
    expect(applied.warnings.map(({ rule }) => rule)).toEqual(['weight'])
    const logged = known.lines.filter(({ msg }) => msg === 'rules warning')
    expect(logged.map(({ problem }) => String(problem).includes('"weight"'))).toEqual([true])
    await known.close()
  })

  test('a cost from any attribute is a warning if headers are unknown', async () => {
    const { warnings } = await node.editor.validate([costRule('weight'), costRule('tokens')], {})
    expect(warnings.map(({ rule }) => rule)).toEqual(['weight', 'tokens'])
  })
})

describe('apply', () => {
  test('apply keeps priorities and the lines that classify calls, and export returns them', async () => {
    const set = {
      priorities: ['critical', 'reads'],
      classify: [{ match: { method: 'GET' }, as: 'reads' }],
    }
    const headroom = { critical: '20%' }
    const rules = [{ id: 'fleet', by: [], limits: ['100/second'], headroom, protects: 'capacity' }]
    await node.editor.apply({ ...set, rules }, META, {})
    expect(node.catalog.set).toMatchObject(set)
    expect(wholeSet(node.catalog)).toEqual({ ...set, rules })
    expect(node.catalog.parsedSet()).toMatchObject({ priorities: set.priorities })
    const unknown = { ...set, priorities: ['urgent', 'reads'], rules }
    expect((await failureOf(node.editor.apply(unknown, META, {}))).code).toBe('rules_invalid')
    const plain = { rules: [{ id: 'fleet', by: [], limits: ['100/second'] }] }
    const { diff } = await node.editor.apply(plain, META, {})
    expect(diff.set.map(({ field }) => field)).toEqual(['priorities', 'classify'])
    expect(wholeSet(node.catalog)).toEqual(plain)
  })

  test('apply replaces rules, their order, routes, candidates and overrides', async () => {
    await node.editor.create({ id: 'old', limits: ['1/second'] }, META)
    const text = `
routes: ['GET /v1/orders/:id']
strictPaths: true
rules:
  - { id: login, by: ip, limits: [5/minute] }
  - id: orders
    by: [user]
    limits: [10/second]
    candidate: { limits: [5/second] }
    overrides: [{ caller: { user: 7 }, limits: [] }]
`
    const { version, diff } = await node.editor.apply(text, META, {})
    expect(version).toBe(node.catalog.position?.version)
    expect(diff.rules.map(({ id, change }) => `${id} ${change}`)).toEqual([
      'login added',
      'orders added',
      'old removed',
    ])
    expect(diff.rules[1]?.overrides).toEqual({ added: 1, changed: 0, removed: 0 })
    expect(contentsOf(node.catalog)).toEqual({
      set: { routes: ['GET /v1/orders/:id'], strictPaths: true, order: ['login', 'orders'] },
      rules: [
        {
          document: { id: 'login', by: 'ip', limits: ['5/minute'] },
          candidate: undefined,
          overrides: [],
        },
        {
          document: RULE,
          candidate: { limits: ['5/second'] },
          overrides: [{ id: 'user=7', override: { caller: { user: '7' }, limits: [] } }],
        },
      ],
    })
  })

  test('apply without changes makes no version', async () => {
    const { version } = await node.editor.apply([RULE, OTHER], META, {})
    const again = await node.editor.apply({ rules: [RULE, OTHER] }, META, {})
    expect(again).toMatchObject({ version, diff: { set: [], rules: [] } })
    expect(node.catalog.position?.version).toBe(version)
  })

  test('apply keeps overrides of rules without an overrides field, and replaces the others', async () => {
    await node.editor.apply([RULE, OTHER], META, {})
    const caller = { user: 'u1' }
    await node.editor.putOverrides('orders', [{ caller, limits: [] }], META, undefined)
    await node.editor.apply([OTHER, { ...RULE, limits: ['3/second'] }], META, {})
    expect(ids()).toEqual(['login', 'orders'])
    expect(node.catalog.rule('orders')?.overrideCount).toBe(1)
    const overrides = [{ caller: { user: 'u2' }, limits: [] }]
    const { diff } = await node.editor.apply([OTHER, { ...RULE, overrides }], META, {})
    expect(diff.rules[0]?.overrides).toEqual({ added: 1, changed: 0, removed: 1 })
    expect(node.catalog.overrides('orders', undefined, 9).map(({ id }) => id)).toEqual(['user=u2'])
    const only = await node.editor.apply([OTHER, { ...RULE, overrides: [] }], META, {})
    expect(only.diff.rules).toMatchObject([
      { id: 'orders', change: 'changed', overrides: { added: 0, changed: 0, removed: 1 } },
    ])
  })

  test('apply of a set without rules needs confirmation', async () => {
    await node.editor.apply([RULE], META, {})
    const failure = await failureOf(node.editor.apply('rules: []', META, {}))
    expect(failure.code).toBe('confirmation_needed')
    const dry = await node.editor.apply('rules: []', META, { dryRun: true })
    expect(dry.diff.rules).toMatchObject([{ id: 'orders', change: 'removed' }])
    await node.editor.apply('rules: []', META, { confirmed: true })
    expect(ids()).toEqual([])
    await node.editor.apply('rules: []', META, {})
  })

  test('apply is refused if the set has another version than expected', async () => {
    await node.editor.apply([RULE], META, {})
    const seen = node.catalog.rulesVersion
    await node.editor.create(OTHER, META)
    const present = node.catalog.rulesVersion
    const failure = await failureOf(node.editor.apply([RULE], META, { expected: seen }))
    expect(failure).toMatchObject({ code: 'version_conflict', version: present })
    await node.editor.apply([RULE], META, { expected: present })
  })

  test('a dry run changes nothing, and returns the same result', async () => {
    await node.editor.apply([RULE], META, {})
    const before = contentsOf(node.catalog)
    const next = [OTHER, { ...RULE, limits: ['3/second'] }]
    const dry = await node.editor.apply(next, META, { dryRun: true })
    expect(contentsOf(node.catalog)).toEqual(before)
    expect(dry.version).toBe(node.catalog.position?.version)
    const validated = await node.editor.validate(next, {})
    expect(validated).toEqual({ errors: [], warnings: dry.warnings, diff: dry.diff })
    const applied = await node.editor.apply(next, META, {})
    expect(applied.diff).toEqual(dry.diff)
  })

  test('a set can be sent back as the admin API returned it', async () => {
    const response = { version: 3, next: null, routes: [], strictPaths: false }
    const rules = [{ ...RULE, version: 2, overrideCount: 0 }]
    await node.editor.apply({ ...response, rules }, META, {})
    expect(node.catalog.rules().map(({ document }) => document)).toEqual([RULE])
  })

  test('apply does not drop overrides by changing what their rule counts by', async () => {
    await node.editor.apply([RULE], META, {})
    const caller = { user: 'u1' }
    await node.editor.putOverrides('orders', [{ caller, limits: [] }], META, undefined)
    const byAddress = [{ ...RULE, by: ['ip'] }]
    const { errors, diff } = await node.editor.validate(byAddress, {})
    expect(errors.map(({ field }) => field)).toEqual(['by'])
    expect(diff).toBeUndefined()
    expect((await failureOf(node.editor.apply(byAddress, META, {}))).problems).toEqual(errors)
    await node.editor.apply([{ ...byAddress[0], overrides: [] }], META, {})
  })

  test('two spellings of one caller are refused', async () => {
    const overrides = [
      { caller: { ip: '2001:db8::1' }, limits: [] },
      { caller: { ip: '2001:DB8:0:0::2' }, limits: ['1/second'] },
    ]
    const { errors } = await node.editor.validate([{ ...OTHER, overrides }], {})
    expect(errors.map(({ code, field }) => `${code} ${field}`)).toEqual([
      'duplicate-override overrides[1]',
    ])
  })

  test('a set of 10,000 rules is parsed and stored', async () => {
    const rules = Array.from({ length: 10_000 }, (_, i) => ({
      id: `rule-${i}`,
      match: { path: `/v1/things-${i}` },
      limits: ['10/second'],
    }))
    const { diff } = await node.editor.apply(rules, META, {})
    expect(diff.rules).toHaveLength(10_000)
    const changed = await node.editor.patch('rule-77', { mode: 'shadow' }, META, undefined)
    expect(changed.version).toBe(node.catalog.position?.version)
  })
})

describe('apply in shadow', () => {
  const tiers = { plan: { pro: ['100/second'] } }

  beforeEach(async () => {
    await node.editor.apply([RULE, OTHER, { id: 'third', limits: ['1/second'] }], META, {})
  })

  test('apply in shadow makes changed limits candidates, starts new rules in shadow and removes nothing', async () => {
    const tried = [
      { id: 'new', limits: ['2/second'] },
      { ...RULE, limits: ['4/second'], tiers },
      { id: 'login', by: 'ip', limits: [{ algorithm: 'token-bucket', max: 5, window: '1m' }] },
    ]
    await node.editor.apply(tried, META, { shadow: true })
    expect(
      node.catalog.rules().map(({ document, candidate }) => ({ document, candidate })),
    ).toEqual([
      { document: RULE, candidate: { limits: ['4/second'], tiers } },
      { document: OTHER, candidate: undefined },
      { document: { id: 'third', limits: ['1/second'] }, candidate: undefined },
      { document: { id: 'new', limits: ['2/second'], mode: 'shadow' }, candidate: undefined },
    ])
    const promoted = await node.editor.promote('orders', META, undefined)
    expect(promoted.document).toEqual({ ...RULE, limits: ['4/second'], tiers })
  })

  test('apply in shadow is refused if anything else changes, and names all of it', async () => {
    const before = contentsOf(node.catalog)
    const tried = {
      strictPaths: true,
      rules: [
        { ...RULE, limits: ['4/second'], mode: 'shadow', by: ['ip'] },
        { ...OTHER, overrides: [{ caller: { ip: '192.0.2.1' }, limits: [] }] },
      ],
    }
    const failure = await failureOf(node.editor.apply(tried, META, { shadow: true }))
    expect(failure).toMatchObject({ code: 'not_triable', status: 400 })
    expect(failure.message).toBe(
      'cannot be tried in shadow: the set: strictPaths; rule "orders": by, mode; ' +
        'rule "login": overrides. Accepted: other limits and tiers of active rules, and new ' +
        'rules; apply the rest without shadow',
    )
    expect(contentsOf(node.catalog)).toEqual(before)
  })
})
