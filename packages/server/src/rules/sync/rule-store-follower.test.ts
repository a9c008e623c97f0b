import { afterEach, describe, expect, test } from 'vitest'
import { DivergedError, UnavailableError } from '../store/rule-store.js'
import { flakyStore } from './flaky-store.test-helper.js'
import { manualScheduler, settle } from '../../lib/manual-scheduler.test-helper.js'
import {
  closeNodes,
  commit,
  keyOf,
  limitOf,
  messagesOf,
  newStore,
  overrideOf,
  ruleOf,
  setOf,
  startNode,
} from './rule-store-follower.test-helper.js'

afterEach(closeNodes)

describe('the start of a node', () => {
  test('a node that starts has the rules, candidates, overrides and keys of the store', async () => {
    const store = newStore()
    await commit(
      store,
      ruleOf('a'),
      setOf('a'),
      { kind: 'candidate', id: 'a', body: { limits: ['3/second'] } },
      overrideOf('a', 'u1', 50),
      keyOf('k1', 'pro'),
    )
    const node = await startNode(store)
    expect(node.follower.isReady()).toBe(true)
    expect(node.follower.version()).toBe(2)
    expect(node.follower.problem()).toBeUndefined()
    expect(node.follower.ageSeconds()).toBe(0)
    expect(await limitOf(node, 'u1')).toBe(50)
    expect(await limitOf(node, 'u2')).toBe(10)
    const { explain } = await node.limiter.explain({ attributes: { user: 'u2' } })
    expect(JSON.stringify(explain)).toContain('candidate')
    expect([...node.keys.inUse.keys()]).toEqual(['k1'])
    expect(node.keys.secret).toHaveLength(64)
    expect(await store.nodes()).toMatchObject([{ id: 'n', rulesVersion: 2, problem: undefined }])
  })

  test.each(['refused', 'silent'] as const)(
    'a node without a store (%s) and without a copy is not ready until the store answers',
    async (fault) => {
      const store = newStore()
      await commit(store, ruleOf('a'), setOf('a'))
      const flaky = flakyStore(store.connect())
      flaky.fault = fault
      const node = await startNode(store, { store: flaky })
      expect(node.follower.isReady()).toBe(false)
      expect(node.follower.version()).toBe(0)
      expect(node.follower.problem()).toMatch(/^memory: (connection refused|it did not answer)/)
      expect(messagesOf(node, 'error')).toEqual(['no rules loaded yet: nothing is decided'])
      flaky.fault = 'none'
      await node.scheduler.advance(fault === 'silent' ? 31_000 : 6000)
      expect(node.follower.isReady()).toBe(true)
      expect(node.follower.problem()).toBeUndefined()
      expect(await limitOf(node, 'u')).toBe(10)
    },
  )

  test('the start waits 5 s for a store that does not answer', async () => {
    const scheduler = manualScheduler()
    const store = flakyStore(newStore())
    store.fault = 'silent'
    await startNode(store.target, { store, scheduler })
    expect(scheduler.nowMs()).toBeGreaterThanOrEqual(5000)
    expect(scheduler.nowMs()).toBeLessThan(5200)
  })
})

