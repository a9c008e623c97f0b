/** Large sets, parsed in a worker thread, behave like small ones. */
import { afterEach, describe, expect, test } from 'vitest'
import { contentsOf, type EditingNode, editingNode, failureOf, META } from './editor.test-helper.js'
import { isLarge, parseLargeJson } from './worker-parse.js'

const open: EditingNode[] = []
afterEach(async () => {
  await Promise.all(open.splice(0).map((node) => node.close()))
})

async function openNode(): Promise<EditingNode> {
  const node = await editingNode()
  open.push(node)
  return node
}

const rules = Array.from({ length: 100 }, (_, index) => ({
  id: `r${index}`,
  match: { path: `/p${index}` },
  by: ['user'],
  limits: ['10/second'],
  description: 'd'.repeat(700),
}))

describe('a large set as JSON', () => {
  test('a large set is applied like the same objects, without the fields that the admin API adds', async () => {
    const response = rules.map((rule) => ({ ...rule, version: 3, overrideCount: 0 }))
    const text = JSON.stringify({ version: 7, next: null, rules: response })
    expect(isLarge(text)).toBe(true)
    const set = await parseLargeJson(text, {})
    expect([set.version, set.next]).toEqual([7, null])
    const [large, small] = [await openNode(), await openNode()]
    await large.editor.apply(set, META, {})
    await small.editor.apply({ rules }, META, {})
    expect(contentsOf(large.catalog)).toEqual(contentsOf(small.catalog))
  })

  test('a large set has the errors of the same objects', async () => {
    const bad = [...rules, { id: 'bad', limit: 1 }]
    const { editor } = await openNode()
    const set = await parseLargeJson(JSON.stringify(bad), { file: 'rules.json' })
    const options = { file: 'rules.json' }
    expect(await editor.validate(set, options)).toEqual(await editor.validate(bad, options))
  })

  test('a large text that is not a set or not JSON is refused', async () => {
    const { editor } = await openNode()
    const text = JSON.stringify(`rules: [] # ${'x'.repeat(70_000)}`)
    const set = await parseLargeJson(text, {})
    expect((await failureOf(editor.apply(set, META, {}))).code).toBe('rules_invalid')
    await expect(parseLargeJson('{'.repeat(70_000), {})).rejects.toBeInstanceOf(SyntaxError)
  })

  test('large sets wait for each other, and too many are refused', async () => {
    const text = JSON.stringify(rules)
    const reading = Array.from({ length: 12 }, () => parseLargeJson(text, {}))
    const settled = await Promise.allSettled(reading)
    const refused = settled.filter(({ status }) => status === 'rejected')
    expect(refused).toHaveLength(3)
    expect(refused[0]).toMatchObject({ reason: { code: 'rules_unavailable' } })
  })
})
