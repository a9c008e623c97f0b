import { expect, test } from 'vitest'
import { createMemoryLog } from '../observability/log/memory-log.test-helper.js'
import { readMetrics, valueOf } from '../observability/metrics/read-metrics.test-helper.js'
import { createRegistry } from '../observability/metrics/registry.js'
import { registerStoreMetrics, STORES_MAX } from './store-metrics.js'
import { createStoreObserver } from './store-observer.js'

const STORE = '10.0.0.1:6379'

function setUp() {
  let now = Date.UTC(2026, 0, 1)
  const clock = { now: () => now }
  const registry = createRegistry()
  const { log, lines } = createMemoryLog('debug', clock)
  const observer = createStoreObserver({ log, clock, registry })
  const read = () => readMetrics(registry.text())
  return { observer, registry, lines, read, advance: (ms: number) => void (now += ms) }
}

test('batches are timed, errors and held refusals counted', () => {
  const { observer, read } = setUp()
  observer.batch(STORE, 0.0007, 12)
  observer.batch(STORE, 0.2, 1)
  observer.error('OOM', STORE)
  observer.error('OOM', '10.0.0.2:6379')
  observer.error('deadline', STORE)
  observer.held()
  const metrics = read()
  expect(valueOf(metrics, 'sluice_store_seconds_bucket', { le: '0.001' })).toBe(1)
  expect(valueOf(metrics, 'sluice_store_seconds_count')).toBe(2)
  expect(valueOf(metrics, 'sluice_store_errors_total', { code: 'OOM' })).toBe(2)
  expect(valueOf(metrics, 'sluice_store_errors_total', { code: 'deadline' })).toBe(1)
  expect(valueOf(metrics, 'sluice_held_refusals_total')).toBe(1)
})

test('an error that keeps Redis from counting is logged once a second per code', () => {
  const { observer, lines, advance } = setUp()
  for (let i = 0; i < 5; i++) observer.error('OOM', STORE)
  observer.error('READONLY', STORE)
  for (const routine of 'NOSCRIPT MOVED ASK TRYAGAIN breaker connection deadline late'.split(' ')) {
    observer.error(routine, STORE)
  }
  const logged = () =>
    lines.splice(0).map(({ level, msg, code, suppressed }) => [level, msg, code, suppressed])
  expect(logged()).toEqual([
    ['warn', 'store error', 'OOM', 0],
    ['warn', 'store error', 'READONLY', 0],
  ])
  advance(1000)
  observer.error('OOM', STORE)
  expect(logged()).toEqual([['warn', 'store error', 'OOM', 4]])
})

test('a breaker is logged when it opens or closes, once a second per node', () => {
  const { observer, lines, read, advance } = setUp()
  observer.breakerOpened(STORE)
  observer.breakerClosed(STORE)
  observer.breakerOpened(STORE)
  observer.breakerOpened('10.0.0.2:6379')
  const logged = () => lines.splice(0).map(({ level, msg, store }) => [level, msg, store])
  expect(logged()).toEqual([
    ['warn', 'breaker opened', STORE],
    ['info', 'breaker closed', STORE],
    ['warn', 'breaker opened', '10.0.0.2:6379'],
  ])
  advance(1000)
  observer.breakerOpened(STORE)
  expect(lines).toMatchObject([{ suppressed: 1 }])
  expect(valueOf(read(), 'sluice_breaker_opened_total', { store: STORE })).toBe(3)
})

test('a breaker counter starts at 0, so that an increase shows its first opening', () => {
  const { observer, read } = setUp()
  observer.register(STORE)
  expect(valueOf(read(), 'sluice_breaker_opened_total', { store: STORE })).toBe(0)
  observer.breakerOpened(STORE)
  observer.register(STORE)
  expect(valueOf(read(), 'sluice_breaker_opened_total', { store: STORE })).toBe(1)
})

test('each problem is logged on one line, the same one once a second', () => {
  const { observer, lines } = setUp()
  for (let i = 0; i < 5; i++) observer.problem('memory is nearly full')
  observer.problem('snapshots are on\nand this is no second line')
  expect(lines.map(({ level, problem }) => [level, problem])).toEqual([
    ['warn', 'memory is nearly full'],
    ['warn', 'snapshots are on\\u000aand this is no second line'],
  ])
})

test('a topology of any size adds a bounded number of series', () => {
  const { registry, read } = setUp()
  const nodes = Array.from({ length: STORES_MAX + 5 }, (_, i) => ({
    address: `10.0.0.${i}:6379`,
    isAnswering: true,
    isBreakerOpen: i === 0,
    breakerOpened: 0,
    clock: i === 0 ? { offsetSeconds: -0.5, errorSeconds: 0 } : undefined,
    inFlight: 0,
    queuedTakes: i,
  }))
  const remote = { state: 'ready', nodes, fleet: { size: 4, ageMs: 0 } } as const
  const memory = {
    usedBytes: 7,
    maxBytes: 9,
    counters: undefined,
    evicted: 0,
    evictedBlocked: 0,
  }
  const health = () => ({ remote, memory, isPersistent: false })
  registerStoreMetrics(registry, { health, name: 'redis' })
  const metrics = read()
  expect(metrics.get('sluice_breaker_open')?.samples.size).toBe(STORES_MAX)
  expect(metrics.get('sluice_clock_offset_seconds')?.samples.size).toBe(1)
  const store = '10.0.0.0:6379'
  expect(valueOf(metrics, 'sluice_breaker_open', { store })).toBe(1)
  expect(valueOf(metrics, 'sluice_clock_offset_seconds', { store })).toBe(-0.5)
  expect(valueOf(metrics, 'sluice_store_queue_takes', { store: '10.0.0.9:6379' })).toBe(9)
  expect(valueOf(metrics, 'sluice_store_memory_bytes')).toBe(7)
  expect(valueOf(metrics, 'sluice_fleet_size')).toBe(4)
  expect(valueOf(metrics, 'sluice_counters')).toBeUndefined()
})
