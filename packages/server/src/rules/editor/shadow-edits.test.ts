/** Timed shadows as the editor stores them. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type EditingNode, editingNode, failureOf, META, NOW_MS } from './editor.test-helper.js'

let node: EditingNode
beforeEach(async () => {
  node = await editingNode()
  await node.editor.create({ id: 'a', by: ['user'], limits: ['0/second'] }, META)
  await node.editor.create({ id: 'b', by: ['plan'], limits: ['0/second'] }, META)
})
afterEach(() => node.close())

const UNTIL = new Date(NOW_MS + 900_000).toISOString()
const entry = { until: UNTIL, forMs: 900_000 }
const isRefused = async (attributes: Readonly<Record<string, string>>) =>
  !(await node.limiter.check({ attributes })).allowed
const all = { rule: undefined, duration: '15m' }

describe('a timed shadow', () => {
  test('a shadow of all rules is one version, and documents are unchanged', async () => {
    const done = await node.editor.shadow(all, META)
    expect(done).toEqual({ version: node.catalog.position?.version, until: UNTIL, rule: undefined })
    expect(node.catalog.set.shadow).toEqual({ all: entry })
    expect(node.catalog.rule('a')?.document).not.toHaveProperty('mode')
    expect(await isRefused({ user: 'u', plan: 'p' })).toBe(false)
    const [last] = await node.store.history({ limit: 1 })
    expect(last).toMatchObject({ by: META.by, why: META.why, changes: [{ kind: 'set' }] })
    expect(node.lines).toContainEqual(
      expect.objectContaining({
        rule: 'all rules',
        msg: `timed shadow: no refusal until ${UNTIL}`,
      }),
    )
  })

  test('ending the shadow of all rules also ends those of single rules', async () => {
    await node.editor.shadow(all, META)
    await node.editor.shadow({ rule: 'a', duration: '1h' }, META)
    await node.editor.endShadow(undefined, META)
    expect(node.catalog.set).not.toHaveProperty('shadow')
    expect(await isRefused({ user: 'u' })).toBe(true)
    const version = node.catalog.position?.version
    expect(await node.editor.endShadow(undefined, META)).toBe(version)
  })

  test('a shadow of one rule ends with a patch of its mode, and not with another change', async () => {
    await node.editor.shadow({ rule: 'a', duration: '15m' }, META)
    await node.editor.patch('a', { description: 'other' }, META, undefined)
    expect(await isRefused({ user: 'u' })).toBe(false)
    expect(await isRefused({ plan: 'p' })).toBe(true)
    await node.editor.patch('a', { mode: 'enforce' }, META, undefined)
    expect(await isRefused({ user: 'u' })).toBe(true)
    expect(node.catalog.set).not.toHaveProperty('shadow')
  })

  test('the shadow of a removed rule does not apply to a later rule with its id', async () => {
    await node.editor.shadow({ rule: 'a', duration: '15m' }, META)
    await node.editor.remove('a', META, { expected: undefined, confirmed: false })
    await node.editor.create({ id: 'a', by: ['user'], limits: ['0/second'] }, META)
    expect(await isRefused({ user: 'u' })).toBe(true)
  })

  test('a shadow survives a new set of rules and a rollback', async () => {
    const before = node.catalog.position?.version ?? 0
    await node.editor.shadow(all, META)
    const set = { rules: [{ id: 'c', by: ['user'], limits: ['0/second'] }] }
    await node.editor.apply(set, META, {})
    expect(await isRefused({ user: 'u' })).toBe(false)
    await node.editor.rollback(before, META, undefined)
    expect(node.catalog.set).toMatchObject({ order: ['a', 'b'], shadow: { all: entry } })
    expect(await isRefused({ user: 'u' })).toBe(false)
  })

  test.each(['59s', '25h', '0m', '15', 'soon', '', '-15m', '15m\n'])(
    'the duration %j is refused with what is accepted',
    async (duration) => {
      const { problems } = await failureOf(node.editor.shadow({ rule: undefined, duration }, META))
      expect(problems[0]?.message).toContain('a duration from 1m to 24h, such as 15m')
    },
  )

  test('a shadow of an unknown rule is refused', async () => {
    const input = { rule: 'nothing', duration: '15m' }
    expect(await failureOf(node.editor.shadow(input, META))).toMatchObject({ code: 'rule_unknown' })
  })
})
