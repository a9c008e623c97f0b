/** Checks the metrics text with promtool: its format and the names of metrics. */
import { execFileSync } from 'node:child_process'
import { UNMATCHED } from '@sluice/core'
import { memoryStore } from '@sluice/limiter'
import { expect, test } from 'vitest'
import { findService } from '../../../../../tools/services.mjs'
import { createMemoryLog } from '../log/memory-log.test-helper.js'
import { DistinctCallers } from '../stats/distinct-callers.js'
import { registerStoreMetrics } from '../../counter-store/store-metrics.js'
import { createStoreObserver } from '../../counter-store/store-observer.js'
import { registerAlertMetrics } from './alert-metrics.js'
import { registerCallersMetric } from './caller-metrics.js'
import { registerCoordinationMetrics } from './coordination-metrics.js'
import { createDecisionMetrics } from './decision-metrics.js'
import { mergeMetrics } from './merge-metrics.js'
import { createRegistry, type Registry } from './registry.js'
import { createRemainingMetrics } from './remaining-metrics.js'

const HOSTILE = 'a "b" \\ \n c{},= \u2028'

/** The output of promtool, empty if it has no complaint. Throws if it cannot parse the text. */
function lint(text: string): string {
  return execFileSync(findService('promtool'), ['check', 'metrics'], {
    input: text,
    encoding: 'utf8',
    stdio: ['pipe', 'pipe', 'pipe'],
  })
}

function fill(registry: Registry): void {
  createDecisionMetrics(registry).count(UNMATCHED)
  const remaining = createRemainingMetrics(registry)
  for (const rule of ['login', 'search', HOSTILE]) {
    for (const left of [0, 0.3, 1]) remaining.ofRule(rule).observe(left)
  }
  const distinct = new DistinctCallers()
  for (let i = 0; i < 300; i++) distinct.ofRule('login')?.record(i * 7, i << 20)
  registerCallersMetric(registry, distinct)
  registerAlertMetrics(registry, {
    active: () => [{ alert: 'degraded' }],
    totals: () => new Map([['degraded', 1]]),
  })
  registerCoordinationMetrics(registry, {
    stats: () => new Map(),
    catalog: { rules: () => [] },
  })
  registry.histogram('sluice_decision_seconds', 'How long decisions took.', [0.001, 1]).observe(0.5)
}

test('promtool accepts every kind of metric without complaint', () => {
  const registry = createRegistry()
  fill(registry)
  const store = memoryStore()
  registerStoreMetrics(registry, { health: () => store.health(), name: 'memory' })
  const text = registry.text()
  expect(text).toContain('sluice_remaining_ratio_bucket{rule="search",le="0.25"} 1\n')
  expect(lint(text)).toBe('')
  expect(lint(mergeMetrics([text, text]))).toBe('')
})

test('promtool accepts the metrics of Redis without complaint', () => {
  const registry = createRegistry()
  fill(registry)
  const { log } = createMemoryLog()
  createStoreObserver({ log, clock: { now: () => 0 }, registry }).batch('redis:6379', 0.01, 1)
  const health = () => ({
    remote: { state: 'ready' as const, nodes: [], fleet: { size: 2, ageMs: 0 } },
    memory: { usedBytes: 10, maxBytes: 100, counters: 3, evicted: 1, evictedBlocked: 1 },
    isPersistent: true,
  })
  registerStoreMetrics(registry, { health, name: 'redis' })
  const text = registry.text()
  expect(text).toContain('\nsluice_store_memory_max_bytes 100\n')
  expect(text).toContain('\nsluice_store_evicted_total 1\n')
  expect(lint(text)).toBe('')
})

test('promtool complains about a counter with an invalid name', () => {
  const bad =
    '# HELP sluice_calls_total C.\n# TYPE sluice_calls_total gauge\nsluice_calls_total 1\n'
  expect(() => lint(bad)).toThrow()
  expect(() => lint('sluice_calls{rule="a} 1\n')).toThrow()
})
