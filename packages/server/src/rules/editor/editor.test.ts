/** Edits while the store fails, or while others edit too. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { memoryRuleStore } from '../store/memory-rule-store.test-helper.js'
import {
  type Commit,
  ConflictError,
  DivergedError,
  type RuleStore,
  UnavailableError,
} from '../store/rule-store.js'
import type { RuleFollower } from '../sync/rule-follower.js'
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

let node: EditingNode | undefined
beforeEach(() => {
  node = undefined
})
afterEach(() => node?.close())

/** A store whose commits go through the given function. */
function withCommit(commit: (given: Commit, store: RuleStore) => ReturnType<RuleStore['commit']>) {
  const store = memoryRuleStore()
  const own = store.commit.bind(store)
  const plain = Object.assign(store.connect(), { commit: own })
  return Object.assign(store, { commit: (given: Commit) => commit(given, plain) })
}

async function startNode(options: Parameters<typeof editingNode>[0]): Promise<EditingNode> {
  node = await editingNode(options)
  return node
}

describe('read-only nodes', () => {
  test('rules of a file cannot be changed, and can still be validated', async () => {
    const name = 'the file /etc/sluice/rules.yaml'
    const wrap = (follower: RuleFollower): RuleFollower => ({
      ...follower,
      name,
      store: undefined,
      catalog: follower.catalog,
      version: () => 3,
    })
    const { editor } = await startNode({ wrap })
    const message =
      'Rules come from the file /etc/sluice/rules.yaml (SLUICE_RULES); change it there'
    expect(editor.readOnly).toBe(message)
    for (const edit of [
      editor.create(RULE, META),
      editor.create(5, META),
      editor.patch('orders', {}, META, undefined),
      editor.apply([RULE], META, {}),
      editor.rollback(1, META, undefined),
      editor.createKeys([{}], META),
      editor.createToken({ name: 'a', role: 'read' }, META),
      editor.adopt(META),
    ]) {
      expect(await failureOf(edit)).toMatchObject({ code: 'read_only', status: 403, message })
    }
    expect((await editor.validate([RULE], {})).diff?.rules).toHaveLength(1)
  })

  test('a store that was never read cannot be edited', async () => {
    const store = Object.assign(memoryRuleStore(), {
      read: () => {
        throw new UnavailableError('no route to the database')
      },
    })
    const { editor } = await startNode({ store })
    const failure = await failureOf(editor.create(RULE, META))
    expect(failure).toMatchObject({ code: 'rules_unavailable', status: 503 })
    expect(failure.message).toMatch(/^the rules are not known yet: .*no route to the database/)
  })
})

describe('an unavailable store', () => {
  test('the error says whether the change may have been made', async () => {
    let isUncertain = false
    const store = withCommit(async () => {
      throw new UnavailableError('the connection was lost', { isUncertain })
    })
    const { editor, catalog } = await startNode({ store })
    const sure = await failureOf(editor.create(RULE, META))
    expect(sure).toMatchObject({
      code: 'rules_unavailable',
      message: 'the connection was lost; nothing was changed',
    })
    isUncertain = true
    const unsure = await failureOf(editor.create(RULE, META))
    expect(unsure.message).toBe(
      'the connection was lost; it is not known whether the change was made: check before you repeat it',
    )
    expect(catalog.rules()).toEqual([])
  })

  test('a failure after the commit is reported with the version', async () => {
    const store = memoryRuleStore()
    const read = store.read.bind(store)
    let isGone = false
    const broken = Object.assign(store, {
      read: (since: Parameters<RuleStore['read']>[0]) => {
        if (isGone) throw new UnavailableError('gone')
        return read(since)
      },
      commit: async (commit: Commit) => {
        const position = await store.connect().commit(commit)
        isGone = true
        return position
      },
    })
    const { editor } = await startNode({ store: broken })
    const failure = await failureOf(editor.create(RULE, META))
    expect(failure.code).toBe('rules_unavailable')
    expect(failure.message).toMatch(/^the change was made, as version 2, but is not active/)
  })
})

