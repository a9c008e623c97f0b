/** Rollbacks of the set and of single rules. */
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
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

const present = () => node.catalog.position?.version ?? 0
const order = () => node.catalog.rules().map(({ document }) => document.id)
const NO_WHY = { by: 'ann', why: undefined }
const THIRD = { id: 'third', limits: ['1/second'] }

describe('a rollback of the set', () => {
  test('a rollback is a new version with a reason', async () => {
    await node.editor.apply([RULE, OTHER], META, {})
    const [before, version] = [contentsOf(node.catalog), present()]
    await node.editor.patch('orders', { limits: ['1/second'] }, META, undefined)
    await node.editor.remove('login', META, { expected: undefined, confirmed: false })
    await node.editor.create(THIRD, META)
    const last = present()
    const applied = await node.editor.rollback(version, NO_WHY, undefined)
    expect(applied.version).toBe(last + 1)
    expect(applied.diff.rules.map(({ id, change }) => `${id} ${change}`)).toEqual([
      'orders changed',
      'login added',
      'third removed',
    ])
    expect(contentsOf(node.catalog)).toEqual(before)
    const [newest] = await node.store.history({ limit: 1 })
    expect(newest).toMatchObject({ version: last + 1, by: 'ann', why: `rollback to ${version}` })
  })

  test('a dry run returns the same result and changes nothing', async () => {
    await node.editor.apply([RULE, OTHER], META, {})
    const version = present()
    await node.editor.patch('orders', { limits: ['1/second'] }, META, undefined)
    const [before, last] = [contentsOf(node.catalog), present()]
    const dry = await node.editor.rollback(version, META, undefined, { dryRun: true })
    const one = await node.editor.rollbackRule('orders', version, META, undefined, { dryRun: true })
    expect([contentsOf(node.catalog), present()]).toEqual([before, last])
    const { diff } = await node.editor.rollback(version, META, undefined)
    expect([dry, one]).toEqual([
      { version: last, diff, warnings: dry.warnings },
      { version: last, diff, warnings: dry.warnings },
    ])
  })

  test('a rollback to a version that is no longer kept is refused with the oldest kept one', async () => {
    await node.editor.apply([RULE, OTHER], META, {})
    vi.spyOn(node.store, 'status').mockReturnValue({
      isConnected: true,
      news: 'push',
      problem: undefined,
      keptSince: 41,
    })
    const refused = await failureOf(node.editor.rollback(40, META, undefined))
    expect(refused).toMatchObject({
      code: 'version_unknown',
      message: 'version 40 is no longer kept; accepted: versions kept since version 41',
    })
  })

  test('a rollback can be rolled back', async () => {
    await node.editor.apply([RULE], META, {})
    const first = present()
    await node.editor.apply([OTHER], META, {})
    const second = present()
    await node.editor.rollback(first, META, undefined)
    await node.editor.rollback(second, META, undefined)
    expect(order()).toEqual(['login'])
  })

  test('a rollback with nothing to undo makes no version', async () => {
    await node.editor.apply([RULE], META, {})
    const version = present()
    const { diff, ...rest } = await node.editor.rollback(version, META, undefined)
    expect(rest.version).toBe(version)
    expect(diff).toEqual({ set: [], rules: [] })
  })

  test.each([0, -1, 1.5, 99, Number.NaN])(
    'a rollback to version %d is refused',
    async (version) => {
      const failure = await failureOf(node.editor.rollback(version, META, undefined))
      expect(failure).toMatchObject({ code: 'version_unknown', status: 404 })
    },
  )

  test('a rollback to a set without rules needs confirmation', async () => {
    await node.editor.apply([RULE], META, {})
    const failure = await failureOf(node.editor.rollback(1, META, undefined))
    expect(failure.code).toBe('confirmation_needed')
    await node.editor.rollback(1, META, undefined, { confirmed: true })
    expect(order()).toEqual([])
  })

  test('a rollback does not change keys and tokens: what was revoked stays revoked', async () => {
    await node.editor.apply([RULE], META, {})
    const [key] = await node.editor.createKeys([{}], META)
    const token = await node.editor.createToken({ name: 'ci', role: 'read' }, META)
    const version = present()
    await node.editor.removeKey(key?.id ?? '', META, undefined)
    await node.editor.removeToken(token.id, META)
    await node.editor.create(OTHER, META)
    await node.editor.rollback(version, META, undefined)
    expect(order()).toEqual(['orders'])
    expect(await node.store.key(key?.id ?? '')).toBeUndefined()
    expect(node.catalog.tokens()).toEqual([])
  })

  test('a rollback is refused if the set has another version than expected', async () => {
    await node.editor.apply([RULE], META, {})
    const failure = await failureOf(node.editor.rollback(1, META, 1))
    expect(failure).toMatchObject({ code: 'version_conflict', version: node.catalog.rulesVersion })
  })
})

