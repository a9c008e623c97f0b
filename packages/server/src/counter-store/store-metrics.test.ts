import { createLimiter, memoryStore, type RemoteHealth, type StoreHealth } from '@sluice/limiter'
import { expect, test } from 'vitest'
import { nodeWith } from '../observability/alerts/conditions/conditions.test-helper.js'
import { readMetrics, valueOf } from '../observability/metrics/read-metrics.test-helper.js'
import { createRegistry } from '../observability/metrics/registry.js'
import { registerStoreMetrics } from './store-metrics.js'

const MEMORY = { usedBytes: 70, maxBytes: 100, counters: 3, evicted: 4, evictedBlocked: 4 }

function read(memory: StoreHealth['memory'], given: Partial<RemoteHealth> = {}) {
  const registry = createRegistry()
  const fleet = { size: 1, ageMs: 0 }
  const remote: RemoteHealth = { state: 'ready', nodes: [], fleet, ...given }
  const health = () => ({ remote, memory, isPersistent: false })
  registerStoreMetrics(registry, { health, name: NAME })
  return readMetrics(registry.text())
}

const NAME = 'redis://10.0.0.1:6379'
const A = 'a:6379'
const B = 'b:6379'
const upOf = (given: Partial<RemoteHealth>, store: string) =>
  valueOf(read(undefined, given), 'sluice_store_up', { store })

test('sluice_store_up is 1 for each Redis node that is used, and 0 for each that is not', () => {
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
  const store = memoryStore({ maxCounters: 2 })
  registerStoreMetrics(registry, { health: () => store.health(), name: 'memory' })
  expect(valueOf(readMetrics(registry.text()), 'sluice_store_up', { store: 'memory' })).toBe(1)
})

test('the memory of Redis, its limit, its keys and its evictions are metrics', () => {
  const metrics = read(MEMORY)
  expect(valueOf(metrics, 'sluice_store_memory_bytes')).toBe(70)
  expect(valueOf(metrics, 'sluice_store_memory_max_bytes')).toBe(100)
  expect(valueOf(metrics, 'sluice_store_evicted_total')).toBe(4)
  expect(valueOf(metrics, 'sluice_counters')).toBe(3)
})

test('a Redis without a memory limit has no limit metric, and one not measured yet has no memory metrics', () => {
  const unbounded = read({ ...MEMORY, maxBytes: 0 })
  expect(valueOf(unbounded, 'sluice_store_memory_max_bytes')).toBeUndefined()
  expect(valueOf(unbounded, 'sluice_store_memory_bytes')).toBe(70)
  const unknown = read(undefined)
  expect(valueOf(unknown, 'sluice_store_memory_max_bytes')).toBeUndefined()
  expect(valueOf(unknown, 'sluice_store_evicted_total')).toBeUndefined()
})

test('a memory store that drops the counter of a blocked caller counts it as evicted', () => {
  const store = memoryStore({ maxCounters: 2 })
  const registry = createRegistry()
  registerStoreMetrics(registry, { health: () => store.health(), name: 'memory' })
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
