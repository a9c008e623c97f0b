import { expect, test } from 'vitest'
import { readMetrics, valueOf } from './read-metrics.test-helper.js'
import { createRegistry } from './registry.js'
import { createRemainingMetrics } from './remaining-metrics.js'

const NAME = 'sluice_remaining_ratio'

function setUp() {
  const registry = createRegistry()
  const remaining = createRemainingMetrics(registry)
  const bucket = (rule: string, le: string) =>
    valueOf(readMetrics(registry.text()), `${NAME}_bucket`, { rule, le })
  return { registry, remaining, bucket }
}

test('remaining shares are counted by rule, and 0 has its own bucket', () => {
  const { remaining, bucket } = setUp()
  for (const left of [0, 0, 0.05, 0.5, 1]) remaining.ofRule('login').observe(left)
  remaining.ofRule('search').observe(0.95)
  expect(['0', '0.1', '0.25', '0.5', '0.9', '1'].map((le) => bucket('login', le))).toEqual([
    2, 3, 3, 4, 4, 5,
  ])
  expect([bucket('search', '0.9'), bucket('search', '1')]).toEqual([0, 1])
})

test('an unknown share is not counted, and one above 1 counts as 1', () => {
  const { remaining, bucket } = setUp()
  const rule = remaining.ofRule('tried')
  for (const left of [-1, Number.NaN, 1.5]) rule.observe(left)
  expect([bucket('tried', '0.9'), bucket('tried', '1'), bucket('tried', '+Inf')]).toEqual([0, 1, 1])
})

test('a rule has the same histogram each time, which can be read', () => {
  const { remaining, bucket } = setUp()
  const rule = remaining.ofRule('login')
  rule.observe(0.2)
  expect(remaining.ofRule('login')).toBe(rule)
  expect(bucket('login', '0.25')).toBe(1)
  expect(rule.counts().length).toBe(rule.bounds.length + 1)
  expect([...rule.counts()]).toEqual([0, 0, 1, 0, 0, 0, 0, 0])
})

test('names beyond 20,000 share one series', () => {
  const { registry, remaining } = setUp()
  for (let i = 0; i < 20_100; i++) remaining.ofRule(`rule-${i}`).observe(0.5)
  remaining.ofRule('rule-7').observe(0.5)
  const counts = registry.text().split('\n')
  const count = (rule: string) => counts.find((line) => line.startsWith(countOf(rule)))
  expect(count('rule-7')).toBe(`${countOf('rule-7')} 2`)
  expect(count('rule-20000')).toBeUndefined()
  expect(count('other')).toBe(`${countOf('other')} 100`)
  expect(counts.filter((line) => line.startsWith(`${NAME}_count`))).toHaveLength(20_001)
})

function countOf(rule: string): string {
  return `${NAME}_count{rule="${rule}"}`
}
