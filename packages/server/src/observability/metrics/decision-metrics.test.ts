import { type Decision, type RuleOutcome, type Source, UNMATCHED } from '@sluice/core'
import { createLimiter } from '@sluice/limiter'
import { expect, test } from 'vitest'
import { createDecisionMetrics } from './decision-metrics.js'
import { readMetrics, valueOf } from './read-metrics.test-helper.js'
import { createRegistry } from './registry.js'
import { propertyRuns } from '../../../../../tools/property-runs.js'

const NAME = 'sluice_decisions_total'

function setUp() {
  const registry = createRegistry()
  const metrics = createDecisionMetrics(registry)
  const read = () => readMetrics(registry.text())
  return { registry, metrics, read }
}

/** A decision with the fields that metrics use. */
function decisionOf(rules: readonly [string, RuleOutcome][], source: Source = 'store'): Decision {
  return {
    ...UNMATCHED,
    source,
    eachRule: (visit) => {
      for (const [rule, outcome] of rules) visit(rule, outcome)
    },
  }
}

test('a decision is counted once for each rule that matched', () => {
  const { metrics, read } = setUp()
  const limiter = createLimiter({
    rules: `
      rules:
        - { id: tight, by: [user], limits: [1/hour] }
        - { id: wide, by: [], limits: [100/hour] }
        - { id: tried, by: [user], limits: [1/hour], mode: shadow }
    `,
  })
  const call = { attributes: { user: 'u1' } }
  for (let i = 0; i < 3; i++) metrics.count(limiter.checkSync(call))
  const count = (rule: string, outcome: string) =>
    valueOf(read(), NAME, { rule, outcome, source: 'store' })
  expect(count('tight', 'allowed')).toBe(1)
  expect(count('tight', 'refused')).toBe(2)
  expect(count('wide', 'allowed')).toBe(3)
  expect(count('wide', 'refused')).toBeUndefined()
  expect(count('tried', 'shadow_refused')).toBeUndefined()
})

test('the shadow share covers only calls that the candidate decided', () => {
  const { metrics, read } = setUp()
  const limiter = createLimiter({
    rules: `
      rules:
        - { id: all, by: [], limits: [4/hour], candidate: { limits: [1/hour] } }
        - { id: tried, by: [user], limits: [2/hour], mode: shadow }
    `,
  })
  for (let i = 0; i < 100; i++) metrics.count(limiter.checkSync({ attributes: { user: 'u1' } }))
  const count = (rule: string, outcome: string) =>
    valueOf(read(), NAME, { rule, outcome, source: 'store' })
  expect([count('all', 'allowed'), count('all', 'refused')]).toEqual([4, 96])
  expect([count('all:candidate', 'allowed'), count('all:candidate', 'shadow_refused')]).toEqual([
    1, 3,
  ])
  expect([count('tried', 'allowed'), count('tried', 'shadow_refused')]).toEqual([2, 2])
})

test('a call without a matching rule is counted under an empty rule', () => {
  const { metrics, read } = setUp()
  metrics.count(UNMATCHED)
  expect(valueOf(read(), NAME, { rule: '', outcome: 'allowed', source: 'store' })).toBe(1)
})

test('every outcome and source has its own series', () => {
  const { metrics, read } = setUp()
  const sources = ['store', 'lease', 'local', 'deny-cache', 'posture'] as const
  const outcomes = ['allowed', 'refused', 'shadow_refused'] as const
  const counted: [Source, RuleOutcome, number][] = sources.flatMap((source, i) =>
    outcomes.map((outcome, j): [Source, RuleOutcome, number] => [source, outcome, i * 3 + j + 1]),
  )
  for (const [source, outcome, times] of counted) {
    for (let i = 0; i < times; i++) metrics.count(decisionOf([['r', outcome]], source))
  }
  const result = read()
  for (const [source, outcome, times] of counted) {
    expect(valueOf(result, NAME, { rule: 'r', outcome, source })).toBe(times)
  }
})

test('callers add no series, a million of them in the full tier', () => {
  const { metrics, read } = setUp()
  const limiter = createLimiter({
    rules: 'rules: [{ id: per-user, by: [user], limits: [1/hour] }]',
  })
  const calls = propertyRuns(1_000_000)
  for (let i = 0; i < calls; i++) {
    metrics.count(limiter.checkSync({ attributes: { user: `u${i}`, path: `/p/${i}` } }))
  }
  const samples = read().get(NAME)?.samples
  expect(samples?.size).toBeLessThanOrEqual(2)
  expect([...(samples?.values() ?? [])].reduce((sum, count) => sum + count, 0)).toBe(calls)
})