describe('changes of the store', () => {
  test('a change is active at once, in the catalog and for calls', async () => {
    const store = newStore()
    const node = await startNode(store)
    expect(await limitOf(node, 'u1')).toBeUndefined()
    await commit(store, ruleOf('a'), setOf('a'), overrideOf('a', 'u1', 50))
    await node.scheduler.advance(250)
    expect(await limitOf(node, 'u1')).toBe(50)
    await commit(store, overrideOf('a', 'u1', 60), keyOf('k1', 'pro'))
    await node.scheduler.advance(250)
    expect(await limitOf(node, 'u1')).toBe(60)
    expect(node.keys.inUse.size).toBe(1)
    await commit(store, ruleOf('a', { limits: ['20/second'] }))
    await node.scheduler.advance(250)
    expect(await limitOf(node, 'u1')).toBe(60)
    expect(await limitOf(node, 'u2')).toBe(20)
    await commit(store, { kind: 'override', id: 'a/user=u1', body: null })
    await node.scheduler.advance(250)
    expect(await limitOf(node, 'u1')).toBe(20)
    expect(node.store.wholeReads).toBe(1)
    await node.scheduler.advance(0)
    expect(await store.nodes()).toMatchObject([{ rulesVersion: 5 }])
    const logged = node.lines.filter(({ msg }) => msg === 'rules activated')
    expect(logged.map((line) => line['version'])).toEqual([1, 2, 3, 4, 5])
  })

  test('overrides follow a change of what their rule counts by', async () => {
    const store = newStore()
    await commit(store, ruleOf('a'), setOf('a'), overrideOf('a', 'u1', 50))
    const node = await startNode(store)
    await commit(
      store,
      ruleOf('a', { by: ['user', 'plan'] }),
      { kind: 'override', id: 'a/user=u1', body: null },
      {
        kind: 'override',
        id: 'a/user=u1,plan=a%2Cb',
        body: { caller: { user: 'u1', plan: 'a,b' }, limits: ['70/second'] },
      },
    )
    await node.scheduler.advance(250)
    expect(node.follower.problem()).toBeUndefined()
    expect(await limitOf(node, 'u1', { plan: 'a,b' })).toBe(70)
    expect(await limitOf(node, 'u1', { plan: 'c' })).toBe(10)
    await commit(store, { kind: 'override', id: 'a/user=u1,plan=a%2Cb', body: null })
    await node.scheduler.advance(250)
    expect(await limitOf(node, 'u1', { plan: 'a,b' })).toBe(10)
  })

  test('a whole read, as after an adoption, changes only what differs', async () => {
    const store = newStore()
    await commit(store, ruleOf('a'), setOf('a'), overrideOf('a', 'u1', 50), keyOf('k1', 'pro'))
    const node = await startNode(store)
    const document = node.follower.catalog.rule('a')?.document
    const position = await store.adopt(9, 'test', undefined)
    await node.follower.refresh(position.version)
    expect(node.follower.version()).toBe(10)
    expect(node.store.wholeReads).toBe(2)
    expect(node.follower.catalog.rule('a')?.document).toBe(document)
    expect(await limitOf(node, 'u1')).toBe(50)
    expect(node.keys.inUse.size).toBe(1)
  })

  test('10,000 changes in 10 s are read at most 41 times, and the last one is active', async () => {
    const store = newStore()
    await commit(store, ruleOf('a'), setOf('a'))
    const node = await startNode(store)
    const { reads } = node.store
    for (let version = 2; version < 10_002; version++) {
      const changes = [overrideOf('a', `u${version % 10}`, (version % 900) + 1)]
      await store.commit({ base: version, by: 'test', why: undefined, changes })
      if (version % 100 === 0) await node.scheduler.advance(100)
    }
    await node.scheduler.advance(500)
    expect(node.store.reads - reads).toBeLessThanOrEqual(42)
    expect(node.follower.version()).toBe(10_002)
    expect(await limitOf(node, 'u1')).toBe((10_001 % 900) + 1)
  })

  test('a change that weakens a rule logs a warning: a mode other than enforce, a posture open', async () => {
    const store = newStore()
    await commit(
      store,
      ruleOf('a'),
      ruleOf('b', { mode: 'shadow', posture: 'open' }),
      setOf('a', 'b'),
    )
    const node = await startNode(store)
    const logged = () => node.lines.filter((line) => line['level'] === 'warn' && 'rule' in line)
    expect(logged()).toEqual([])
    await commit(store, ruleOf('a', { mode: 'shadow', posture: 'open' }), ruleOf('b'))
    await node.scheduler.advance(250)
    expect(logged()).toMatchObject([
      { rule: 'a', msg: 'rule no longer enforced: mode is now shadow' },
      {
        rule: 'a',
        msg: 'rule now fails open: every call is allowed while the store does not answer',
      },
    ])
  })

  test('removing an enforced rule logs a warning, even if other rules remain', async () => {
    const store = newStore()
    await commit(store, ruleOf('a'), ruleOf('b'), setOf('a', 'b'))
    const node = await startNode(store)
    await commit(store, { kind: 'rule', id: 'a', body: null }, setOf('b'))
    await node.scheduler.advance(250)
    expect(node.lines.filter((line) => 'rule' in line)).toMatchObject([
      { level: 'warn', rule: 'a', msg: 'enforced rule removed' },
    ])
  })

  test('refresh waits until a change is active', async () => {
    const store = newStore()
    const node = await startNode(store)
    node.store.isDeaf = true
    const version = await commit(store, ruleOf('a'), setOf('a'))
    await node.follower.refresh(version)
    expect(await limitOf(node, 'u')).toBe(10)
    await expect(node.follower.refresh(version + 1)).rejects.toBeInstanceOf(UnavailableError)
    node.store.fault = 'refused'
    await expect(node.follower.refresh(version + 1)).rejects.toThrow('connection refused')
  })
})

