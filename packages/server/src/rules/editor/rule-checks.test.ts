/** Validation of one rule, as text with places and as objects. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type EditingNode, editingNode, failureOf, META, RULE } from './editor.test-helper.js'
import { readRuleText } from './parse-rule-text.js'

let node: EditingNode
beforeEach(async () => {
  node = await editingNode()
})
afterEach(() => node.close())

describe('a rule as text', () => {
  test('the text of a rule is that of a rules file, without the dash', async () => {
    const text = '# mine\nid: orders\ndescription: |\n  one\n\n  two\nlimits: [10/second]\n'
    const { document, errors } = await readRuleText(text)
    expect(errors).toEqual([])
    expect(document).toEqual({
      id: 'orders',
      description: 'one\n\ntwo\n',
      limits: ['10/second'],
    })
  })

  test('the text may be JSON, start with a byte order mark, or be indented', async () => {
    for (const text of [
      '{\n"id": "a", "limits": ["1/day"]\n}',
      '\ufeffid: a\nlimits: [1/day]',
      '    id: a\n    limits:\n    - 1/day',
    ]) {
      expect((await readRuleText(text)).document).toEqual({ id: 'a', limits: ['1/day'] })
    }
  })

  test('problems have the line and column of the original text', async () => {
    const { document, errors } = await readRuleText('id: a\nlimits: [10 per sec]\nmdoe: shadow\n')
    expect(document).toBeUndefined()
    expect(errors.map(({ line, column, field }) => [line, column, field])).toEqual([
      [2, 10, 'limits[0]'],
      [3, 1, 'mdoe'],
    ])
    expect(errors[1]?.message).toMatch(/^3:1: rule "a": mdoe: unknown key/)
  })

  test.each(['', 'hello', '- id: a\n  limits: [1/day]', '- {', '--- \nid: a', 'id: !x a'])(
    'the text %j is refused',
    async (text) => {
      expect((await readRuleText(text)).errors.length).toBeGreaterThan(0)
    },
  )
})

describe('a long text', () => {
  const blank = `id: a\nlimits: [1/day]${'\n'.repeat(100_000)}`

  test('a long text is parsed while calls are decided', async () => {
    let turns = 0
    const read = readRuleText(blank)
    const isOver = read.then(() => true)
    while (!(await Promise.race([isOver, nextTurn(false)]))) turns++
    expect(turns).toBeGreaterThan(2)
    expect((await read).document).toEqual({ id: 'a', limits: ['1/day'] })
  })

  test('problems of a long text have their places too', async () => {
    const { document, errors } = await readRuleText(`${blank}mdoe: shadow\n`)
    expect(document).toBeUndefined()
    expect(errors).toMatchObject([{ line: 100_002, column: 1, field: 'mdoe' }])
    expect(errors[0]?.message).toMatch(/^100002:1: rule "a": mdoe: unknown key/)
  })
})

describe('validateRule', () => {
  test('validating a new rule reports that it is added, and changes nothing', async () => {
    const before = node.catalog.position
    const { errors, diff } = await node.editor.validateRule('id: a\nlimits: [1/day]')
    expect(errors).toEqual([])
    expect(diff?.rules).toMatchObject([{ id: 'a', change: 'added' }])
    expect(node.catalog.position).toEqual(before)
  })

  test('validating a replacement reports what becomes of its counters', async () => {
    await node.editor.create(RULE, META)
    const changed = { ...RULE, limits: [{ algorithm: 'gcra', max: 1, window: '1m' }] }
    const { diff } = await node.editor.validateRule(changed, 'orders')
    expect(diff?.rules[0]).toMatchObject({ id: 'orders', change: 'changed' })
    const fates = diff?.rules[0]?.counters.map(({ counters }) => counters)
    expect(fates).toContain('start anew')
  })

  test('errors of the text, of the id and of a duplicate id are returned', async () => {
    await node.editor.create(RULE, META)
    const bad = await node.editor.validateRule('id: orders\nlimits: [x]', 'orders')
    expect(bad).toMatchObject({ errors: [{ line: 2 }], diff: undefined })
    const other = await node.editor.validateRule('id: other\nlimits: [1/day]', 'orders')
    expect(other.errors).toMatchObject([{ code: 'bad-id', field: 'id' }])
    const taken = await node.editor.validateRule('id: orders\nlimits: [1/day]')
    expect(taken.errors).toMatchObject([{ code: 'duplicate-id', field: 'id' }])
  })

  test('warnings are those of this rule, with their place in the text', async () => {
    const log = '{ algorithm: sliding-window-log, max: 9000, window: 1h }'
    await node.editor.create({ id: 'noisy', by: ['path'], limits: ['1/day'] }, META)
    const { warnings } = await node.editor.validateRule(`id: a\nlimits:\n  - ${log}\n`)
    expect(warnings.every(({ rule }) => rule === 'a')).toBe(true)
    expect(warnings).toContainEqual(expect.objectContaining({ code: 'large-log', line: 3 }))
    expect(warnings.filter(({ code }) => code === 'large-log')).toHaveLength(1)
  })

  test('warnings of this rule are returned however many there are of other rules', async () => {
    const rules = Array.from({ length: 150 }, (_, index) => {
      return { id: `r${index}`, match: { path: `/${index}` }, by: ['path'], limits: ['1/day'] }
    })
    await node.editor.apply({ rules }, META, {})
    const { warnings } = await node.editor.validateRule({ ...rules[149], by: ['user'] }, 'r149')
    expect(warnings).toMatchObject([{ code: 'dodged-rule', rule: 'r149' }])
  })

  test('a warning that the rest of the set refutes is not returned, for objects or text', async () => {
    const net = { id: 'net', match: { where: { user: null } }, by: ['ip'], limits: ['9/second'] }
    await node.editor.create(net, META)
    const text = 'id: a\nby: [user, session]\nlimits: [1/day]\n'
    const { warnings } = await node.editor.validateRule(text)
    // A call without a user is caught by another rule; one without a session is not.
    expect(warnings).toMatchObject([
      { code: 'dodged-rule', found: '"session"', rule: 'a', line: 2, column: 5 },
    ])
    const byUser = await node.editor.validateRule('id: a\nby: [user]\nlimits: [1/day]\n')
    expect(byUser.warnings).toEqual([])
    const taken = await node.editor.validateRule('id: net\nby: [user]\nlimits: [1/day]\n')
    expect(taken).toMatchObject({ errors: [{ code: 'duplicate-id' }], warnings: [] })
  })

  test('validating a replacement of an unknown rule is refused', async () => {
    const error = await failureOf(node.editor.validateRule('id: a\nlimits: [1/day]', 'a'))
    expect(error.code).toBe('rule_unknown')
  })
})

test('creating and replacing with text is like with objects', async () => {
  const made = await node.editor.create('id: a\nlimits: [1/day]', META)
  expect(made.document).toEqual({ id: 'a', limits: ['1/day'] })
  const replaced = await node.editor.replace('a', 'id: a\nlimits: [2/day]', META, made.version)
  expect(replaced.document).toEqual({ id: 'a', limits: ['2/day'] })
  const error = await failureOf(node.editor.create('id: b\nlimits: [x]', META))
  expect(error).toMatchObject({ code: 'rules_invalid', problems: [{ line: 2, column: 10 }] })
})
