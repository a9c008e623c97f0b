import { type Call, UNMATCHED } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import type { PriorityTotals } from '../metrics/shedding-metrics.js'
import { UNTRACKED } from './callers/rule-callers.js'
import {
  RULE_BUCKET_MS,
  RULE_BUCKETS,
  SNAPSHOT_RULES_MAX,
  BUCKET_MS,
  BUCKETS,
} from './node-snapshot.js'
import { BEGAN_MS, makeNode, sumOf } from './stats.test-helper.js'

const ruleOf = (node: ReturnType<typeof makeNode>, rule: string) =>
  node.snapshot().rules.find((reported) => reported.rule === rule)

describe('the totals of a node', () => {
  test('count each decision once, however many rules matched', () => {
    const node = makeNode()
    node.pass(1)
    node.call('u1', 4)
    node.decide({ attributes: {} })
    node.pass(1)
    // The second call is one that `tried` would refuse; the others are refused by `tight`.
    expect(node.snapshot().total).toEqual({
      end: BEGAN_MS / BUCKET_MS + 1,
      allowed: [2],
      refused: [2],
      shadowRefused: [1],
      degraded: [0],
    })
  })

  test('count decisions by posture in addition to their outcome', () => {
    const node = makeNode()
    node.stats.onDecision({ ...UNMATCHED, postures: { tight: 'open' } }, { attributes: {} })
    node.stats.onDecision(UNMATCHED, { attributes: {} })
    node.pass(2)
    const { total } = node.snapshot()
    expect([total.allowed, total.degraded]).toEqual([[2], [1]])
  })

  test('have buckets of two seconds for five minutes, and of a minute for hours', () => {
    const node = makeNode()
    node.pass(400, () => node.decide({ attributes: {} }))
    const { total, minutes } = node.snapshot()
    expect(total.allowed).toEqual(Array.from({ length: BUCKETS }, () => 2))
    expect(total.end * BUCKET_MS).toBe(BEGAN_MS + 400_000)
    expect(minutes.allowed).toEqual([60, 60, 60, 60, 60, 60])
    expect(minutes.end * 60_000).toBe(BEGAN_MS + 360_000)
  })

  test('have the latency of decisions and of the store for each bucket', () => {
    const node = makeNode()
    node.decisionTimes.observe(0.0005, 64)
    node.pass(2)
    node.decisionTimes.observe(0.5)
    node.storeTimes.observe(0.005)
    node.pass(2)
    const { total, decisions, store } = node.snapshot()
    expect(total.allowed).toHaveLength(2)
    expect(decisions).toEqual({
      bounds: [0.001, 0.01],
      steps: [
        [0, 64],
        [2, 1],
      ],
    })
    expect(store.steps).toEqual([[], [1, 1]])
  })

  test('have no store latency with the memory store', () => {
    const node = makeNode({ deps: { storeTimes: undefined } })
    node.pass(2)
    expect(node.snapshot().store).toEqual({ bounds: [], steps: [] })
  })

  test('are published as JSON with the identity of the node', () => {
    const node = makeNode({ id: 'abc' })
    node.call('u1', 5)
    node.pass(30)
    const snapshot = node.snapshot()
    expect(snapshot).toMatchObject({
      format: 1,
      node: { id: 'abc', host: 'host', pid: 1 },
      release: '1.0.0',
      rulesVersion: 7,
      atMs: BEGAN_MS + 30_000,
      storeHealth: { name: 'memory' },
    })
    expect(JSON.parse(JSON.stringify(snapshot))).toEqual(snapshot)
  })
})

describe('a priority', () => {
  const setUp = () => {
    const totals = new Map<string, PriorityTotals>()
    const node = makeNode({ deps: { priorities: () => [...totals] } })
    const add = (priority: string, admitted: number, shed = 0, shadowShed = 0) => {
      const before = totals.get(priority) ?? { admitted: 0, shed: 0, shadowShed: 0 }
      totals.set(priority, {
        admitted: before.admitted + admitted,
        shed: before.shed + shed,
        shadowShed: before.shadowShed + shadowShed,
      })
    }
    return { node, add, totals }
  }

  test('has the growth of its counts by bucket, in the order of importance', () => {
    const { node, add } = setUp()
    node.pass(1, () => {
      add('critical', 3)
      add('reads', 5, 2, 1)
    })
    node.pass(2, () => add('reads', 0, 4))
    node.pass(1)
    const [critical, reads] = node.snapshot().priorities ?? []
    expect(critical).toMatchObject({ priority: 'critical', series: { allowed: [3, 0] } })
    expect(reads).toMatchObject({
      priority: 'reads',
      series: { end: node.snapshot().total.end, allowed: [5, 0], refused: [6, 4] },
    })
    expect(reads?.series.shadowRefused).toEqual([1, 0])
  })

  test('of earlier rules is left out, and counts nothing twice when it is back', () => {
    const { node, add, totals } = setUp()
    node.pass(2, () => add('reads', 5))
    const before = totals.get('reads') ?? { admitted: 0, shed: 0, shadowShed: 0 }
    totals.delete('reads')
    node.pass(2)
    expect(node.snapshot().priorities).toEqual([])
    totals.set('reads', before)
    node.pass(2, () => add('reads', 1))
    expect(node.snapshot().priorities?.[0]?.series.allowed).toEqual([10, 0, 2])
  })
})