describe('an unreachable store', () => {
  test('an unreachable store changes nothing, and the age grows until it is back', async () => {
    const store = newStore()
    await commit(store, ruleOf('a'), setOf('a'))
    const node = await startNode(store)
    node.store.fault = 'refused'
    await node.scheduler.advance(59_000)
    expect(node.follower.ageSeconds()).toBeCloseTo(59, -1)
    await node.scheduler.advance(3_600_000)
    expect(node.follower.ageSeconds()).toBeGreaterThan(3600)
    expect(await limitOf(node, 'u')).toBe(10)
    expect(node.follower.isReady()).toBe(true)
    // Alerts report it.
    expect(messagesOf(node, 'error')).toEqual([])
    node.store.fault = 'none'
    await node.scheduler.advance(6000)
    expect(node.follower.ageSeconds()).toBe(0)
  })

  test('a store that fails during a read leaves nothing of that read, keys included', async () => {
    const store = newStore()
    await commit(store, ruleOf('a'), setOf('a'), keyOf('k1', 'pro'))
    const node = await startNode(store)
    node.store.fault = 'cut'
    await commit(store, ruleOf('a', { limits: ['5/second'] }), keyOf('k2', 'pro'))
    await store.adopt(9, 'test', undefined)
    await node.scheduler.advance(3000)
    expect(await limitOf(node, 'u')).toBe(10)
    expect([...node.keys.inUse.keys()]).toEqual(['k1'])
    expect(node.follower.version()).toBe(2)
    node.store.fault = 'none'
    await node.scheduler.advance(6000)
    expect(await limitOf(node, 'u')).toBe(5)
    expect(node.keys.inUse.size).toBe(2)
    expect(node.follower.version()).toBe(10)
  })
})

describe('a restored store', () => {
  test('a store restored to an older version is not followed, and the log names both versions and the remedy', async () => {
    const old = newStore()
    const version = await commit(old, ruleOf('a', { limits: ['99/second'] }), setOf('a'))
    const store = newStore()
    await commit(store, ruleOf('a'), setOf('a'))
    await commit(store, ruleOf('a', { limits: ['5/second'] }))
    const node = await startNode(store)
    node.store.target = old
    await expect(node.follower.refresh(version)).rejects.toBeInstanceOf(DivergedError)
    await node.scheduler.advance(59_000)
    expect(await limitOf(node, 'u')).toBe(5)
    expect(node.follower.version()).toBe(3)
    const problem = node.follower.problem() ?? ''
    expect(problem).toContain('at version 2, this node runs 3')
    expect(problem).toContain('`sluice rules adopt`')
    expect(messagesOf(node, 'error')).toEqual(['rule store diverged: not following'])
    await node.scheduler.advance(10_000)
    expect(messagesOf(node, 'error')).toHaveLength(2)

    const position = await old.adopt(node.follower.version(), 'test', 'meant')
    await node.scheduler.advance(6000)
    expect(node.follower.version()).toBe(position.version)
    expect(await limitOf(node, 'u')).toBe(99)
    expect(node.follower.problem()).toBeUndefined()
  })
})

test('after the limiter failed, everything is activated again, overrides and keys included', async () => {
  const store = newStore()
  await commit(store, ruleOf('a'), setOf('a'), overrideOf('a', 'u1', 50))
  const node = await startNode(store)
  const { limiter } = node
  const original = limiter.setParsedRules.bind(limiter)
  limiter.setParsedRules = () => {
    throw new Error('out of memory')
  }
  const gone = { kind: 'override', id: 'a/user=u1', body: null } as const
  await commit(store, ruleOf('a', { limits: ['20/second'] }), gone, overrideOf('a', 'u2', 60))
  await commit(store, keyOf('k1', 'pro'))
  await node.scheduler.advance(250)
  expect(node.follower.version()).toBe(2)
  expect(node.follower.problem()).toContain('out of memory')
  expect(await limitOf(node, 'u1')).toBe(50)
  limiter.setParsedRules = original
  await node.scheduler.advance(6000)
  expect(node.follower.version()).toBe(4)
  expect(await limitOf(node, 'u1')).toBe(20)
  expect(await limitOf(node, 'u2')).toBe(60)
  expect(node.keys.inUse.size).toBe(1)
  expect(node.follower.problem()).toBeUndefined()
})

test('a closed node neither reads nor reports nor logs', async () => {
  const store = newStore()
  const node = await startNode(store)
  await node.follower.close()
  const lines = node.lines.length
  const { reads } = node.store
  await commit(store, ruleOf('a'), setOf('a'))
  await node.scheduler.advance(120_000)
  await settle()
  expect(node.store.reads).toBe(reads)
  expect(node.lines).toHaveLength(lines)
})