describe('a restored store', () => {
  test('a restored store cannot be edited until it is adopted', async () => {
    const [first, second] = [memoryRuleStore(), memoryRuleStore()]
    const changing = { store: first }
    const handle = new Proxy(first, {
      get: (_target, name) => {
        const value: unknown = Reflect.get(changing.store, name)
        return typeof value === 'function' ? value.bind(changing.store) : value
      },
    })
    const { editor, catalog } = await startNode({ store: handle })
    await editor.create(RULE, META)
    await editor.create(OTHER, META)
    const seen = catalog.position?.version ?? 0
    expect(await editor.adopt(META)).toBe(seen)
    changing.store = second
    const failure = await failureOf(editor.patch('nope', {}, META, undefined))
    expect(failure).toMatchObject({ code: 'rules_diverged', status: 409 })
    expect(failure.cause).toBeInstanceOf(DivergedError)
    expect(catalog.rules()).toHaveLength(2)
    expect(await editor.adopt(META)).toBe(seen + 1)
    expect(catalog.rules()).toEqual([])
    expect(await editor.create(RULE, META)).toMatchObject({ version: seen + 2 })
  })
})

describe('invalid rules in the store', () => {
  test('invalid rules do not block changes of others, or their repair', async () => {
    const { editor, store, follower, catalog } = await startNode({})
    await editor.apply([RULE, OTHER], META, {})
    const base = catalog.position?.version ?? 0
    const body = { id: 'orders', limits: ['by hand'] }
    const changes = [{ kind: 'rule', id: 'orders', body }] as const
    await store.commit({ base, by: 'psql', why: undefined, changes })
    await follower.refresh(base + 1)
    await editor.patch('login', { mode: 'shadow' }, META, undefined)
    expect(follower.problem()).toMatch(/orders/)
    const failure = await failureOf(editor.patch('orders', { mode: 'off' }, META, undefined))
    expect(failure.code).toBe('rules_invalid')
    const { diff } = await editor.apply([OTHER], META, { dryRun: true })
    expect(diff.rules.map(({ id, change }) => `${id} ${change}`)).toContain('orders removed')
    await editor.replace('orders', RULE, META, undefined)
    expect(follower.problem()).toBeUndefined()
  })
})

describe('concurrent changes', () => {
  test('changes in one process wait for each other, and none is lost', async () => {
    const conflicts: number[] = []
    const store = withCommit((given, plain) =>
      plain.commit(given).catch((error: unknown) => {
        if (error instanceof ConflictError) conflicts.push(error.version)
        throw error
      }),
    )
    const { editor, catalog } = await startNode({ store })
    const rules = Array.from({ length: 30 }, (_, i) => ({ ...RULE, id: `rule-${i}` }))
    await Promise.all(rules.map((rule) => editor.create(rule, META)))
    expect(catalog.rules().map(({ document }) => document)).toEqual(rules)
    expect(conflicts).toEqual([])
  })

  test('changes beyond a bound are refused', async () => {
    const store = withCommit(async () => {
      throw new UnavailableError('slow')
    })
    const { editor } = await startNode({ store })
    const edits = Array.from({ length: 300 }, () => failureOf(editor.create(RULE, META)))
    const messages = (await Promise.all(edits)).map(({ message }) => message)
    expect(messages.filter((message) => message === 'slow; nothing was changed')).toHaveLength(201)
    expect(messages.at(-1)).toBe('200 changes are waiting already; nothing was changed. Try again')
  })

  test('concurrent changes on twenty nodes are all made', async () => {
    const nodes = await fleet(20)
    const rules = nodes.map((_, i) => ({ ...RULE, id: `rule-${i}` }))
    const made = await Promise.allSettled(
      nodes.map(({ editor }, i) => editor.create(rules[i], META)),
    )
    expect(made.filter(({ status }) => status === 'rejected')).toEqual([])
    await Promise.all(nodes.map(({ follower }) => follower.refresh(21)))
    const [first, ...others] = nodes.map(({ catalog }) => contentsOf(catalog))
    expect(first?.set.order.toSorted()).toEqual(rules.map(({ id }) => id).toSorted())
    for (const other of others) expect(other).toEqual(first)
    await Promise.all(nodes.map((each) => each.close()))
  })

  test('repeated conflicts end in an error, not in a loop', async () => {
    const waits: number[] = []
    const store = withCommit(async ({ base }) => {
      throw new ConflictError(base + 1)
    })
    const wait = async (ms: number) => void waits.push(ms)
    const { editor } = await startNode({ store, wait })
    const failure = await failureOf(editor.create(RULE, META))
    expect(failure).toMatchObject({ code: 'rules_unavailable' })
    expect(failure.message).toMatch(/^8 times another change was faster; nothing was changed/)
    expect(waits).toHaveLength(8)
    for (const [index, ms] of waits.entries()) expect(ms).toBeLessThanOrEqual(10 * 2 ** index)
  })
})
