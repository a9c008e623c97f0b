import type { CounterStats } from '@sluice/limiter'
import type { RedisNodeStats } from '@sluice/limiter/redis'
import { expect, test } from 'vitest'
import { ALERT_NAMES, ALERTS_DEFAULT } from '../config/parse-alerts.js'
import { createMemoryLog } from '../log/memory-log.test-helper.js'
import { registerAlertMetrics } from '../metrics/alerts.js'
import { createRegistry } from '../metrics/registry.js'
import type { Alert } from './alert.js'
import { ALERT_KINDS } from './alert-table.js'
import { type AlertSight, openAlerts } from './alert-watch.js'
import type { CallerAtZero } from './conditions/caller-at-zero.js'
import { nodeWith } from './conditions/conditions.test-helper.js'

const START = Date.UTC(2026, 0, 1)

interface World {
  nodes: readonly RedisNodeStats[]
  memory: CounterStats | undefined
  rules: Record<string, { decisions: number; degraded: number; refused: number }>
  /** Calls that meet several rules are fewer than what those decided. */
  calls: { decisions: number; degraded: number }
  ageSeconds: number
  callers: readonly CallerAtZero[]
  distinct: Record<string, number>
  /** Batches of each node of Redis since the start. */
  batches: Map<string, { batches: number; slow: number }>
}

/** A server to which everything may happen. */
function setUp(given: Partial<typeof ALERTS_DEFAULT> = {}) {
  const world: World = {
    nodes: [nodeWith()],
    memory: undefined,
    rules: {},
    calls: { decisions: 0, degraded: 0 },
    ageSeconds: 0,
    callers: [],
    distinct: {},
    batches: new Map(),
  }
  let nowMs = START
  const sight: AlertSight = {
    redis() {
      if (world.memory !== undefined) return undefined
      const fleet = { size: 1, ageMs: 0 }
      return { state: 'ready', nodes: world.nodes, fleet, memory: undefined }
    },
    memory: () => world.memory,
    latencies: () => ({ deadlineMs: 50, slowMs: 25, stores: () => world.batches }),
    eachRule(visit) {
      for (const [rule, { decisions, degraded, refused }] of Object.entries(world.rules)) {
        const allowed = decisions - refused
        const counted = { decisions, allowed, refused, shadowRefused: 0, degraded }
        visit(rule, decisions, degraded, counted)
      }
    },
    matched: () => world.calls,
    rulesAgeSeconds: () => world.ageSeconds,
    rulesProblem: () => 'Postgres does not answer',
    zero: (olderThanMs, atMs) =>
      world.callers.filter(({ sinceMs }) => atMs - sinceMs > olderThanMs),
    distinct: () => Object.entries(world.distinct),
  }
  const clock = { now: () => nowMs }
  const { log, lines } = createMemoryLog('info', clock)
  const sent: Alert[] = []
  const sink = { tell: (alert: Alert) => void sent.push(alert), close: async () => {} }
  const config = { ...ALERTS_DEFAULT, ...given }
  const alerts = openAlerts({ config, clock, log, node: 'n1', sight, sink })
  const tick = (seconds = 1, before: () => void = () => {}) => {
    for (let i = 0; i < seconds; i++) {
      nowMs += 1000
      before()
      alerts.tick(nowMs)
    }
  }
  const told = () =>
    sent.splice(0).map(({ id, resolvedAt }) => (resolvedAt === null ? `+${id}` : `-${id}`))
  /** Calls that meet this rule alone. */
  const count = (rule: string, decisions: number, degraded = 0, refused = 0) => {
    world.calls.decisions += decisions
    world.calls.degraded += degraded
    const before = world.rules[rule] ?? { decisions: 0, degraded: 0, refused: 0 }
    world.rules[rule] = {
      decisions: before.decisions + decisions,
      degraded: before.degraded + degraded,
      refused: before.refused + refused,
    }
  }
  return { alerts, world, tick, told, count, lines, nowMs: () => nowMs }
}

test('every alert has a severity and is a name that the configuration knows', () => {
  expect(Object.keys(ALERT_KINDS)).toEqual([...ALERT_NAMES])
})

test('where all is well nothing is said', () => {
  const { tick, told, count, lines, alerts } = setUp()
  tick(600, () => count('a', 1000, 0, 50))
  expect(told()).toEqual([])
  expect(lines).toEqual([])
  expect(alerts.active()).toEqual([])
})

test('a breaker that opens and closes within a second is an alert, once', () => {
  const { alerts, world, tick, told } = setUp()
  alerts.breakerOpened('10.0.0.1:6379')
  alerts.breakerOpened('10.0.0.1:6379')
  expect(told()).toEqual(['+breaker-open:10.0.0.1:6379'])
  world.nodes = [nodeWith({ isBreakerOpen: true })]
  tick(5)
  world.nodes = [nodeWith()]
  tick(9)
  expect(told()).toEqual([])
  tick()
  expect(told()).toEqual(['-breaker-open:10.0.0.1:6379'])
  expect(alerts.begun().get('breaker-open')).toBe(1)
})

test('a store that fails is seen by rule, and as availability, and both end', () => {
  const { tick, told, count } = setUp()
  tick(20, () => count('a', 1000))
  tick(3, () => count('a', 100, 50))
  expect(told()).toEqual(['+degraded:a', '+availability:'])
  tick(30, () => count('a', 1000))
  expect(told()).toEqual(['-degraded:a'])
  tick(300, () => count('a', 1000))
  expect(told()).toEqual(['-availability:'])
})