test('a removed rule keeps its series', () => {
  const { metrics, read } = setUp()
  metrics.count(decisionOf([['old', 'allowed']]))
  for (let i = 0; i < 100; i++) metrics.count(decisionOf([['new', 'allowed']]))
  expect(valueOf(read(), NAME, { rule: 'old', outcome: 'allowed', source: 'store' })).toBe(1)
})

test('names beyond 20,000 share one series, and no decision is lost', () => {
  const { metrics, read } = setUp()
  for (let i = 0; i < 20_100; i++) metrics.count(decisionOf([[`rule-${i}`, 'refused']]))
  metrics.count(decisionOf([['rule-7', 'refused']]))
  const result = read()
  const count = (rule: string) =>
    valueOf(result, NAME, { rule, outcome: 'refused', source: 'store' })
  expect(count('rule-19999')).toBe(1)
  expect(count('rule-20000')).toBeUndefined()
  expect(count('other')).toBe(100)
  expect(count('rule-7')).toBe(2)
  expect(result.get(NAME)?.samples.size).toBe(20_001)
})

test('units that exceed a debt are counted by rule', () => {
  const { metrics, read } = setUp()
  const limits = [
    { algorithm: 'fixed-window', max: 10, window: '1h', onRefusal: 'overdraw', debt: 5 },
  ]
  const limiter = createLimiter({
    rules: [
      { id: 'tokens', by: ['user'], limits },
      { id: 'calls', by: ['user'], limits: ['100/hour'] },
    ],
  })
  for (const cost of [10, 4, 4, 4]) {
    metrics.count(limiter.checkSync({ attributes: { user: 'u1' }, cost }))
  }
  const result = read()
  expect(valueOf(result, 'sluice_debt_dropped_total', { rule: 'tokens' })).toBe(7)
  expect(result.get('sluice_debt_dropped_total')?.samples.size).toBe(1)
})

test('decisions by posture are also counted by rule and posture', () => {
  const { metrics, read } = setUp()
  const postures = { one: 'open', two: 'local' } as const
  const rules: [string, RuleOutcome][] = [
    ['one', 'allowed'],
    ['two', 'refused'],
    ['three', 'allowed'],
  ]
  const degraded: Decision = {
    ...decisionOf(rules, 'posture'),
    postures,
    degraded: (visit) => {
      visit('one', 'open')
      visit('two', 'local')
    },
  }
  metrics.count(degraded)
  metrics.count(degraded)
  metrics.count(decisionOf(rules))
  const result = read()
  const count = (rule: string, posture: string) =>
    valueOf(result, 'sluice_degraded_total', { rule, posture })
  expect(count('one', 'open')).toBe(2)
  expect(count('two', 'local')).toBe(2)
  expect(result.get('sluice_degraded_total')?.samples.size).toBe(2)
  const seen: [string, number, number][] = []
  metrics.eachRule((rule, decisions, badly) => seen.push([rule, decisions, badly]))
  expect(seen).toEqual([
    ['one', 3, 2],
    ['two', 3, 2],
    ['three', 3, 0],
  ])
})

test('the outcomes of each rule and each candidate can be read', () => {
  const { metrics } = setUp()
  metrics.count(
    decisionOf([
      ['a', 'allowed'],
      ['a:candidate', 'shadow_refused'],
    ]),
  )
  metrics.count(
    decisionOf([
      ['a', 'refused'],
      ['a:candidate', 'allowed'],
    ]),
  )
  metrics.count(decisionOf([['a', 'refused']]))
  const visits: unknown[] = []
  metrics.eachRule((rule, decisions, degraded, counted) => {
    const { allowed, refused, shadowRefused } = counted
    visits.push([rule, decisions, degraded, allowed, refused, shadowRefused])
  })
  expect(visits).toEqual([
    ['a', 3, 0, 1, 2, 0],
    ['a:candidate', 2, 0, 1, 0, 1],
  ])
})

test('a call counts as one decision, however many rules matched', () => {
  const { metrics } = setUp()
  const limiter = createLimiter({
    rules: `
      rules:
        - id: tight
          by: [user]
          limits: [1/hour]
          candidate: { limits: [2/hour] }
        - { id: tried, by: [user], limits: [1/hour], mode: shadow }
    `,
  })
  const decision = limiter.checkSync({ attributes: { user: 'u1' } })
  metrics.count(decision)
  metrics.count(limiter.checkSync({ attributes: {} }))
  expect(metrics.matched()).toEqual({ decisions: 1, degraded: 0 })
  const postures = { tight: 'local' } as const
  metrics.count(Object.assign(limiter.checkSync({ attributes: { user: 'u2' } }), { postures }))
  expect(metrics.matched()).toEqual({ decisions: 2, degraded: 1 })
})
