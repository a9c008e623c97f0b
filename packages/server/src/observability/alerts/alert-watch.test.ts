import type { RemoteHealth, StoreMemory, StoreNodeHealth } from '@sluice/limiter'
import { describe, expect, test } from 'vitest'
import { ALERTS_DEFAULT } from '../../config/parse-alerts.js'
import { createMemoryLog } from '../log/memory-log.test-helper.js'
import { registerAlertMetrics } from '../metrics/alert-metrics.js'
import { createRegistry } from '../metrics/registry.js'
import type { Alert } from './alert.js'
import { ALERT_KINDS, ALERT_NAMES } from './alert-kinds.js'
import { type AlertInputs, openAlerts } from './alert-watch.js'
import type { ExhaustedCaller } from './conditions/caller-exhausted.js'
import { nodeWith } from './conditions/conditions.test-helper.js'
import type { SheddingCounts } from './conditions/shedding.js'
import type { UpstreamCounts } from './conditions/upstream-failing.js'

const START = Date.UTC(2026, 0, 1)

interface World {
  state: RemoteHealth['state']
  nodes: readonly StoreNodeHealth[]
  memory: StoreMemory | undefined
  rules: Record<string, { decisions: number; degraded: number; refused: number }>
  /** Calls, which may be fewer than the decisions of rules: a call can match several. */
  calls: { decisions: number; degraded: number }
  ageSeconds: number
  callers: readonly ExhaustedCaller[]
  distinct: Record<string, number>
  /** Calls that found no connection, by Redis node. */
  failures: Map<string, number>
  upstreams: UpstreamCounts[]
  shedding: SheddingCounts
  /** Batches of each Redis node since the start. */
  batches: Map<string, { batches: number; slow: number }>
}

/** A server whose measurements a test sets. */
function setUp(given: Partial<typeof ALERTS_DEFAULT> = {}) {
  const world: World = {
    state: 'ready',
    nodes: [nodeWith()],
    memory: undefined,
    rules: {},
    calls: { decisions: 0, degraded: 0 },
    ageSeconds: 0,
    callers: [],
    distinct: {},
    failures: new Map(),
    upstreams: [],
    shedding: { calls: 0, shed: 0, each: [], kept: [] },
    batches: new Map(),
  }
  let nowMs = START
  const inputs: AlertInputs = {
    storeHealth() {
      const { memory, state, nodes } = world
      const fleet = { size: 1, ageMs: 0 }
      const remote = memory === undefined ? { state, nodes, fleet } : undefined
      return { remote, memory, isPersistent: false }
    },
    latencies: () => ({ deadlineMs: 50, slowMs: 25, stores: () => world.batches }),
    eachRule(visit) {
      for (const [rule, { decisions, degraded, refused }] of Object.entries(world.rules)) {
        const allowed = decisions - refused
        const counted = { decisions, allowed, refused, shadowRefused: 0, degraded }
        visit(rule, decisions, degraded, counted)
      }
    },
    refusedCall: () => undefined,
    ring: () => undefined,
    matched: () => world.calls,
    rulesAgeSeconds: () => world.ageSeconds,
    rulesProblem: () => 'Postgres does not answer',
    exhaustedCallers: (olderThanMs, atMs) =>
      world.callers.filter(({ sinceMs }) => atMs - sinceMs > olderThanMs),
    peerClocks: () => [],
    distinct: () => Object.entries(world.distinct),
    connectionFailures: () => (world.memory === undefined ? world.failures : undefined),
    upstreams: () => world.upstreams,
    regions: () => [],
    regionOverage: () => 0,
    shedding: () => world.shedding,
  }
  const clock = { now: () => nowMs }
  const { log, lines } = createMemoryLog('info', clock)
  const sent: Alert[] = []
  const sink = { notify: (alert: Alert) => void sent.push(alert), close: async () => {} }
  const config = { ...ALERTS_DEFAULT, ...given }
  const alerts = openAlerts({ config, clock, log, node: 'n1', host: 'web-1', inputs, sink })
  const tick = (seconds = 1, previous: () => void = () => {}) => {
    for (let i = 0; i < seconds; i++) {
      nowMs += 1000
      previous()
      alerts.tick(nowMs)
    }
  }
  const posted = () => sent.splice(0)
  const changes = () =>
    posted().map(({ id, resolvedAt }) => (resolvedAt === null ? `+${id}` : `-${id}`))
  /** Calls that match only this rule. */
  const count = (rule: string, decisions: number, degraded = 0, refused = 0) => {
    world.calls.decisions += decisions
    world.calls.degraded += degraded
    const previous = world.rules[rule] ?? { decisions: 0, degraded: 0, refused: 0 }
    world.rules[rule] = {
      decisions: previous.decisions + decisions,
      degraded: previous.degraded + degraded,
      refused: previous.refused + refused,
    }
  }
  return { alerts, world, tick, changes, posted, count, lines, nowMs: () => nowMs }
}

