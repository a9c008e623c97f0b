/** One rule as text: read with its places, and said what it would do before it does it. */
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
  test('is what stands in a rules file, without the dash', async () => {
    const text = '# mine\nid: orders\ndescription: |\n  one\n\n  two\nlimits: [10/second]\n'
    const { document, errors } = await readRuleText(text)
    expect(errors).toEqual([])
    expect(document).toEqual({
      id: 'orders',
      description: 'one\n\ntwo\n',
      limits: ['10/second'],
    })
  })

  test('may be JSON, begin with a mark, or stand further right', async () => {
    for (const text of [
      '{\n"id": "a", "limits": ["1/day"]\n}',
      '\ufeffid: a\nlimits: [1/day]',
      '    id: a\n    limits:\n    - 1/day',
    ]) {
      expect((await readRuleText(text)).document).toEqual({ id: 'a', limits: ['1/day'] })
    }
  })

  test('its problems have the line and column of the text as it was written', async () => {
    const { document, errors } = await readRuleText('id: a\nlimits: [10 per sec]\nmdoe: shadow\n')
    expect(document).toBeUndefined()
    expect(errors.map(({ line, column, field }) => [line, column, field])).toEqual([
      [2, 10, 'limits[0]'],
      [3, 1, 'mdoe'],
    ])
    expect(errors[1]?.message).toMatch(/^3:1: rule "a": mdoe: unknown key/)
  })

  test.each(['', 'hello', '- id: a\n  limits: [1/day]', '- {', '--- \nid: a', 'id: !x a'])(
    'is refused as %j',
    async (text) => {
      expect((await readRuleText(text)).errors.length).toBeGreaterThan(0)
    },
  )
})

describe('a long text', () => {
  const blank = `id: a\nlimits: [1/day]${'\n'.repeat(100_000)}`

  test('is read beside the calls that are decided', async () => {
    let turns = 0
    const read = readRuleText(blank)
    const isOver = read.then(() => true)
    while (!(await Promise.race([isOver, nextTurn(false)]))) turns++
    expect(turns).toBeGreaterThan(2)
    expect((await read).document).toEqual({ id: 'a', limits: ['1/day'] })
  })

  test('has the places of its problems as a short one has', async () => {
    const { document, errors } = await readRuleText(`${blank}mdoe: shadow\n`)
    expect(document).toBeUndefined()
    expect(errors).toMatchObject([{ line: 100_002, column: 1, field: 'mdoe' }])
    expect(errors[0]?.message).toMatch(/^100002:1: rule "a": mdoe: unknown key/)
  })
})

describe('what a rule would do', () => {
  test('a new one is added, and nothing changes', async () => {
    const before = node.catalog.position
    const { errors, diff } = await node.editor.validateRule('id: a\nlimits: [1/day]')
    expect(errors).toEqual([])
    expect(diff?.rules).toMatchObject([{ id: 'a', change: 'added' }])
    expect(node.catalog.position).toEqual(before)
  })

  test('one in place of another says what becomes of its counters', async () => {
    await node.editor.create(RULE, META)
    const changed = { ...RULE, limits: [{ algorithm: 'gcra', max: 1, window: '1m' }] }
    const { diff } = await node.editor.validateRule(changed, 'orders')
    expect(diff?.rules[0]).toMatchObject({ id: 'orders', change: 'changed' })
    const fates = diff?.rules[0]?.counters.map(({ counters }) => counters)
    expect(fates).toContain('start anew')
  })

  test('errors are an answer: of the text, of the id, of an id that is taken', async () => {
    await node.editor.create(RULE, META)
    const bad = await node.editor.validateRule('id: orders\nlimits: [x]', 'orders')
    expect(bad).toMatchObject({ errors: [{ line: 2 }], diff: undefined })
    const other = await node.editor.validateRule('id: other\nlimits: [1/day]', 'orders')
    expect(other.errors).toMatchObject([{ code: 'bad-id', field: 'id' }])
    const taken = await node.editor.validateRule('id: orders\nlimits: [1/day]')
    expect(taken.errors).toMatchObject([{ code: 'duplicate-id', field: 'id' }])
  })

  test('warnings are those of this rule, with their place where the text has it', async () => {
    const log = '{ algorithm: sliding-window-log, max: 9000, window: 1h }'
    await node.editor.create({ id: 'noisy', by: ['path'], limits: ['1/day'] }, META)
    const { warnings } = await node.editor.validateRule(`id: a\nlimits:\n  - ${log}\n`)
    expect(warnings.every(({ rule }) => rule === 'a')).toBe(true)
    expect(warnings).toContainEqual(expect.objectContaining({ code: 'large-log', line: 3 }))
    expect(warnings.filter(({ code }) => code === 'large-log')).toHaveLength(1)
  })

  test('they are told however many there are of other rules', async () => {
    const rules = Array.from({ length: 150 }, (_, index) => {
      return { id: `r${index}`, match: { path: `/${index}` }, by: ['path'], limits: ['1/day'] }
    })
    await node.editor.apply({ rules }, META, {})
    const { warnings } = await node.editor.validateRule({ ...rules[149], by: ['user'] }, 'r149')
    expect(warnings).toMatchObject([{ code: 'dodged-rule', rule: 'r149' }])
  })

  test('one is not told that the rest of the set makes untrue, of a value or of a text', async () => {
    const net = { id: 'net', match: { where: { user: null } }, by: ['ip'], limits: ['9/second'] }
    await node.editor.create(net, META)
    const text = 'id: a\nby: [user, session]\nlimits: [1/day]\n'
    const { warnings } = await node.editor.validateRule(text)
    // Nobody leaves out the user unseen; whoever leaves out the session does.
    expect(warnings).toMatchObject([
      { code: 'dodged-rule', found: '"session"', rule: 'a', line: 2, column: 5 },
    ])
    const byUser = await node.editor.validateRule('id: a\nby: [user]\nlimits: [1/day]\n')
    expect(byUser.warnings).toEqual([])
    const taken = await node.editor.validateRule('id: net\nby: [user]\nlimits: [1/day]\n')
    expect(taken).toMatchObject({ errors: [{ code: 'duplicate-id' }], warnings: [] })
  })

  test('a rule that is not there is told as such', async () => {
    const error = await failureOf(node.editor.validateRule('id: a\nlimits: [1/day]', 'a'))
    expect(error.code).toBe('rule_unknown')
  })
})

test('a text is created and replaced as its value would be', async () => {
  const made = await node.editor.create('id: a\nlimits: [1/day]', META)
  expect(made.document).toEqual({ id: 'a', limits: ['1/day'] })
  const replaced = await node.editor.replace('a', 'id: a\nlimits: [2/day]', META, made.version)
  expect(replaced.document).toEqual({ id: 'a', limits: ['2/day'] })
  const error = await failureOf(node.editor.create('id: b\nlimits: [x]', META))
  expect(error).toMatchObject({ code: 'rules_invalid', problems: [{ line: 2, column: 10 }] })
})
