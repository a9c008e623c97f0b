import { afterEach, describe, expect, test } from 'vitest'
import type { Change } from '../store/records.js'
import {
  closeNodes,
  commit,
  keyOf,
  limitOf,
  newStore,
  overrideOf,
  ruleOf,
  setOf,
  startNode,
} from './rule-store-follower.test-helper.js'

afterEach(closeNodes)

describe('records written to the store by hand', () => {
  const bad = ruleOf('a', { limits: ['10 per fortnight'] })

  test('an invalid rule keeps its last good version active, and does not affect others', async () => {
    const store = newStore()
    await commit(store, ruleOf('a'), ruleOf('b', { by: ['plan'] }), setOf('a', 'b'))
    const node = await startNode(store)
    await commit(store, bad, ruleOf('b', { by: ['plan'], limits: ['7/second'] }))
    await node.scheduler.advance(250)
    expect(node.follower.version()).toBe(3)
    expect(await limitOf(node, 'u')).toBe(10)
    expect(await limitOf(node, '', { plan: 'x' })).toBe(7)
    expect(node.follower.failures()).toBe(1)
    expect(node.follower.problem()).toContain('rule "a": limits[0]')
    expect(node.lines.filter((line) => line['level'] === 'error')).toMatchObject([
      { id: 'a', problem: expect.stringContaining('10 per fortnight') },
    ])
    await node.scheduler.advance(30_000)
    expect(node.follower.ageSeconds()).toBeGreaterThan(29)
    // Logged once, however often the set is read.
    await commit(store, ruleOf('b', { by: ['plan'], limits: ['8/second'] }))
    await node.scheduler.advance(250)
    expect(node.follower.failures()).toBe(1)
    await commit(store, ruleOf('a', { limits: ['20/second'] }))
    await node.scheduler.advance(250)
    expect(await limitOf(node, 'u')).toBe(20)
    expect(node.follower.problem()).toBeUndefined()
    expect(node.follower.ageSeconds()).toBe(0)
  })

  test('a rule that was never valid is left out with its overrides until it is', async () => {
    const store = newStore()
    await commit(
      store,
      bad,
      ruleOf('b', { by: ['plan'] }),
      setOf('a', 'b'),
      overrideOf('a', 'u', 50),
    )
    const node = await startNode(store)
    expect(node.follower.isReady()).toBe(true)
    expect(await limitOf(node, 'u')).toBeUndefined()
    expect(await limitOf(node, '', { plan: 'x' })).toBe(10)
    await commit(store, ruleOf('a'))
    await node.scheduler.advance(250)
    expect(await limitOf(node, 'u')).toBe(50)
  })

  test('a node that starts with only invalid rules has no rules, and decides nothing', async () => {
    const store = newStore()
    await commit(store, bad, setOf('a'))
    const node = await startNode(store)
    expect(node.follower.isReady()).toBe(false)
    expect(node.follower.problem()).toContain('none of which can be used')
    expect(node.follower.problem()).toContain('10 per fortnight')
    await commit(store, ruleOf('a'))
    await node.scheduler.advance(250)
    expect(node.follower.isReady()).toBe(true)
    expect(node.follower.problem()).toBeUndefined()
  })

  test('if every rule is replaced by an invalid one, the active rules stay', async () => {
    const store = newStore()
    await commit(store, ruleOf('b'), setOf('b'))
    const node = await startNode(store)
    await commit(store, { kind: 'rule', id: 'b', body: null }, bad, setOf('a'))
    await node.scheduler.advance(250)
    expect(await limitOf(node, 'u')).toBe(10)
    expect(node.follower.problem()).toContain('none of which can be used')
  })

  test('a store without rules allows every call, and logs it', async () => {
    const node = await startNode(newStore())
    expect(node.follower.isReady()).toBe(true)
    expect(node.lines.map(({ msg }) => msg)).toContain('no rules: every call is allowed')
  })

  test('an invalid candidate leaves its rule unchanged', async () => {
    const store = newStore()
    await commit(store, ruleOf('a'), setOf('a'))
    const node = await startNode(store)
    await commit(store, { kind: 'candidate', id: 'a', body: { limits: ['x'] } })
    await node.scheduler.advance(250)
    expect(await limitOf(node, 'u')).toBe(10)
    expect(node.follower.problem()).toContain('candidate.limits[0]')
  })

  test('a set that exceeds a limit as a whole leaves the old one active, and keys still change', async () => {
    const store = newStore()
    await commit(store, ruleOf('a'), setOf('a'))
    const node = await startNode(store)
    const many = Array.from({ length: 70 }, (_, i) => ruleOf(`r${i}`))
    await commit(store, ...many, keyOf('k1', 'pro'), ruleOf('a', { limits: ['5/second'] }))
    await node.scheduler.advance(250)
    expect(node.follower.version()).toBe(2)
    expect(await limitOf(node, 'u')).toBe(10)
    expect(node.follower.problem()).toContain('one call could meet 71 limits')
    expect(node.follower.failures()).toBe(1)
    expect(node.keys.inUse.size).toBe(1)
    await expect(node.follower.refresh(3)).rejects.toThrow('one call could meet')
    await commit(
      store,
      ...many.slice(10).map(({ id }) => ({ kind: 'rule', id, body: null }) as const),
    )
    await node.scheduler.advance(250)
    expect(node.follower.version()).toBe(4)
    expect(await limitOf(node, 'u')).toBe(5)
  })

  test('an invalid override keeps its last good version active, and does not affect others', async () => {
    const store = newStore()
    await commit(
      store,
      ruleOf('a'),
      setOf('a'),
      overrideOf('a', 'u1', 50),
      overrideOf('a', 'u2', 60),
    )
    const node = await startNode(store)
    const body = { caller: { user: 'u1' }, limits: ['many'] }
    await commit(store, { kind: 'override', id: 'a/user=u1', body }, overrideOf('a', 'u2', 70))
    await node.scheduler.advance(250)
    expect(await limitOf(node, 'u1')).toBe(50)
    expect(await limitOf(node, 'u2')).toBe(70)
    expect(node.follower.failures()).toBe(1)
    expect(node.follower.problem()).toContain('limits[0]')
    await store.adopt(9, 'test', undefined)
    await node.scheduler.advance(250)
    expect(await limitOf(node, 'u1')).toBe(50)
    await commit(store, { kind: 'override', id: 'a/user=u1', body: null })
    await node.scheduler.advance(250)
    expect(await limitOf(node, 'u1')).toBe(10)
    expect(node.follower.problem()).toBeUndefined()
  })

  test('an invalid key is unknown, and affects neither other keys nor the start', async () => {
    const store = newStore()
    await commit(store, ruleOf('a'), setOf('a'), keyOf('k1', 'pro'))
    const node = await startNode(store)
    const good = { hash: 'ab'.repeat(32), state: 'active', createdAt: '' } as const
    const bodies: readonly object[] = [{}, { hash: 5 }, { hash: 'ab' }, { ...good, plan: 7 }]
    const keys = bodies.map((body, index) => ({ kind: 'key', id: `bad${index}`, body }) as Change)
    await commit(store, ...keys, keyOf('k2', 'pro'))
    await node.scheduler.advance(250)
    expect(node.follower.version()).toBe(3)
    expect([...node.keys.inUse.keys()]).toEqual(['k1', 'k2'])
    expect(node.lines.filter(({ level }) => level === 'error')).toMatchObject([
      { id: 'bad0', problem: expect.stringContaining('64 hex digits') },
      { id: 'bad1' },
      { id: 'bad2' },
      { id: 'bad3', problem: 'plan: found number; accepted: a text, or none' },
    ])
    const other = await startNode(store)
    expect(other.follower.isReady()).toBe(true)
    expect([...other.keys.inUse.keys()].toSorted()).toEqual(['k1', 'k2'])
  })

  test('an override under the id of another caller is refused', async () => {
    const store = newStore()
    const body = { caller: { user: 'u2' }, limits: [] }
    await commit(store, ruleOf('a'), setOf('a'), { kind: 'override', id: 'a/user=u1', body })
    const node = await startNode(store)
    expect(await limitOf(node, 'u1')).toBe(10)
    expect(await limitOf(node, 'u2')).toBe(10)
    expect(node.follower.problem()).toContain('user=u2')
  })
})
