import { expect, test } from 'vitest'
import { mergeMetrics } from './merge.js'
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