test('calls in flight have their peak since the rule counts them', () => {
  const backend = {
    rule: 'backend',
    inFlight: 0,
    max: 80,
    isPerNode: true,
    isPerCaller: false,
    ceilings: [],
  }
  let calls = [backend]
  const node = makeNode({ deps: { inFlight: () => calls } })
  node.pass(1, () => (calls = [{ ...backend, inFlight: 42 }]))
  node.pass(70, () => (calls = [{ ...backend, inFlight: 30 }]))
  expect(node.snapshot().inFlight).toEqual([{ ...backend, inFlight: 30, peak: 42 }])
})

describe('a rule', () => {
  test('has buckets of ten seconds, and those of its candidate', () => {
    const node = makeNode()
    node.call('u1', 5, { plan: 'trial' })
    node.pass(20)
    expect(ruleOf(node, 'tight')?.series).toMatchObject({ allowed: [2, 0], refused: [3, 0] })
    expect(ruleOf(node, 'tight')?.candidate).toBeNull()
    expect(ruleOf(node, 'trial')?.candidate).toMatchObject({
      end: (BEGAN_MS + 20_000) / RULE_BUCKET_MS,
      // It did not decide the three calls that `tight` refused.
      allowed: [1, 0],
      refused: [0, 0],
      shadowRefused: [1, 0],
    })
    expect(ruleOf(node, 'tried')?.series).toMatchObject({ allowed: [1, 0], shadowRefused: [1, 0] })
    expect(node.snapshot().rules.map(({ rule }) => rule)).toEqual(['tight', 'trial', 'tried'])
  })

  test('in shadow mode has would-be refusals and no refusals', () => {
    const node = makeNode()
    node.call('u1', 2)
    node.pass(10)
    expect(ruleOf(node, 'tried')).toMatchObject({
      series: { allowed: [1], refused: [0], shadowRefused: [1] },
      refusingSinceMs: null,
      left: [0, 0, 0, 0, 0, 0],
    })
  })

  test('is refusing since its first refusal, until a minute without refusals', () => {
    const node = makeNode()
    node.call('u1', 2)
    node.pass(10)
    expect(ruleOf(node, 'tight')?.refusingSinceMs).toBeNull()
    node.call('u1')
    node.pass(1)
    const sinceMs = node.nowMs
    node.pass(59)
    expect(ruleOf(node, 'tight')?.refusingSinceMs).toBe(sinceMs)
    node.call('u1')
    node.pass(60)
    expect(ruleOf(node, 'tight')?.refusingSinceMs).toBe(sinceMs)
    node.pass(2)
    expect(ruleOf(node, 'tight')?.refusingSinceMs).toBeNull()
    node.call('u1')
    node.pass(1)
    expect(ruleOf(node, 'tight')?.refusingSinceMs).toBe(node.nowMs)
  })

  test('has the remaining shares after its decisions of the last ten minutes', () => {
    const node = makeNode({ rules: 'rules: [{ id: ten, by: [user], limits: [10/day] }]' })
    node.call('u1', 12)
    node.pass(1)
    // 9, 8 | 7, 6, 5 ... of ten: more than 75 %, up to 75 %, up to 50 % and so on.
    const left = [3, 1, 1, 3, 2, 2]
    expect(ruleOf(node, 'ten')?.left).toEqual(left)
    node.pass(590)
    node.call('u2')
    node.pass(1)
    expect(ruleOf(node, 'ten')?.left).toEqual([3, 1, 1, 3, 2, 3])
    node.pass(80)
    expect(ruleOf(node, 'ten')?.left).toEqual([0, 0, 0, 0, 0, 1])
  })

  test('is left out after ten idle minutes, and counted when it decides again', () => {
    const node = makeNode()
    node.call('u1', 3)
    node.pass(RULE_BUCKETS * 10 - 10)
    expect(ruleOf(node, 'tight')?.series.refused).toContain(1)
    node.pass(30)
    expect(node.snapshot().rules).toEqual([])
    expect(node.stats.rule('tight')).toBeUndefined()
    node.call('u1')
    node.pass(10)
    const { series, left } = ruleOf(node, 'tight') ?? {}
    expect(series && sumOf(series)).toBe(1)
    expect(left).toEqual([1, 0, 0, 0, 0, 0])
  })

  test('is in the snapshot if it refuses most, or decides most', () => {
    const rules = Array.from(
      { length: SNAPSHOT_RULES_MAX + 20 },
      (_, i) =>
        `{ id: r${i}, match: { where: { plan: p${i} } }, by: [user], limits: [${i < 10 ? 1 : 99}/hour] }`,
    )
    const node = makeNode({ rules: `rules: [${rules.join(', ')}]` })
    for (let i = 0; i < rules.length; i++) node.call('u1', i < 30 ? 2 : 1, { plan: `p${i}` })
    node.pass(10)
    const reported = node.snapshot().rules.map(({ rule }) => rule)
    expect(reported).toHaveLength(SNAPSHOT_RULES_MAX)
    expect(reported.slice(0, 10).toSorted()).toEqual(Array.from({ length: 10 }, (_, i) => `r${i}`))
    expect(reported.slice(10, 30).every((rule) => Number(rule.slice(1)) < 30)).toBe(true)
    const unpublished = rules.findIndex((_, i) => !reported.includes(`r${i}`))
    expect(node.stats.rule(`r${unpublished}`)?.series.allowed).toEqual([1])
    expect(node.stats.rule('nobody')).toBeUndefined()
  })

  test('counts nothing twice after the clock was set back, and continues', () => {
    const node = makeNode()
    node.pass(60, () => node.call('u1'))
    node.setClock(BEGAN_MS + 20_000)
    node.pass(20, () => node.call('u1'))
    const { series, refusingSinceMs } = ruleOf(node, 'tight') ?? {}
    expect(series && series.end * RULE_BUCKET_MS).toBe(BEGAN_MS + 40_000)
    expect(series && sumOf(series)).toBe(40)
    expect(refusingSinceMs).toBeLessThanOrEqual(BEGAN_MS + 21_000)
    expect(sumOf(node.snapshot().total)).toBe(40)
  })
})