test('every alert has a kind, and the configuration knows its name', () => {
  expect(Object.keys(ALERT_KINDS)).toEqual([...ALERT_NAMES])
})

test('no alert is raised while everything is well', () => {
  const { tick, changes, count, lines, alerts } = setUp()
  tick(600, () => count('a', 1000, 0, 50))
  expect(changes()).toEqual([])
  expect(lines).toEqual([])
  expect(alerts.active()).toEqual([])
})

test('a breaker that opens and closes within a second is one alert', () => {
  const { alerts, world, tick, changes } = setUp()
  alerts.breakerOpened('10.0.0.1:6379')
  alerts.breakerOpened('10.0.0.1:6379')
  expect(changes()).toEqual(['+breaker-open:10.0.0.1:6379'])
  world.nodes = [nodeWith({ isBreakerOpen: true })]
  tick(5)
  world.nodes = [nodeWith()]
  tick(9)
  expect(changes()).toEqual([])
  tick()
  expect(changes()).toEqual(['-breaker-open:10.0.0.1:6379'])
  expect(alerts.totals().get('breaker-open')).toBe(1)
})

test('a store that misses some deadlines raises degraded by rule and availability, and both end', () => {
  const { tick, changes, count } = setUp()
  tick(20, () => count('a', 1000))
  tick(3, () => count('a', 100, 50))
  expect(changes()).toEqual([])
  tick(1, () => count('a', 100, 50))
  expect(changes()).toEqual(['+degraded:a', '+availability:'])
  tick(30, () => count('a', 1000))
  expect(changes()).toEqual(['-degraded:a'])
  tick(300, () => count('a', 1000))
  expect(changes()).toEqual(['-availability:'])
})

describe('a store that is down, with 300 rules that decide by posture,', () => {
  const RULES = 300
  const ADDRESS = nodeWith().address
  const gone = nodeWith({ isAnswering: false })
  const open = nodeWith({ isAnswering: false, isBreakerOpen: true, breakerOpened: 1 })
  const rule = (i: number) => `r${String(i).padStart(3, '0')}`
  const eachRule = (of: (name: string) => void) => {
    for (let i = 0; i < RULES; i++) of(rule(i))
  }
  function setUpBusy(given: Parameters<typeof setUp>[0] = {}) {
    const opened = setUp(given)
    const { count, tick } = opened
    const well = () => eachRule((name) => count(name, 20))
    const posture = () => eachRule((name) => count(name, 20, 20))
    tick(20, well)
    return { ...opened, well, posture }
  }

  test('is one page with the cause and the rules, and one end', () => {
    const { world, tick, posted, well, posture } = setUpBusy()
    world.nodes = [gone]
    tick(30, posture)
    world.nodes = [nodeWith()]
    tick(400, well)
    const [begun, over, ...others] = posted()
    expect(others).toEqual([])
    expect(begun).toMatchObject({
      id: `breaker-open:${ADDRESS}`,
      severity: 'page',
      summary: `Redis at ${ADDRESS} cannot be reached; 300 rules have answered by their posture so far.`,
      details: { store: ADDRESS, rules: 300 },
    })
    expect(begun?.details['affected']).toEqual(Array.from({ length: 20 }, (_, i) => rule(i)))
    expect(over).toMatchObject({
      id: `breaker-open:${ADDRESS}`,
      resolvedAt: expect.stringContaining('T'),
      summary: `Redis at ${ADDRESS} could not be reached; 300 rules answered by their posture.`,
    })
  })

  test('is reported at the first tick at which rules are affected, not at the third', () => {
    const { world, tick, changes, posture } = setUpBusy()
    world.nodes = [gone]
    tick(1, posture)
    expect(changes()).toEqual([`+breaker-open:${ADDRESS}`])
  })

  test('is one page when it is down for less than a second between two ticks', () => {
    const { world, tick, changes, well, posture } = setUpBusy()
    world.failures.set(ADDRESS, 6000)
    tick(1, posture)
    expect(changes()).toEqual([`+breaker-open:${ADDRESS}`])
    tick(400, well)
    expect(changes()).toEqual([`-breaker-open:${ADDRESS}`])
  })

  test('is one page when decisions are late for two seconds before the breaker opens', () => {
    const { alerts, world, tick, changes, posted, well, posture } = setUpBusy()
    tick(2, posture)
    expect(changes()).toEqual([])
    alerts.breakerOpened(ADDRESS)
    const [begun] = posted()
    expect(begun?.summary).toBe(
      `Redis at ${ADDRESS} does not answer in time; 300 rules have answered by their posture so far.`,
    )
    world.nodes = [open]
    tick(30, posture)
    world.nodes = [nodeWith()]
    tick(400, well)
    expect(changes()).toEqual([`-breaker-open:${ADDRESS}`])
  })

  test('is one page if it refuses this node', () => {
    const { world, tick, changes, well, posture } = setUpBusy()
    world.state = 'refused'
    tick(30, posture)
    world.state = 'ready'
    tick(400, well)
    expect(changes()).toEqual(['+store-refused:', '-store-refused:'])
  })

  test('ends alerts of rules that began before it was known, after the cause', () => {
    const { world, tick, changes, count } = setUp()
    tick(20, () => count('a', 1000))
    tick(10, () => count('a', 100, 50))
    expect(changes()).toEqual(['+degraded:a', '+availability:'])
    world.nodes = [gone]
    tick(30, () => count('a', 100, 100))
    expect(changes()).toEqual([`+breaker-open:${ADDRESS}`, '-degraded:a', '-availability:'])
  })

  test('hides nothing once it answers: rules that still decide by posture are reported then', () => {
    const { world, tick, changes, count } = setUp()
    tick(20, () => count('a', 1000))
    world.nodes = [gone]
    tick(30, () => count('a', 100, 100))
    expect(changes()).toEqual([`+breaker-open:${ADDRESS}`])
    world.nodes = [nodeWith()]
    tick(20, () => count('a', 100, 50))
    expect(changes()).toEqual([`-breaker-open:${ADDRESS}`, '+degraded:a', '+availability:'])
  })

  test('hides nothing if its own alert is off', () => {
    const { world, tick, changes, count } = setUp({ off: ['breaker-open'] })
    tick(20, () => count('a', 1000))
    world.nodes = [gone]
    tick(5, () => count('a', 100, 100))
    expect(changes()).toEqual(['+degraded:a', '+availability:'])
  })

  test('is no alert if it reconnects at once and hardly a rule was affected', () => {
    const { world, tick, changes, count } = setUp()
    tick(20, () => count('a', 1000))
    world.nodes = [gone]
    tick(2, () => count('a', 5, 1))
    world.nodes = [nodeWith()]
    tick(100, () => count('a', 1000))
    expect(changes()).toEqual([])
  })
})