describe('a rollback of one rule', () => {
  test('a rollback of a rule restores the rule, its candidate and its overrides, and no other', async () => {
    await node.editor.apply([RULE, OTHER], META, {})
    await node.editor.putCandidate('orders', { limits: ['5/second'] }, META, undefined)
    const one = [{ caller: { user: 'u1' }, limits: [] }]
    await node.editor.putOverrides('orders', one, META, undefined)
    const [before, version] = [contentsOf(node.catalog).rules[0], present()]
    await node.editor.promote('orders', META, undefined)
    await node.editor.removeOverride('orders', 'user=u1', META, undefined)
    await node.editor.patch('login', { mode: 'shadow' }, META, undefined)
    const { diff } = await node.editor.rollbackRule('orders', version, META, undefined)
    expect(contentsOf(node.catalog).rules[0]).toEqual(before)
    expect(node.catalog.rule('login')?.document['mode']).toBe('shadow')
    expect(diff.rules).toMatchObject([{ id: 'orders', overrides: { added: 1 } }])
  })

  test('a rollback of a removed rule restores its place in the order', async () => {
    await node.editor.apply([OTHER, RULE, THIRD], META, {})
    const version = present()
    await node.editor.remove('orders', META, { expected: undefined, confirmed: false })
    await node.editor.create({ id: 'fourth', limits: ['1/second'] }, META)
    await node.editor.rollbackRule('orders', version, META, undefined)
    expect(order()).toEqual(['login', 'orders', 'third', 'fourth'])
  })

  test('a rollback removes a rule that did not exist, and its place', async () => {
    await node.editor.apply([RULE], META, {})
    const version = present()
    await node.editor.create(OTHER, META)
    await node.editor.rollbackRule('login', version, META, undefined)
    expect(node.catalog.set.order).toEqual(['orders'])
    const failure = await failureOf(node.editor.rollbackRule('orders', 1, META, undefined))
    expect(failure.code).toBe('confirmation_needed')
  })

  test('a rollback of a rule that never existed is refused', async () => {
    const failure = await failureOf(node.editor.rollbackRule('nope', 1, META, undefined))
    expect(failure.code).toBe('rule_unknown')
  })
})

describe('any edits', () => {
  const ids = fc.constantFrom('a', 'b', 'c')
  const limits = fc.constantFrom(['1/second'], ['2/second'], ['3/minute', '9/hour'])
  const by = fc.constantFrom(['user'], ['ip'], ['user', 'plan'])
  const caller = fc.constantFrom({ user: 'u1' }, { user: 'u2' }, { ip: '192.0.2.1' })
  const rule = fc.record({ id: ids, limits, by }, { requiredKeys: ['id', 'limits'] })
  const edit = fc.oneof(
    rule.map((document) => () => node.editor.create(document, META)),
    rule.map((document) => () => node.editor.replace(document.id, document, META, undefined)),
    fc.tuple(ids, fc.constantFrom('shadow', null)).map(
      ([id, mode]) =>
        () =>
          node.editor.patch(id, { mode }, META, undefined),
    ),
    ids.map((id) => () => node.editor.remove(id, META, { expected: undefined, confirmed: true })),
    fc.tuple(ids, limits).map(
      ([id, list]) =>
        () =>
          node.editor.putCandidate(id, { limits: list }, META, undefined),
    ),
    ids.map((id) => () => node.editor.promote(id, META, undefined)),
    fc.tuple(ids, caller, limits).map(
      ([id, who, list]) =>
        () =>
          node.editor.putOverrides(id, [{ caller: who, limits: list }], META, undefined),
    ),
    fc
      .uniqueArray(rule, { selector: ({ id }) => id })
      .map((rules) => () => node.editor.apply(rules, META, { confirmed: true })),
    fc.tuple(ids, fc.nat(8)).map(
      ([id, back]) =>
        () =>
          node.editor.rollbackRule(id, Math.max(1, present() - back), META, undefined, {
            confirmed: true,
          }),
    ),
  )

  test('after any edits, a rollback restores the set of its version', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(edit, { maxLength: 12 }), fc.nat(), async (edits, pick) => {
        await node.close()
        node = await editingNode()
        const seen = [[present(), contentsOf(node.catalog)] as const]
        for (const make of edits) {
          const before = contentsOf(node.catalog)
          const isMade = await make().then(
            () => true,
            () => false,
          )
          // The rollback restores everything or nothing.
          if (!isMade) expect(contentsOf(node.catalog)).toEqual(before)
          seen.push([present(), contentsOf(node.catalog)])
        }
        const [version, contents] = seen[pick % seen.length] ?? [1, contentsOf(node.catalog)]
        const last = present()
        const applied = await node.editor.rollback(version, META, undefined, { confirmed: true })
        expect(contentsOf(node.catalog)).toEqual(contents)
        expect([last, last + 1]).toContain(applied.version)
        expect(node.follower.problem()).toBeUndefined()
      }),
      { numRuns: 100 },
    )
  })
})