test('a store that is slow but in time is an alert, and over once it is fast again', () => {
  const { tick, told, world } = setUp()
  const counts = { batches: 0, slow: 0 }
  world.batches.set('10.0.0.1:6379', counts)
  const answer = (slow: number) => () => {
    counts.batches += 100
    counts.slow += slow
  }
  tick(20, answer(0))
  tick(3, answer(50))
  expect(told()).toEqual(['+store-slow:10.0.0.1:6379'])
  tick(16, answer(0))
  expect(told()).toEqual([])
  tick(3, answer(0))
  expect(told()).toEqual(['-store-slow:10.0.0.1:6379'])
})

test('availability is of calls: those that only rules in shadow answered normally were not', () => {
  const { world, tick, told } = setUp()
  tick(10, () => {
    world.calls.decisions += 1000
  })
  world.rules = {
    a: { decisions: 10_000, degraded: 2, refused: 0 },
    tried: { decisions: 10_000, degraded: 0, refused: 0 },
    '': { decisions: 90_000, degraded: 0, refused: 0 },
  }
  world.calls.degraded = 2
  tick(1)
  expect(told()).toEqual(['+availability:'])
})

test('clocks, memory and evictions of nodes of Redis', () => {
  const { world, tick, told } = setUp()
  const memory = { usedBytes: 10, maxBytes: 100, evictedKeys: 5 }
  world.nodes = [nodeWith({ address: 'a', memory }), nodeWith({ address: 'b', memory })]
  tick(2)
  const clock = { offsetSeconds: 0.5, errorSeconds: 0.001 }
  const full = { usedBytes: 90, maxBytes: 100, evictedKeys: 6 }
  world.nodes = [
    nodeWith({ address: 'a', memory }),
    nodeWith({ address: 'b', memory: full, clock }),
  ]
  tick(3)
  expect(told()).toEqual([
    '+store-memory:b',
    '+store-evictions:b',
    '+clock-offset:b',
    '+clock-spread:',
  ])
  world.nodes = [
    nodeWith({ address: 'a', memory }),
    nodeWith({ address: 'b', memory: { ...full, usedBytes: 50 } }),
  ]
  tick(20)
  expect(told()).toEqual(['-clock-offset:b', '-clock-spread:', '-store-memory:b'])
  tick(60)
  expect(told()).toEqual(['-store-evictions:b'])
})

test('blocked callers that the memory store dropped', () => {
  const { world, tick, told } = setUp()
  const stats = { counters: 10, bytes: 480, evicted: 0, evictedBlocked: 0, unstored: 0 }
  world.memory = stats
  tick(5)
  world.memory = { ...stats, evictedBlocked: 3 }
  tick(59)
  expect(told()).toEqual(['+store-evictions:memory'])
  tick(2)
  expect(told()).toEqual(['-store-evictions:memory'])
})

test('stale rules, and a caller at zero, by the times of the configuration', () => {
  const { world, tick, told, nowMs } = setUp({ rulesStaleMs: 5000, callerAtZeroMs: 3000 })
  const caller = { user: 'u1' }
  world.callers = [{ rule: 'a', hash: 'h1', caller, isEverybody: false, sinceMs: nowMs() }]
  tick(5, () => world.ageSeconds++)
  expect(told()).toEqual(['+caller-at-zero:a/h1'])
  tick(1, () => world.ageSeconds++)
  expect(told()).toEqual(['+rules-stale:'])
  world.ageSeconds = 0
  world.callers = []
  tick(15)
  expect(told()).toEqual(['-rules-stale:', '-caller-at-zero:a/h1'])
})

test('refusals and callers that are far above what is usual', () => {
  const { world, tick, told, count } = setUp({ usualMs: 60_000 })
  world.distinct = { login: 50 }
  tick(180, () => count('login', 100, 0, 2))
  expect(told()).toEqual([])
  tick(60, () => count('login', 500, 0, 400))
  expect(told()).toEqual(['+refusals-unusual:login'])
  tick(60, () => count('login', 100, 0, 2))
  expect(told()).toEqual(['-refusals-unusual:login'])
  world.distinct = { login: 5000 }
  tick(60, () => count('login', 500, 0, 2))
  expect(told()).toEqual(['+callers-unusual:login'])
})

test('where both are, the alert is that of refusals', () => {
  const { world, tick, told, count } = setUp({ usualMs: 60_000 })
  world.distinct = { login: 50 }
  tick(180, () => count('login', 100, 0, 2))
  world.distinct = { login: 5000 }
  tick(60, () => count('login', 500, 0, 400))
  expect(told()).toEqual(['+refusals-unusual:login'])
})

test('an end of the server ends its alerts, and nothing is said after', async () => {
  const { alerts, tick, told } = setUp()
  alerts.breakerOpened('a')
  await alerts.close()
  alerts.breakerOpened('b')
  tick(5)
  expect(told()).toEqual(['+breaker-open:a', '-breaker-open:a'])
  await alerts.close()
})

test('metrics tell of alerts as they go on and were', () => {
  const { alerts } = setUp()
  const registry = createRegistry()
  registerAlertMetrics(registry, alerts)
  alerts.breakerOpened('a')
  expect(registry.text()).toContain('sluice_alert_active{alert="breaker-open"} 1\n')
  expect(registry.text()).toContain('sluice_alerts_total{alert="breaker-open"} 1\n')
})

test('an alert that is off is not told', () => {
  const { alerts, world, tick, told } = setUp({ off: ['breaker-open', 'rules-stale'] })
  alerts.breakerOpened('a')
  world.ageSeconds = 1000
  tick(2)
  expect(told()).toEqual([])
})