test('a reconnect is no alert because of an old decision of a rarely called rule', () => {
  const { world, tick, changes, count } = setUp()
  tick(3 * 60, () => count('busy', 100))
  for (let minute = 0; minute < 3; minute++) {
    count('quiet', 1, 1)
    tick(60, () => count('busy', 1000))
  }
  expect(changes()).toEqual(['+degraded:quiet'])
  world.nodes = [nodeWith({ isAnswering: false })]
  tick(2, () => count('busy', 100))
  world.nodes = [nodeWith()]
  tick(60, () => count('busy', 100))
  expect(changes()).toEqual([])
})

test('active alerts are listed with causes before consequences', () => {
  const { alerts, world, tick, count } = setUp()
  tick(20, () => count('a', 1000))
  tick(10, () => count('a', 100, 50))
  world.nodes = [nodeWith({ isAnswering: false })]
  tick(2, () => count('a', 100, 100))
  expect(alerts.active().map(({ alert }) => alert)).toEqual([
    'breaker-open',
    'degraded',
    'availability',
  ])
})

test('a failing upstream is an alert until it answers', () => {
  const { world, tick, changes } = setUp()
  const counts = { origin: 'http://10.0.0.5:3000', calls: 0, failures: 0, lastCode: '' }
  world.upstreams = [counts]
  tick(60, () => void (counts.calls += 100))
  counts.lastCode = '502 ECONNREFUSED'
  tick(5, () => {
    counts.calls += 100
    counts.failures += 100
  })
  expect(changes()).toEqual(['+upstream-failing:http://10.0.0.5:3000'])
  tick(80, () => void (counts.calls += 100))
  expect(changes()).toEqual(['-upstream-failing:http://10.0.0.5:3000'])
})

test('shedding is an alert after 30 s, and at once if it sheds what it should keep', () => {
  const { tick, changes, world } = setUp()
  let shed = 0
  const overload = () => {
    shed += 20
    const each = [{ rule: 'fleet', priority: 'critical', shed }]
    world.shedding = { calls: world.shedding.calls + 100, shed, each, kept: [['critical', shed]] }
  }
  tick(29, overload)
  expect(changes()).toEqual(['+shedding-kept:critical'])
  tick(1, overload)
  expect(changes()).toEqual(['+shedding:'])
  tick(60, () => {
    world.shedding = { ...world.shedding, calls: world.shedding.calls + 100 }
  })
  expect(changes()).toEqual(['-shedding:', '-shedding-kept:critical'])
})

