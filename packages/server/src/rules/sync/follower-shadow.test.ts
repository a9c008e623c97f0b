/** Timed shadows on nodes that follow a store. */
import { afterEach, expect, test } from 'vitest'
import type { Change, ShadowDocument } from '../store/records.js'
import {
  closeNodes,
  commit,
  messagesOf,
  newStore,
  ruleOf,
  startNode,
  type TestNode,
} from './rule-store-follower.test-helper.js'

afterEach(closeNodes)

const MINUTE = 60_000
/** A wall clock that none of these nodes has: nodes that follow the store need none. */
const QUARTER = { until: '2001-01-01T00:15:00.000Z', forMs: 15 * MINUTE }

const setOf = (shadow: ShadowDocument | undefined, ...order: readonly string[]): Change => ({
  kind: 'set',
  id: 'main',
  body: { routes: [], strictPaths: false, order, ...(shadow && { shadow }) },
})

const nothing = { limits: ['0/second'] }
const isRefused = async ({ limiter }: TestNode, attributes: Readonly<Record<string, string>>) =>
  !(await limiter.check({ attributes })).allowed

async function nodeInShadow() {
  const store = newStore()
  await commit(store, ruleOf('a', nothing), setOf(undefined, 'a'))
  const node = await startNode(store)
  expect(await isRefused(node, { user: 'u' })).toBe(true)
  await commit(store, setOf({ all: QUARTER }, 'a'))
  await node.scheduler.advance(250)
  return { store, node }
}

test('all rules stop refusing while a shadow lasts, and refuse again by themselves', async () => {
  const { node } = await nodeInShadow()
  expect(node.follower.shadowUntil()).toBe(QUARTER.until)
  const decision = await node.limiter.check({ attributes: { user: 'u' } })
  expect(decision).toMatchObject({ allowed: true, shadow: ['a'] })
  await node.scheduler.advance(14 * MINUTE)
  expect(await isRefused(node, { user: 'u' })).toBe(false)
  await node.scheduler.advance(MINUTE)
  expect(await isRefused(node, { user: 'u' })).toBe(true)
  expect(node.follower.shadowUntil()).toBeUndefined()
})

test('a shadow ends even if the rule store is unreachable', async () => {
  const { node } = await nodeInShadow()
  node.store.fault = 'refused'
  await node.scheduler.advance(15 * MINUTE)
  expect(await isRefused(node, { user: 'u' })).toBe(true)
})

test('a rule created or edited during a shadow of all rules is in shadow until its end', async () => {
  const { store, node } = await nodeInShadow()
  await commit(
    store,
    ruleOf('a', { ...nothing, description: 'edited' }),
    ruleOf('b', { ...nothing, by: ['plan'] }),
    setOf({ all: QUARTER }, 'a', 'b'),
  )
  await node.scheduler.advance(250)
  expect(await isRefused(node, { user: 'u', plan: 'p' })).toBe(false)
  await node.scheduler.advance(15 * MINUTE)
  expect(await isRefused(node, { plan: 'p' })).toBe(true)
})

test('rules that are off or in shadow stay so before, during and after a timed shadow', async () => {
  const store = newStore()
  const rules = [
    ruleOf('a', { ...nothing, mode: 'off' }),
    ruleOf('b', { ...nothing, mode: 'shadow' }),
  ]
  await commit(store, ...rules, setOf(undefined, 'a', 'b'))
  const node = await startNode(store)
  const modes = async () => {
    const { allowed, shadow } = await node.limiter.check({ attributes: { user: 'u' } })
    return { allowed, shadow }
  }
  const before = await modes()
  expect(before).toEqual({ allowed: true, shadow: ['b'] })
  await commit(store, setOf({ all: QUARTER }, 'a', 'b'))
  await node.scheduler.advance(250)
  expect(await modes()).toEqual(before)
  await node.scheduler.advance(16 * MINUTE)
  expect(await modes()).toEqual(before)
})

test('a shadow of one rule leaves the others enforced', async () => {
  const store = newStore()
  const rules = [ruleOf('a', nothing), ruleOf('b', { ...nothing, by: ['plan'] })]
  await commit(store, ...rules, setOf({ rules: { a: QUARTER } }, 'a', 'b'))
  const node = await startNode(store)
  // It starts long after that time by its own clock.
  expect(await isRefused(node, { user: 'u' })).toBe(true)
  const later = { ...QUARTER, until: '2001-01-01T00:16:00.000Z' }
  await commit(store, setOf({ rules: { a: later } }, 'a', 'b'))
  await node.scheduler.advance(250)
  expect(await isRefused(node, { user: 'u' })).toBe(false)
  expect(await isRefused(node, { plan: 'p' })).toBe(true)
})

test('a shadow is logged as one warning for all rules, every minute, and once when it is over', async () => {
  const { node } = await nodeInShadow()
  const shadowLines = () => messagesOf(node, 'warn').filter((msg) => String(msg).includes('shadow'))
  expect(shadowLines()).toEqual(['timed shadow: enforced rules refuse no call'])
  expect(messagesOf(node, 'warn')).not.toContain('a rule no longer refuses')
  await node.scheduler.advance(3 * MINUTE)
  expect(shadowLines()).toHaveLength(4)
  await node.scheduler.advance(20 * MINUTE)
  expect(shadowLines()).toHaveLength(15)
  expect(messagesOf(node, 'info')).toContain('timed shadow: ended, rules follow their mode again')
})
