import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createMemoryLog } from '../../observability/log/memory-log.test-helper.js'
import type { MemoryRuleStore } from '../store/memory-rule-store.test-helper.js'
import { flakyStore } from './flaky-store.test-helper.js'
import { openLastKnownGood } from './last-known-good/last-known-good.js'
import { until } from '../../lib/manual-scheduler.test-helper.js'
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

let dataDir: string
beforeEach(() => (dataDir = mkdtempSync(join(tmpdir(), 'sluice-restart-'))))
afterEach(async () => {
  await closeNodes()
  rmSync(dataDir, { recursive: true })
})

/** A process on the same disk; `fault` is how its store fails. */
async function start(target: MemoryRuleStore, fault: 'none' | 'refused' | 'silent' = 'none') {
  const { log } = createMemoryLog()
  const store = flakyStore(target.connect())
  store.fault = fault
  return startNode(target, {
    store,
    lastKnownGood: openLastKnownGood({ dataDir, log, isKeeper: true }),
  })
}

async function filledStore() {
  const store = newStore()
  const token = { hash: '0', name: 'ci', role: 'read', createdAt: '' } as const
  await commit(store, ruleOf('a'), setOf('a'), overrideOf('a', 'u1', 50), keyOf('k1', 'pro'))
  await commit(store, { kind: 'token', id: 't', body: token })
  return store
}

describe('a start while the store is unreachable', () => {
  test.each(['refused', 'silent'] as const)(
    'a node that starts while the store is unreachable (%s) has everything it had',
    async (fault) => {
      const store = await filledStore()
      const before = await start(store)
      await commit(store, overrideOf('a', 'u2', 60), keyOf('k2', 'pro'))
      await before.scheduler.advance(250)
      await until(() => before.follower.version() === 4)
      await before.follower.close()

      const node = await start(store, fault)
      expect(node.follower.isReady()).toBe(true)
      expect(node.follower.version()).toBe(4)
      expect(node.follower.problem()).toContain('memory: ')
      expect(await limitOf(node, 'u1')).toBe(50)
      expect(await limitOf(node, 'u2')).toBe(60)
      expect(await limitOf(node, 'u3')).toBe(10)
      expect(node.keys.inUse).toEqual(before.keys.inUse)
      expect(node.keys.secret).toBe(before.keys.secret)
      expect(node.follower.catalog.tokens()).toEqual(before.follower.catalog.tokens())
      await node.scheduler.advance(60_000)
      expect(node.follower.ageSeconds()).toBeGreaterThanOrEqual(60)

      await commit(store, ruleOf('a', { limits: ['5/second'] }))
      node.store.fault = 'none'
      await node.scheduler.advance(fault === 'silent' ? 31_000 : 6000)
      await until(() => node.follower.version() === 5)
      expect(await limitOf(node, 'u3')).toBe(5)
      expect(node.follower.ageSeconds()).toBe(0)
      // Only the changes since then are sent.
      expect(node.store.wholeReads).toBe(0)
    },
  )

  test('a node without store and without a copy is not ready', async () => {
    const node = await start(newStore(), 'refused')
    expect(node.follower.isReady()).toBe(false)
    expect(node.follower.version()).toBe(0)
  })
})

describe('hasHadRules', () => {
  /** Writes a copy with one rule to this disk; the store then loses its last rule. */
  async function emptiedStore() {
    const store = newStore()
    await commit(store, ruleOf('a'), setOf('a'))
    await (await start(store)).follower.close()
    await commit(store, { kind: 'rule', id: 'a', body: null }, setOf())
    return store
  }

  test('hasHadRules follows the store if it answers, not the copy', async () => {
    const node = await start(await emptiedStore())
    expect([node.follower.isReady(), node.follower.hasHadRules()]).toEqual([true, false])
  })

  test('hasHadRules follows the copy if the store does not answer, and stays true when it does', async () => {
    const node = await start(await emptiedStore(), 'refused')
    expect(node.follower.hasHadRules()).toBe(true)
    node.store.fault = 'none'
    await node.scheduler.advance(6000)
    await until(() => node.follower.catalog.rules().length === 0)
    expect(node.follower.hasHadRules()).toBe(true)
  })

  test('hasHadRules becomes true with the first rule, and stays true when it is removed', async () => {
    const store = newStore()
    const node = await start(store)
    expect(node.follower.hasHadRules()).toBe(false)
    await commit(store, ruleOf('a'), setOf('a'))
    await node.scheduler.advance(250)
    await until(() => node.follower.hasHadRules())
    await commit(store, { kind: 'rule', id: 'a', body: null }, setOf())
    await node.scheduler.advance(250)
    await until(() => node.follower.catalog.rules().length === 0)
    expect(node.follower.hasHadRules()).toBe(true)
  })
})

