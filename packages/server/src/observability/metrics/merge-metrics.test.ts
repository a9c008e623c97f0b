import { expect, test } from 'vitest'
import { registerStoreMetrics } from '../../counter-store/store-metrics.js'
import { registerCallersMetric } from './caller-metrics.js'
import { mergeMetrics } from './merge-metrics.js'
import { createRegistry, type Registry } from './registry.js'

function merge(...registries: readonly Registry[]): string {
  return mergeMetrics(registries.map((registry) => registry.mergeableText()))
}

function decisionsOf(allowed: Readonly<Record<string, number>>, version: number): Registry {
  const registry = createRegistry()
  const counter = registry.counter('sluice_decisions_total', 'Decisions.', ['rule'])
  for (const [rule, count] of Object.entries(allowed)) counter.labels(rule).inc(count)
  registry.gauge('sluice_rules_version', 'Version.', 'max', () => version)
  return registry
}

test('counters of several workers are summed, and a shared value is reported once', () => {
  const one = decisionsOf({ a: 1, 'b c "d"': 2 }, 7)
  const other = decisionsOf({ a: 10, e: 3 }, 8)
  const merged = mergeMetrics([one.mergeableText(), other.mergeableText(), ''])
  expect(merged).toBe(decisionsOf({ a: 11, 'b c "d"': 2, e: 3 }, 8).text())
})

test('the metrics of a single worker stay unchanged', () => {
  expect(merge(decisionsOf({ a: 1 }, 1))).toBe(decisionsOf({ a: 1 }, 1).text())
  expect(mergeMetrics([])).toBe('')
})

function timesOf(...seconds: readonly number[]): Registry {
  const registry = createRegistry()
  const histogram = registry.histogram('sluice_store_seconds', 'Times.', [0.0001, 0.001, 0.01, 2])
  for (const value of seconds) histogram.observe(value)
  registry.gauge('sluice_store_secondary', 'Another that begins alike.', 'sum', () => 1)
  return registry
}

test('histograms are summed bucket by bucket, and buckets stay sorted by their bounds', () => {
  expect(merge(timesOf(0.00005, 0.5), timesOf(0.005, 7), timesOf())).toBe(
    timesOf(0.00005, 0.5, 0.005, 7)
      .text()
      .replace('sluice_store_secondary 1', 'sluice_store_secondary 3'),
  )
})

test('the state of the store, which all workers observe, is reported once at its worst', () => {
  const storeOf = (offsetSeconds: number, isBreakerOpen: boolean, keys: number) => {
    const registry = createRegistry()
    const node = {
      address: 'a:1',
      isAnswering: !isBreakerOpen,
      isBreakerOpen,
      breakerOpened: 0,
      clock: { offsetSeconds, errorSeconds: 0 },
      inFlight: 0,
      queuedTakes: 0,
    }
    const memory = {
      counters: keys,
      usedBytes: keys * 100,
      maxBytes: 10_000,
      evicted: keys,
      evictedBlocked: keys,
    }
    const remote = { state: 'ready', nodes: [node], fleet: { size: 2, ageMs: 0 } } as const
    const health = () => ({ remote, memory, isPersistent: undefined })
    registerStoreMetrics(registry, { health, name: 'redis' })
    return registry
  }
  expect(merge(storeOf(0.001, true, 10), storeOf(-0.03, false, 12))).toBe(
    storeOf(-0.03, true, 12).text(),
  )
})

test('furthest keeps the value with the largest distance from 0, whichever worker has it', () => {
  const offsetOf = (seconds: number) => {
    const registry = createRegistry()
    registry.gauge('sluice_offset', 'O.', 'furthest', () => seconds)
    return registry
  }
  expect(merge(offsetOf(-2), offsetOf(1))).toBe(offsetOf(-2).text())
  expect(merge(offsetOf(1), offsetOf(-2))).toBe(offsetOf(-2).text())
})

function sharesOf(seen: Readonly<Record<string, readonly number[]>>): Registry {
  const registry = createRegistry()
  const histogram = registry.labelledHistogram('shares', 'Shares.', [0, 0.25, 1, 10], ['rule'])
  for (const [rule, values] of Object.entries(seen)) {
    for (const value of values) histogram.labels(rule).observe(value)
  }
  return registry
}

test('labelled histograms are summed series by series, in the format of a single process', () => {
  const hostile = 'x",le="1"} 2\u2028,{'
  const merged = merge(
    sharesOf({ b: [0.1, 2], [hostile]: [1] }),
    sharesOf({ a: [0, 0.1], b: [20, 1] }),
    sharesOf({ [hostile]: [0] }),
  )
  expect(merged).toBe(sharesOf({ a: [0, 0.1], b: [0.1, 2, 20, 1], [hostile]: [1, 0] }).text())
})

test('a caller of two workers is not counted twice', () => {
  const callersOf = (rules: Readonly<Record<string, number>>) => {
    const registry = createRegistry()
    registerCallersMetric(registry, { estimates: () => Object.entries(rules) })
    return registry
  }
  expect(merge(callersOf({ a: 10, b: 1 }), callersOf({ a: 7 }))).toBe(
    callersOf({ a: 10, b: 1 }).text(),
  )
})