describe('a caller', () => {
  test('is recorded with each rule that counts it, at the time of the last tick', () => {
    const node = makeNode()
    node.pass(3)
    node.decide({ attributes: { user: 'u1' }, cost: 2 })
    const seen = { by: ['user'], user: 'u1', cost: 2, atMs: BEGAN_MS + 3000 }
    expect(node.calls).toEqual([
      { rule: 'tight', outcome: 'allowed', left: 0, ...seen },
      // More than it can ever hold.
      { rule: 'tried', outcome: 'shadow_refused', left: -1, ...seen },
    ])
  })

  test('is recorded if a shadow rule or a candidate would have refused it', () => {
    const node = makeNode()
    node.call('u1', 3, { plan: 'trial' })
    // The third call was refused, so no shadow rule decided it.
    expect(node.would).toEqual(['tried shadow u1', 'trial candidate u1'])
  })

  test('consumes nothing of a rule if another one refused the call', () => {
    const node = makeNode()
    node.call('u1', 3, { plan: 'trial' })
    const last = node.calls.slice(-2).map(({ rule, outcome, cost }) => [rule, outcome, cost])
    expect(last).toEqual([
      ['tight', 'refused', 0],
      ['trial', 'allowed', 0],
    ])
  })

  test('consumes of each rule the cost that this rule counts', () => {
    const node = makeNode({
      rules: `
        rules:
          - { id: five, by: [user], cost: 5, limits: [100/hour] }
          - { id: tokens, by: [user], cost: { attribute: tokens }, limits: [100/hour] }
          - { id: tried, by: [user], cost: { attribute: tokens }, limits: [100/hour], mode: shadow }
      `,
    })
    const taken = (call: Call) => {
      const before = node.calls.length
      node.decide(call)
      return node.calls.slice(before).map(({ rule, cost }) => [rule, cost])
    }
    const attributes = { user: 'u1', tokens: '7' }
    const each = (five: number, tokens: number) =>
      Object.entries({ five, tokens, tried: tokens }).map(([rule, cost]) => [rule, cost])
    expect(taken({ attributes, cost: 2 })).toEqual(each(10, 7))
    expect(taken({ attributes: { user: 'u1' } })).toEqual(each(5, 1))
    // `five` refuses it, so `tried` does not decide it.
    expect(taken({ attributes, cost: 30 })).toEqual([
      ['five', 0],
      ['tokens', 0],
    ])
  })

  test('is added to the sketch of its rule', () => {
    const node = makeNode()
    for (const user of ['u1', 'u2', 'u1']) node.call(user)
    node.pass(10)
    expect(node.distinct.get('tight')?.size).toBe(2)
    expect(ruleOf(node, 'tight')?.sketch).toBe([...(node.distinct.get('tight') ?? [])].join())
  })

  test('of a rule beyond the bounds is not tracked, and nothing else suffers', () => {
    const node = makeNode({
      deps: {
        distinct: { ofRule: () => undefined, tick: () => {} },
        callers: {
          ofRule: () => UNTRACKED,
          tick: () => {},
          view: () => [],
          shadowView: () => [],
          nameOf: () => undefined,
          callersSinceMs: 0,
        },
      },
    })
    node.call('u1')
    node.pass(10)
    expect(ruleOf(node, 'tight')).toMatchObject({ sketch: null, series: { allowed: [1] } })
  })

  test('is not recorded for a call without a matching rule', () => {
    const node = makeNode()
    node.decide({ attributes: {} })
    node.pass(10)
    expect([node.calls, node.snapshot().rules]).toEqual([[], []])
  })

  test('is updated once a second, and so is its sketch', () => {
    const node = makeNode()
    node.pass(2)
    expect(node.ticks).toEqual([1000, 1000, 2000, 2000].map((ms) => BEGAN_MS + ms))
  })
})
