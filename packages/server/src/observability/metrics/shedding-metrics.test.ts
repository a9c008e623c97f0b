import { createLimiter } from '@sluice/limiter'
import { expect, test } from 'vitest'
import { createDecisionMetrics } from './decision-metrics.js'
import { createRegistry } from './registry.js'
import { SheddingMetrics } from './shedding-metrics.js'

const SET = {
  priorities: ['critical', 'reads'],
  rules: [
    {
      id: 'fleet',
      by: [],
      limits: ['5/hour'],
      headroom: { critical: '40%' },
      protects: 'capacity',
    },
    { id: 'try', by: [], limits: ['1/hour'], mode: 'shadow', protects: 'capacity' },
  ],
}

test('calls and shed calls are counted by priority, those in shadow apart', async () => {
  const rules = { ...SET, shed: { loop: '50ms' } }
  const limiter = createLimiter({ rules, load: () => 0 })
  const registry = createRegistry()
  const shedding = new SheddingMetrics(registry, {
    stats: () => limiter.shedding,
    loopDelayMs: () => 12,
  })
  const metrics = createDecisionMetrics(registry, shedding)
  const call = (priority: string) => metrics.count(limiter.checkSync({ attributes: { priority } }))
  for (let i = 0; i < 4; i++) call('reads')
  for (let i = 0; i < 3; i++) call('critical')
  const text = registry.text()
  expect(text).toContain('sluice_calls_total{priority="critical"} 3')
  expect(text).toContain('sluice_calls_total{priority="reads"} 4')
  expect(text).toContain('sluice_shed_total{rule="fleet",priority="reads",mode="enforce"} 1')
  expect(text).toContain('sluice_shed_total{rule="fleet",priority="critical",mode="enforce"} 1')
  expect(text).toContain('sluice_shed_total{rule="try",priority="reads",mode="shadow"} 2')
  expect(text).toContain('sluice_shed_total{rule="try",priority="critical",mode="shadow"} 2')
  expect(text).toContain('sluice_loop_delay_seconds 0.012')
  expect(text).toContain('sluice_shed_share 0\n')
  expect(text).toContain('sluice_shed_failures_total 0')
  expect(text).toContain('sluice_shed_kept_total{priority="critical"} 1')
  expect(shedding.totals()).toEqual({
    calls: 7,
    shed: 2,
    each: [
      { rule: 'fleet', priority: 'reads', shed: 1 },
      { rule: 'fleet', priority: 'critical', shed: 1 },
    ],
    kept: [['critical', 1]],
  })
  expect(shedding.priorities()).toEqual([
    ['critical', { admitted: 2, shed: 1, shadowShed: 2 }],
    ['reads', { admitted: 3, shed: 1, shadowShed: 2 }],
  ])
  limiter.setRules([{ id: 'fleet', by: [], limits: ['5/hour'], protects: 'capacity' }])
  expect(shedding.priorities()).toEqual([])
  metrics.count(limiter.checkSync({ attributes: {} }))
  const plain = registry.text()
  expect(plain).toContain('sluice_loop_delay_seconds 0\n')
  expect(plain).toContain('sluice_calls_total{priority=""} 1')
  expect(plain).toContain('sluice_shed_total{rule="fleet",priority="",mode="enforce"} 1')
  await limiter.close()
})
