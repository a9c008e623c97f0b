import { createLimiter, memoryStore } from '@sluice/limiter'
import type { RedisStats } from '@sluice/limiter/redis'
import { expect, test } from 'vitest'
import { readMetrics, valueOf } from '../metrics/read-metrics.test-helper.js'
import { createRegistry } from '../metrics/registry.js'
import { registerMemoryMetrics, registerRedisMetrics } from './store-metrics.js'

const MEMORY = { usedBytes: 70, maxBytes: 100, keys: 3, evictedKeys: 4, isAppendOnly: false }

function read(memory: RedisStats['memory']) {
  const registry = createRegistry()
  const stats: RedisStats = { state: 'ready', nodes: [], fleet: { size: 1, ageMs: 0 }, memory }
  registerRedisMetrics(registry, { stats: () => stats, layout: 'plain' })
  return readMetrics(registry.text())
}

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
