/** Single rules and their candidates, edited on a node that follows a store. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  contentsOf,
  type EditingNode,
  editingNode,
  failureOf,
  fleet,
  META,
  OTHER,
  RULE,
} from './editor.test-helper.js'

let node: EditingNode
beforeEach(async () => {
  node = await editingNode()
})
afterEach(() => node.close())

const versionOf = () => node.catalog.position?.version ?? 0

describe('create', () => {
  test('a new rule is a new version, active when the promise resolves, as it was written', async () => {
    const before = versionOf()
    const made = await node.editor.create(RULE, META)
    expect(made).toEqual({
      document: RULE,
      candidate: undefined,
      version: before + 1,
      overrideCount: 0,
    })
    expect(node.catalog.set.order).toEqual(['orders'])
    const decision = await node.limiter.check({ attributes: { user: 'u1' } })
    expect(decision).toMatchObject({ allowed: true, rule: 'orders' })
  })

  test('candidate and overrides of a new rule are stored as own records', async () => {
    const candidate = { limits: ['5/second'] }
    const overrides = [{ caller: { user: 'u1' }, limits: [] }]
    const made = await node.editor.create({ ...RULE, candidate, overrides }, META)
    expect(made).toMatchObject({ document: RULE, candidate, overrideCount: 1 })
    expect(made.document).not.toHaveProperty('overrides')
    expect(node.catalog.override('orders', 'user=u1')?.document).toEqual(overrides[0])
  })

  test('a new rule may contain the fields that the admin API adds', async () => {
    const made = await node.editor.create({ ...RULE, version: 7, overrideCount: 3 }, META)
    expect(made.document).toEqual(RULE)
  })

  test('a duplicate id is refused with the version of the other rule', async () => {
    const { version } = await node.editor.create(RULE, META)
    const error = await failureOf(node.editor.create(RULE, META))
    expect(error).toMatchObject({ code: 'rule_exists', status: 409, version })
  })

  test('a new rule is refused with every problem of the parser at once', async () => {
    const bad = { id: 'orders', limits: ['10/secund'], ratelimit: 1 }
    const error = await failureOf(node.editor.create(bad, META))
    expect(error.code).toBe('rules_invalid')
    expect(error.problems.map(({ field }) => field).toSorted()).toEqual(['limits[0]', 'ratelimit'])
    expect(error.problems[0]?.message).toMatch(/^rule "orders": /)
    expect(versionOf()).toBe(1)
  })

  test.each([
    ['a number', 5],
    ['a list', []],
    ['nothing', undefined],
    ['a date', new Date(0)],
    ['a key that is no field', JSON.parse('{"__proto__": {"id": "x"}}')],
  ])('a new rule that is %s is refused', async (_what, document) => {
    expect((await failureOf(node.editor.create(document, META))).code).toBe('rules_invalid')
  })

  test('a rule above 64 KB, or with text that cannot be stored, is refused', async () => {
    const tiers = Object.fromEntries(
      Array.from({ length: 100 }, (_, i) => [`${i}`.repeat(400), ['1/second']]),
    )
    const large = { ...RULE, tiers: { plan: tiers } }
    const error = await failureOf(node.editor.create(large, META))
    expect(error.problems[0]?.message).toMatch(
      /^rule "orders": rule: too large: \d+ characters as JSON. Accepted: up to 65536/,
    )
    for (const description of ['a\0b', 'half \ud800']) {
      const refused = await failureOf(node.editor.create({ ...RULE, description }, META))
      expect(refused.code).toBe('rules_invalid')
    }
    expect(versionOf()).toBe(1)
  })

  test('a rule that makes the set as a whole invalid is refused', async () => {
    const many = Array.from({ length: 4 }, (_, i) => ({
      id: `many-${i}`,
      limits: Array.from({ length: 16 }, (__, at) => `${at + 1}/${at + 1}s`),
    }))
    for (const rule of many) await node.editor.create(rule, META)
    const last = await failureOf(node.editor.create(RULE, META))
    expect(last.problems.map(({ code }) => code)).toEqual(['too-many-limits'])
    expect(node.catalog.rules()).toHaveLength(4)
  })

  test('later changes to the object of the caller have no effect', async () => {
    const document = { ...RULE, limits: ['10/second'] }
    await node.editor.create(document, META)
    document.limits.push('1/second')
    expect(node.catalog.rule('orders')?.document['limits']).toEqual(['10/second'])
  })
})

describe('replace', () => {
  test('replace removes what the new document lacks, the candidate too, but no override', async () => {
    const overrides = [{ caller: { user: 'u1' }, limits: [] }]
    const first = { ...RULE, mode: 'shadow', candidate: { limits: ['1/second'] }, overrides }
    await node.editor.create(first, META)
    const replaced = await node.editor.replace(
      'orders',
      { by: 'user', limits: ['3/second'] },
      META,
      undefined,
    )
    expect(replaced.document).toEqual({ id: 'orders', by: 'user', limits: ['3/second'] })
    expect(replaced).toMatchObject({ candidate: undefined, overrideCount: 1 })
  })

  test('replace with an equal document keeps the version', async () => {
    const { version } = await node.editor.create(RULE, META)
    const { id, limits, by } = RULE
    const replaced = await node.editor.replace('orders', { limits, by, id }, META, version)
    expect(replaced.version).toBe(version)
    expect(versionOf()).toBe(version)
  })

  test('replace refuses another id, and an unknown rule', async () => {
    await node.editor.create(RULE, META)
    const renamed = await failureOf(node.editor.replace('orders', OTHER, META, undefined))
    expect(renamed.problems[0]?.message).toBe(
      'id: bad id "login". Accepted: "orders", or no id: another one is another rule',
    )
    const unknown = await failureOf(node.editor.replace('login', OTHER, META, undefined))
    expect(unknown).toMatchObject({ code: 'rule_unknown', status: 404 })
  })

  test('an edit that expects another version is refused with the present one', async () => {
    const { version } = await node.editor.create(RULE, META)
    await node.editor.patch('orders', { mode: 'shadow' }, META, version)
    const error = await failureOf(node.editor.replace('orders', RULE, META, version))
    expect(error).toMatchObject({ code: 'version_conflict', status: 409, version: version + 1 })
  })
})

describe('patch', () => {
  test('null in a patch removes a condition, and is refused if there is none', async () => {
    const match = { where: { plan: 'pro' } }
    await node.editor.replace('orders', { ...RULE, match }, META, undefined)
    const patchOf = (where: object) =>
      node.editor.patch('orders', { match: { where } }, META, undefined)
    const { code, message } = await failureOf(patchOf({ user: null }))
    expect(code).toBe('rules_invalid')
    expect(message).toContain('match.where.user')
    expect((await patchOf({ plan: null })).document['match']).toEqual({ where: {} })
  })

  beforeEach(async () => {
    const match = { path: '/v1/*', where: { plan: ['free'] } }
    await node.editor.create({ ...RULE, match, candidate: { limits: ['1/second'] } }, META)
  })

  test('a patch merges maps, replaces lists, and removes fields that are null', async () => {
    const patch = { match: { where: null }, limits: ['7/second'], description: 'x', version: 1 }
    const { document, candidate } = await node.editor.patch('orders', patch, META, undefined)
    const { id, by } = RULE
    const match = { path: '/v1/*' }
    expect(document).toEqual({ id, by, limits: ['7/second'], match, description: 'x' })
    expect(candidate).toEqual({ limits: ['1/second'] })
  })

  test('a patch can change and remove the candidate', async () => {
    const tiers = { plan: { pro: [] } }
    const merged = await node.editor.patch('orders', { candidate: { tiers } }, META, undefined)
    expect(merged.candidate).toEqual({ limits: ['1/second'], tiers })
    const removed = await node.editor.patch('orders', { candidate: null }, META, undefined)
    expect(removed.candidate).toBeUndefined()
    expect(removed.version).toBe(versionOf())
  })

  test('a patch replaces all overrides if it has a list of them, and none otherwise', async () => {
    const overrides = [{ caller: { user: 'u1' }, limits: [] }]
    await node.editor.patch('orders', { overrides }, META, undefined)
    const kept = await node.editor.patch('orders', { mode: 'shadow' }, META, undefined)
    expect(kept.overrideCount).toBe(1)
    const gone = await node.editor.patch('orders', { overrides: null }, META, undefined)
    expect(gone.overrideCount).toBe(0)
  })

  test.each([[5], ['x'], [[]], [{ limits: 'all' }], [{ id: 'other' }]])(
    'the patch %j is refused',
    async (patch) => {
      const before = contentsOf(node.catalog)
      const error = await failureOf(node.editor.patch('orders', patch, META, undefined))
      expect(error.code).toBe('rules_invalid')
      expect(contentsOf(node.catalog)).toEqual(before)
    },
  )
})

describe('a change of what a rule counts by', () => {
  beforeEach(async () => {
    const overrides = [{ caller: { user: 'u1', plan: 'pro' }, limits: [] }]
    await node.editor.create({ ...RULE, by: ['user', 'plan'], overrides }, META)
  })

  test('by cannot change if overrides would no longer fit', async () => {
    const error = await failureOf(node.editor.patch('orders', { by: ['ip'] }, META, undefined))
    expect(error.code).toBe('rules_invalid')
    expect(error.problems[0]?.message).toBe(
      'rule "orders": by: 1 of its 1 overrides would no longer fit, such as user=u1,plan=pro. ' +
        'Accepted: a by that fits them; or remove those overrides first, or give "overrides" with the rule',
    )
    const given = { by: ['ip'], overrides: [] }
    const patched = await node.editor.patch('orders', given, META, undefined)
    expect(patched.overrideCount).toBe(0)
  })

  test('the order of by can change, and overrides get new ids', async () => {
    await node.editor.patch('orders', { by: ['plan', 'user'] }, META, undefined)
    const ids = node.catalog.overrides('orders', undefined, 10).map(({ id }) => id)
    expect(ids).toEqual(['plan=pro,user=u1'])
  })

  test('by and cost must leave overrides that a call can pass', async () => {
    const limits = ['2/second']
    const one = { caller: { user: 'u2', plan: 'pro' }, limits }
    await node.editor.putOverrides('orders', [one], META, undefined)
    const error = await failureOf(node.editor.patch('orders', { cost: 3 }, META, undefined))
    expect(error.problems[0]).toMatchObject({ field: 'cost', found: '1 of its 2 overrides' })
  })
})

describe('remove', () => {
  test('remove deletes a rule with its candidate and overrides in one version', async () => {
    const overrides = [{ caller: { user: 'u1' }, limits: [] }]
    await node.editor.create(OTHER, META)
    await node.editor.create({ ...RULE, candidate: { limits: ['1/second'] }, overrides }, META)
    const before = versionOf()
    const options = { expected: undefined, confirmed: false }
    expect(await node.editor.remove('orders', META, options)).toBe(before + 1)
    expect(node.catalog.rules().map(({ document }) => document)).toEqual([OTHER])
    await node.editor.create(RULE, META)
    expect(node.catalog.rule('orders')).toMatchObject({ candidate: undefined, overrideCount: 0 })
  })

  test('removing the last rule needs confirmation', async () => {
    const { version } = await node.editor.create(RULE, META)
    const options = { expected: version, confirmed: false }
    const error = await failureOf(node.editor.remove('orders', META, options))
    expect(error).toMatchObject({ code: 'confirmation_needed', status: 409 })
    expect(error.message).toMatch(/every call is allowed/)
    await node.editor.remove('orders', META, { ...options, confirmed: true })
    expect(node.catalog.rules()).toEqual([])
  })
})

describe('candidates', () => {
  test('a candidate is tried beside the active limits, and changes the version of the rule', async () => {
    const { version } = await node.editor.create(RULE, META)
    const candidate = { limits: ['5/second'], tiers: { plan: { pro: ['9/second'] } } }
    const put = await node.editor.putCandidate('orders', candidate, META, version)
    expect(put).toMatchObject({ document: RULE, candidate, version: version + 1 })
    const removed = await node.editor.removeCandidate('orders', META, put.version)
    expect(removed).toMatchObject({ candidate: undefined, version: version + 2 })
  })

  test('promote replaces limits and tiers by the candidate in one version', async () => {
    const tiers = { plan: { pro: ['100/second'] } }
    await node.editor.create({ id: 'orders', tiers, by: ['user'], limits: ['10/second'] }, META)
    const { version } = await node.editor.putCandidate(
      'orders',
      { limits: ['5/second'] },
      META,
      undefined,
    )
    const promoted = await node.editor.promote('orders', META, version)
    expect(promoted).toEqual({
      document: { id: 'orders', by: ['user'], limits: ['5/second'] },
      candidate: undefined,
      version: version + 1,
      overrideCount: 0,
    })
  })

  test('an invalid or missing candidate is refused', async () => {
    await node.editor.create(RULE, META)
    for (const bad of [null, undefined, {}, { limits: [] }, { limits: ['1/second'], by: 'ip' }]) {
      const error = await failureOf(node.editor.putCandidate('orders', bad, META, undefined))
      expect(error.code).toBe('rules_invalid')
      expect(error.problems[0]?.field).toMatch(/^candidate/)
    }
    const { editor } = node
    for (const edit of [
      editor.promote('orders', META, undefined),
      editor.removeCandidate('orders', META, undefined),
    ]) {
      expect((await failureOf(edit)).code).toBe('candidate_unknown')
    }
  })
})

describe('concurrent edits', () => {
  test('of two edits of one rule one succeeds, and the other gets the present version', async () => {
    const [one, two] = await fleet(2)
    if (one === undefined || two === undefined) throw new Error('two nodes')
    const { version } = await one.editor.create(RULE, META)
    const edits = [one, two].map(({ editor }, index) =>
      editor.patch('orders', { description: `${index}` }, META, version),
    )
    const results = await Promise.allSettled(edits)
    const won = results.filter(({ status }) => status === 'fulfilled')
    expect(won).toHaveLength(1)
    const lost = edits[results.findIndex(({ status }) => status === 'rejected')]
    const error = await failureOf(lost ?? Promise.resolve())
    expect(error).toMatchObject({ code: 'version_conflict', version: version + 1 })
    await Promise.all([one, two].map((each) => each.close()))
  })

  test('a node that lags behind reads the store before it reports an unknown rule', async () => {
    const [one, two] = await fleet(2)
    if (one === undefined || two === undefined) throw new Error('two nodes')
    const { version } = await one.editor.create(RULE, META)
    const patched = await two.editor.patch('orders', { mode: 'shadow' }, META, version)
    expect(patched.version).toBe(version + 1)
    await one.editor.remove('orders', META, { expected: patched.version, confirmed: true })
    expect(await two.editor.create(RULE, META)).toMatchObject({ document: RULE })
    await Promise.all([one, two].map((each) => each.close()))
  })
})

describe('the audit log', () => {
  const logged = (level: string) =>
    node.lines.filter((line) => line['level'] === level && 'by' in line)

  test('every change logs a line: who, why and what', async () => {
    const overrides = [{ caller: { user: 'secret-user' }, limits: [] }]
    const { version } = await node.editor.create({ ...RULE, overrides }, META)
    expect(logged('info').at(-1)).toMatchObject({
      version,
      by: 'ann',
      why: 'a test',
      what: ['set changed', 'rule orders created', 'rule orders: 1 overrides set, 0 removed'],
      msg: 'rules changed',
    })
    expect(JSON.stringify(node.lines)).not.toContain('secret-user')
  })

  test('a change that weakens a rule logs a warning', async () => {
    await node.editor.create(RULE, META)
    await node.editor.patch('orders', { posture: 'open' }, META, undefined)
    await node.editor.patch('orders', { mode: 'shadow' }, META, undefined)
    await node.editor.patch('orders', { mode: null }, META, undefined)
    await node.editor.remove('orders', META, { expected: undefined, confirmed: true })
    expect(logged('warn').map((line) => line['msg'])).toEqual([
      'rule now fails open: every call is allowed while the store does not answer',
      'rule no longer enforced: mode is now shadow',
      'enforced rule removed',
    ])
  })
})
