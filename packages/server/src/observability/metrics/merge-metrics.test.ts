import { expect, test } from 'vitest'
import { registerCallersMetric } from './caller-metrics.js'
import { mergeMetrics } from './merge-metrics.js'
import { createRegistry } from './registry.js'

function textOf(allowed: Readonly<Record<string, number>>, version: number): string {
  const registry = createRegistry()
  const counter = registry.counter('sluice_decisions_total', 'Decisions.', ['rule'])
  for (const [rule, count] of Object.entries(allowed)) counter.labels(rule).inc(count)
  registry.gauge('sluice_rules_version', 'Version.', () => version)
  return registry.text()
}

test('counts of several processes add up, and what they share is told once', () => {
  const merged = mergeMetrics([textOf({ a: 1, 'b c "d"': 2 }, 7), textOf({ a: 10, e: 3 }, 8), ''])
  expect(merged).toBe(textOf({ a: 11, 'b c "d"': 2, e: 3 }, 8))
})

test('one process alone is told as it is', () => {
  expect(mergeMetrics([textOf({ a: 1 }, 1)])).toBe(textOf({ a: 1 }, 1))
  expect(mergeMetrics([])).toBe('')
})

function timesOf(...seconds: readonly number[]): string {
  const registry = createRegistry()
  const histogram = registry.histogram('sluice_store_seconds', 'Times.', [0.0001, 0.001, 0.01, 2])
  for (const value of seconds) histogram.observe(value)
  registry.gauge('sluice_store_secondary', 'Another that begins alike.', () => 1)
  return registry.text()
}

test('histograms add up bucket by bucket, and their buckets stay in the order of their bounds', () => {
  const merged = mergeMetrics([timesOf(0.00005, 0.5), timesOf(0.005, 7), timesOf()])
  expect(merged).toBe(
    timesOf(0.00005, 0.5, 0.005, 7).replace('sluice_store_secondary 1', 'sluice_store_secondary 3'),
  )
})

test('what all of them see of one store is told once, at its worst', () => {
  const storeOf = (offset: number, open: number, keys: number) => {
    const registry = createRegistry()
    const gauge = (name: string, value: number) =>
      registry.gauge(name, 'G.', () => [[['a:1'], value]], ['store'])
    gauge('sluice_clock_offset_seconds', offset)
    gauge('sluice_breaker_open', open)
    gauge('sluice_store_up', 1 - open)
    registry.gauge('sluice_counters', 'C.', () => keys)
    registry.gauge('sluice_fleet_size', 'N.', () => 2)
    return registry.text()
  }
  expect(mergeMetrics([storeOf(0.001, 1, 10), storeOf(-0.03, 0, 12)])).toBe(storeOf(-0.03, 1, 12))
})

function sharesOf(seen: Readonly<Record<string, readonly number[]>>): string {
  const registry = createRegistry()
  const histogram = registry.labelledHistogram('shares', 'Shares.', [0, 0.25, 1, 10], ['rule'])
  for (const [rule, values] of Object.entries(seen)) {
    for (const value of values) histogram.labels(rule).observe(value)
  }
  return registry.text()
}

test('histograms with labels add up series by series, as one process would have written them', () => {
  const hostile = 'x",le="1"} 2\u2028,{'
  const merged = mergeMetrics([
    sharesOf({ b: [0.1, 2], [hostile]: [1] }),
    sharesOf({ a: [0, 0.1], b: [20, 1] }),
    sharesOf({ [hostile]: [0] }),
  ])
  expect(merged).toBe(sharesOf({ a: [0, 0.1], b: [0.1, 2, 20, 1], [hostile]: [1, 0] }))
})

test('a caller that came to two processes is not told as two', () => {
  const callersOf = (rules: Readonly<Record<string, number>>) => {
    const registry = createRegistry()
    registerCallersMetric(registry, { estimates: () => Object.entries(rules) })
    return registry.text()
  }
  expect(mergeMetrics([callersOf({ a: 10, b: 1 }), callersOf({ a: 7 })])).toBe(
    callersOf({ a: 10, b: 1 }),
  )
})