test('a start reads only the changes since the copy from the store', async () => {
  const store = await filledStore()
  await (await start(store)).follower.close()
  await commit(store, overrideOf('a', 'u1', 70))
  const node = await start(store)
  expect(node.store.wholeReads).toBe(0)
  expect(await limitOf(node, 'u1')).toBe(70)
  expect(node.keys.inUse.size).toBe(1)
})

test('a node that started from the copy continues to write it', async () => {
  const store = await filledStore()
  await (await start(store)).follower.close()
  const node = await start(store)
  await commit(store, overrideOf('a', 'u1', 70), keyOf('k2', 'pro'))
  await node.scheduler.advance(250)
  await until(() => node.follower.version() === 4)
  await node.follower.close()

  const later = await start(store, 'refused')
  expect(later.follower.version()).toBe(4)
  expect(await limitOf(later, 'u1')).toBe(70)
  expect(later.keys.inUse.size).toBe(2)
})

test('a change while the copy is being read does no harm', async () => {
  const store = await filledStore()
  await (await start(store)).follower.close()
  const flaky = flakyStore(store.connect())
  flaky.onChange = (listener) => {
    listener()
    return () => {}
  }
  const { log } = createMemoryLog()
  const lastKnownGood = openLastKnownGood({ dataDir, log, isKeeper: true })
  const node = await startNode(store, { store: flaky, lastKnownGood })
  expect(node.store.wholeReads).toBe(0)
  expect(await limitOf(node, 'u1')).toBe(50)
  expect(node.keys.inUse.size).toBe(1)
})

test('a store other than that of the copy is reported, and followed once it is adopted', async () => {
  const store = await filledStore()
  await (await start(store)).follower.close()
  const other = newStore()
  await commit(other, ruleOf('a', { limits: ['99/second'] }), setOf('a'))
  const node = await start(other)
  expect(await limitOf(node, 'u3')).toBe(10)
  expect(node.follower.version()).toBe(3)
  expect(node.follower.problem()).toContain('is at version 2, this node runs 3')
  expect(messagesOf(node, 'error')).toEqual(['rule store diverged: not following'])
  const { version } = await other.adopt(node.follower.version(), 'test', undefined)
  await node.follower.refresh(version)
  expect(await limitOf(node, 'u3')).toBe(99)
  expect(node.keys.inUse.size).toBe(0)
  await node.follower.close()

  const again = await start(other, 'refused')
  expect(again.follower.version()).toBe(version)
  expect(await limitOf(again, 'u3')).toBe(99)
})

test('the last good versions of an invalid rule and override stay active after a restart', async () => {
  const store = await filledStore()
  const before = await start(store)
  const body = { caller: { user: 'u1' }, limits: ['many'] }
  await commit(
    store,
    ruleOf('a', { limits: ['x'] }),
    { kind: 'override', id: 'a/user=u1', body },
    ruleOf('b', { by: ['plan'] }),
  )
  await before.scheduler.advance(250)
  await until(() => before.follower.version() === 4)
  expect(await limitOf(before, 'u1')).toBe(50)
  await before.follower.close()
  for (const fault of ['none', 'refused'] as const) {
    const node = await start(store, fault)
    expect(node.follower.version()).toBe(4)
    expect(await limitOf(node, 'u1')).toBe(50)
    expect(await limitOf(node, 'u3')).toBe(10)
    expect(await limitOf(node, '', { plan: 'x' })).toBe(10)
    expect(node.follower.failures()).toBe(2)
    expect(node.follower.problem()).toContain(fault === 'none' ? 'rule "a"' : 'refused')
    await node.follower.close()
  }
})

test('an invalid set is not saved in the copy', async () => {
  const store = await filledStore()
  const before = await start(store)
  await commit(store, ...Array.from({ length: 70 }, (_, i) => ruleOf(`r${i}`)))
  await before.scheduler.advance(250)
  await until(() => before.follower.failures() === 1)
  expect(before.follower.version()).toBe(3)
  await before.follower.close()
  const node = await start(store, 'refused')
  expect(node.follower.version()).toBe(3)
  expect(await limitOf(node, 'u3')).toBe(10)
  expect(node.follower.catalog.rules()).toHaveLength(1)
})
