import { createLimiter, memoryStore } from '@sluice/limiter'
import type { RedisStats } from '@sluice/limiter/redis'
import { expect, test } from 'vitest'
import { nodeWith } from '../observability/alerts/conditions/conditions.test-helper.js'
import { readMetrics, valueOf } from '../observability/metrics/read-metrics.test-helper.js'
import { createRegistry } from '../observability/metrics/registry.js'
import { registerMemoryMetrics, registerRedisMetrics } from './store-metrics.js'

const MEMORY = { usedBytes: 70, maxBytes: 100, keys: 3, evictedKeys: 4, isAppendOnly: false }

function read(memory: RedisStats['memory'], given: Partial<RedisStats> = {}) {
  const registry = createRegistry()
  const fleet = { size: 1, ageMs: 0 }
  const stats: RedisStats = { state: 'ready', nodes: [], fleet, memory, ...given }
  registerRedisMetrics(registry, { stats: () => stats, layout: 'plain', name: NAME })
  return readMetrics(registry.text())
}

const NAME = 'redis://10.0.0.1:6379'
const A = 'a:6379'
const B = 'b:6379'
const upOf = (given: Partial<RedisStats>, store: string) =>
  valueOf(read(undefined, given), 'sluice_store_up', { store })

test('sluice_store_up is 1 for each node of Redis that is asked, and 0 for each that is not', () => {
  const nodes = [nodeWith({ address: A }), nodeWith({ address: B, isAnswering: false })]
  expect([upOf({ nodes }, A), upOf({ nodes }, B)]).toEqual([1, 0])
  expect(upOf({ nodes }, NAME)).toBeUndefined()
})

test('sluice_store_up is 0 while Redis refuses this node, also for a node that answers', () => {
  const nodes = [nodeWith({ address: A })]
  for (const state of ['starting', 'refused', 'unfit'] as const) {
    expect(upOf({ state, nodes }, A)).toBe(0)
  }
})

test('sluice_store_up is 0 under the name of a Redis of which no node is known', () => {
  expect(upOf({ state: 'starting' }, NAME)).toBe(0)
  expect(upOf({ state: 'ready' }, NAME)).toBe(0)
})

test('sluice_store_up is 1 for counters in memory', () => {
  const registry = createRegistry()
  registerMemoryMetrics(registry, memoryStore({ maxCounters: 2 }))
  expect(valueOf(readMetrics(registry.text()), 'sluice_store_up', { store: 'memory' })).toBe(1)
})

test('of Redis both what it takes and what it may take is told, and what it evicted', () => {
  const metrics = read(MEMORY)
  expect(valueOf(metrics, 'sluice_store_memory_bytes')).toBe(70)
  expect(valueOf(metrics, 'sluice_store_memory_max_bytes')).toBe(100)
  expect(valueOf(metrics, 'sluice_store_evicted_total')).toBe(4)
  expect(valueOf(metrics, 'sluice_counters')).toBe(3)
})

test('a Redis without a bound tells none, and one that was not asked yet tells nothing', () => {
  const unbounded = read({ ...MEMORY, maxBytes: 0 })
  expect(valueOf(unbounded, 'sluice_store_memory_max_bytes')).toBeUndefined()
  expect(valueOf(unbounded, 'sluice_store_memory_bytes')).toBe(70)
  const unknown = read(undefined)
  expect(valueOf(unknown, 'sluice_store_memory_max_bytes')).toBeUndefined()
  expect(valueOf(unknown, 'sluice_store_evicted_total')).toBeUndefined()
})

test('a memory store that drops a blocked caller for another tells it', () => {
  const store = memoryStore({ maxCounters: 2 })
  const registry = createRegistry()
  registerMemoryMetrics(registry, store)
  const evicted = () => valueOf(readMetrics(registry.text()), 'sluice_store_evicted_total')
  const limiter = createLimiter({
    rules: 'rules: [{ id: per-user, by: [user], limits: [1/hour] }]',
    store,
  })
  expect(evicted()).toBe(0)
  for (let i = 0; i < 100; i++) {
    // Blocked, so that only a blocked caller can make room for the next.
    for (let calls = 0; calls < 2; calls++) limiter.checkSync({ attributes: { user: `u${i}` } })
  }
  expect(evicted()).toBeGreaterThan(0)
})