test('a slow store is an alert until it is fast again', () => {
  const { tick, changes, world } = setUp()
  const counts = { batches: 0, slow: 0 }
  world.batches.set('10.0.0.1:6379', counts)
  const answer = (slow: number) => () => {
    counts.batches += 100
    counts.slow += slow
  }
  tick(20, answer(0))
  tick(3, answer(50))
  expect(changes()).toEqual(['+store-slow:10.0.0.1:6379'])
  tick(16, answer(0))
  expect(changes()).toEqual([])
  tick(3, answer(0))
  expect(changes()).toEqual(['-store-slow:10.0.0.1:6379'])
})

test('availability counts calls by enforced rules, not those that only shadow rules decided', () => {
  const { world, tick, changes } = setUp()
  tick(10, () => {
    world.calls.decisions += 1000
  })
  world.rules = {
    a: { decisions: 10_000, degraded: 2, refused: 0 },
    tried: { decisions: 10_000, degraded: 0, refused: 0 },
    '': { decisions: 90_000, degraded: 0, refused: 0 },
  }
  world.calls.degraded = 2
  tick(4)
  expect(changes()).toEqual(['+availability:'])
})

test('clocks, memory and evictions of Redis nodes raise alerts', () => {
  const { world, tick, changes } = setUp()
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
  expect(changes()).toEqual([
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
  expect(changes()).toEqual(['-clock-offset:b', '-clock-spread:', '-store-memory:b'])
  tick(60)
  expect(changes()).toEqual(['-store-evictions:b'])
})

test('evicted counters of blocked callers in the memory store raise an alert', () => {
  const { world, tick, changes } = setUp()
  const memory = { usedBytes: 480, maxBytes: 0, counters: 10, evicted: 0, evictedBlocked: 0 }
  world.memory = memory
  tick(5)
  world.memory = { ...memory, evictedBlocked: 3 }
  tick(59)
  expect(changes()).toEqual(['+store-evictions:memory'])
  tick(2)
  expect(changes()).toEqual(['-store-evictions:memory'])
})

test('stale rules and an exhausted caller raise alerts after the configured times', () => {
  const { world, tick, changes, nowMs } = setUp({ rulesStaleMs: 5000, callerExhaustedMs: 3000 })
  const caller = { user: 'u1' }
  world.callers = [
    { rule: 'a', hash: 'h1', caller, isEverybody: false, sinceMs: nowMs(), lastRefusedCall: null },
  ]
  tick(5, () => world.ageSeconds++)
  expect(changes()).toEqual(['+caller-exhausted:a/h1'])
  tick(1, () => world.ageSeconds++)
  expect(changes()).toEqual(['+rules-stale:'])
  world.ageSeconds = 0
  world.callers = []
  tick(15)
  expect(changes()).toEqual(['-rules-stale:', '-caller-exhausted:a/h1'])
})

test('refusals and callers far above their baseline raise alerts', () => {
  const { world, tick, changes, count } = setUp({ baselineMs: 60_000 })
  world.distinct = { login: 50 }
  tick(180, () => count('login', 100, 0, 2))
  expect(changes()).toEqual([])
  tick(60, () => count('login', 500, 0, 400))
  expect(changes()).toEqual(['+refusals-anomaly:login'])
  tick(60, () => count('login', 100, 0, 2))
  expect(changes()).toEqual(['-refusals-anomaly:login'])
  world.distinct = { login: 5000 }
  tick(60, () => count('login', 500, 0, 2))
  expect(changes()).toEqual(['+callers-anomaly:login'])
})

test('if both refusals and callers are anomalous, only refusals raise an alert', () => {
  const { world, tick, changes, count } = setUp({ baselineMs: 60_000 })
  world.distinct = { login: 50 }
  tick(180, () => count('login', 100, 0, 2))
  world.distinct = { login: 5000 }
  tick(60, () => count('login', 500, 0, 400))
  expect(changes()).toEqual(['+refusals-anomaly:login'])
})

test('closing resolves all alerts, and raises none after', async () => {
  const { alerts, tick, changes } = setUp()
  alerts.breakerOpened('a')
  await alerts.close()
  alerts.breakerOpened('b')
  tick(5)
  expect(changes()).toEqual(['+breaker-open:a', '-breaker-open:a'])
  await alerts.close()
})

test('metrics count active and past alerts', () => {
  const { alerts } = setUp()
  const registry = createRegistry()
  registerAlertMetrics(registry, alerts)
  alerts.breakerOpened('a')
  expect(registry.text()).toContain('sluice_alert_active{alert="breaker-open"} 1\n')
  expect(registry.text()).toContain('sluice_alerts_total{alert="breaker-open"} 1\n')
})

test('a disabled alert is not raised', () => {
  const { alerts, world, tick, changes } = setUp({ off: ['breaker-open', 'rules-stale'] })
  alerts.breakerOpened('a')
  world.ageSeconds = 1000
  tick(2)
  expect(changes()).toEqual([])
})
