/** The end of a timed shadow, whatever else happens at that moment or before it. */
import { afterEach, expect, test } from 'vitest'
import type { Change, ShadowEntry } from '../store/records.js'
import { settle } from '../../lib/manual-scheduler.test-helper.js'
import {
  closeNodes,
  commit,
  keyOf,
  messagesOf,
  newStore,
  ruleOf,
  startNode,
  type TestNode,
} from './rule-store-follower.test-helper.js'

afterEach(closeNodes)

const MINUTE = 60_000
const QUARTER = { until: '2001-01-01T00:15:00.000Z', forMs: 15 * MINUTE }

const setOf = (all: ShadowEntry | undefined, routes: readonly unknown[] = []): Change => ({
  kind: 'set',
  id: 'main',
  body: { routes, strictPaths: false, order: ['a'], ...(all && { shadow: { all } }) },
})

const isRefused = async ({ limiter }: TestNode) =>
  !(await limiter.check({ attributes: { user: 'u' } })).allowed

async function startEnforcing() {
  const store = newStore()
  await commit(store, ruleOf('a', { limits: ['0/second'] }), setOf(undefined))
  return { store, node: await startNode(store) }
}

async function startInShadow() {
  const { store, node } = await startEnforcing()
  await commit(store, setOf(QUARTER))
  await node.scheduler.advance(250)
  expect(await isRefused(node)).toBe(false)
  return { store, node }
}

test('a shadow ends on time even if another change comes between its end and its timer', async () => {
  const { store, node } = await startInShadow()
  // A new shadow lasts at least 15 seconds less: see the decision on timed shadows.
  await node.scheduler.advance(15 * MINUTE - 15_000)
  expect(node.follower.shadowUntil()).toBeUndefined()
  expect(await isRefused(node)).toBe(false)
  await commit(store, keyOf('k', 'pro'))
  await settle()
  await node.scheduler.advance(1000)
  expect(await isRefused(node)).toBe(true)
  expect(messagesOf(node, 'info')).toContain('timed shadow: ended, rules follow their mode again')
})

test('a shadow ends even if the store holds an invalid set by then', async () => {
  const { store, node } = await startInShadow()
  await commit(store, setOf(QUARTER, [{ path: 'no path' }]))
  await node.scheduler.advance(250)
  expect(node.follower.problem()).toContain('the active rules stay')
  expect(await isRefused(node)).toBe(false)
  await node.scheduler.advance(15 * MINUTE)
  expect(await isRefused(node)).toBe(true)
  expect(node.follower.problem()).toContain('the active rules stay')
})

test('a disconnected node does not start a shadow that is over when it reconnects', async () => {
  const { store, node } = await startEnforcing()
  // The connection is lost, so nothing is read meanwhile.
  node.store.fault = 'refused'
  node.store.isDeaf = true
  await node.scheduler.advance(60 * MINUTE)
  const until = new Date(Date.now() - 30 * MINUTE).toISOString()
  await commit(store, setOf({ until, forMs: 15 * MINUTE }))
  node.store.fault = 'none'
  node.store.isDeaf = false
  await commit(store, keyOf('k', 'pro'))
  await node.scheduler.advance(250)
  expect(node.follower.version()).toBe(4)
  expect(node.follower.shadowUntil()).toBeUndefined()
  expect(await isRefused(node)).toBe(true)
})

test('a node that has been reconnected for a while does not need its wall clock for a new shadow', async () => {
  const { store, node } = await startEnforcing()
  node.store.fault = 'refused'
  await node.scheduler.advance(MINUTE)
  node.store.fault = 'none'
  await node.scheduler.advance(MINUTE)
  await commit(store, setOf(QUARTER))
  await node.scheduler.advance(250)
  expect(await isRefused(node)).toBe(false)
})
