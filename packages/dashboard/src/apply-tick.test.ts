import type { RuleStatsView, RuleTickView, SeriesView, StatsView, TickView } from '@sluice/client'
import { describe, expect, test } from 'vitest'
import { STEPS_MAX, applyTick } from './apply-tick.js'

const MINUTE = 60_000

function series(stepMs: number, endMs: number, length: number, value = 1): SeriesView {
  const list = Array.from({ length }, () => value)
  return { stepMs, endMs, allowed: list, refused: list, shadowRefused: list, degraded: list }
}

const store = {
  name: 'memory',
  state: 'memory',
  isWell: true,
  counters: 1,
  memoryBytes: null,
  memoryMaxBytes: null,
  evicted: 0,
  nodes: [],
}

const rule: RuleStatsView = {
  rule: 'per-user',
  series: series(10_000, 10 * MINUTE, 3),
  candidate: series(10_000, 10 * MINUTE, 3),
  refusingSince: null,
  callers: 3,
  left: [],
}

const before: StatsView = {
  at: '2026-03-01T12:00:00Z',
  nodes: 1,
  isWhole: true,
  rulesVersion: 1,
  series: series(2000, 10 * MINUTE, 40),
  decisionLatency: { p50Ms: [1, 2], p99Ms: [3, null] },
  storeLatency: { p50Ms: [1, 2], p99Ms: [3, 4] },
  minutes: series(MINUTE, 10 * MINUTE, 5, 30),
  store,
  rules: [rule],
  priorities: [{ priority: 'reads', admitted: [1, 2], shed: [0, 1], shadowShed: [0, 0] }],
  inFlight: [],
}

function tickAt(endMs: number, more: Partial<TickView> = {}): TickView {
  return {
    at: '2026-03-01T12:00:02Z',
    rulesVersion: 2,
    nodes: 3,
    isWhole: true,
    endMs,
    allowed: 7,
    refused: 5,
    shadowRefused: 3,
    degraded: 2,
    decisionP50Ms: 0.5,
    decisionP99Ms: null,
    storeP50Ms: 0.25,
    storeP99Ms: 0.75,
    store: { ...store, state: 'another' },
    alertsActive: 0,
    rules: [],
    priorities: [{ priority: 'reads', admitted: 5, shed: 4, shadowShed: 3 }],
    inFlight: [],
    ...more,
  }
}

const ruleTick = (endMs: number, name = 'per-user'): RuleTickView => ({
  rule: name,
  endMs,
  allowed: 70,
  refused: 50,
  shadowRefused: 30,
  candidateAllowed: 60,
  candidateRefused: 10,
  refusingSince: '2026-03-01T12:00:00Z',
})

describe('applyTick', () => {
  test('a tick appends one step to each series', () => {
    const { stats, isComplete } = applyTick(before, tickAt(10 * MINUTE + 2000))
    expect(isComplete).toBe(true)
    expect(stats?.series.endMs).toBe(10 * MINUTE + 2000)
    expect(stats?.series.allowed).toHaveLength(41)
    expect(stats?.series.allowed.at(-1)).toBe(7)
    expect(stats?.series.degraded.at(-1)).toBe(2)
    expect(stats?.decisionLatency).toEqual({ p50Ms: [1, 2, 0.5], p99Ms: [3, null, null] })
    expect(stats).toMatchObject({ nodes: 3, rulesVersion: 2, store: { state: 'another' } })
  })

  test('series grow up to their maximum and then drop the oldest step', () => {
    const young = { ...before, series: series(2000, 10 * MINUTE, STEPS_MAX - 1) }
    const full = applyTick(young, tickAt(10 * MINUTE + 2000)).stats
    expect(full?.series.allowed).toHaveLength(STEPS_MAX)
    const later = applyTick(full, tickAt(10 * MINUTE + 4000, { allowed: 8 })).stats
    expect(later?.series.allowed).toHaveLength(STEPS_MAX)
    expect(later?.series.allowed.slice(-3)).toEqual([1, 7, 8])
  })

  test('a tick does not change its input', () => {
    const copy = structuredClone(before)
    applyTick(before, tickAt(10 * MINUTE + 2000, { rules: [ruleTick(10 * MINUTE + 10_000)] }))
    expect(before).toEqual(copy)
  })

  test('a tick that was applied before adds nothing', () => {
    const { stats, isComplete } = applyTick(before, tickAt(10 * MINUTE))
    expect(isComplete).toBe(true)
    expect(stats?.series).toEqual(before.series)
  })

  test('a tick after a gap requests a reload and appends no partial step', () => {
    const { stats, isComplete } = applyTick(before, tickAt(10 * MINUTE + 4000))
    expect(isComplete).toBe(false)
    expect(stats?.series).toEqual(before.series)
    expect(stats?.store.state).toBe('another')
  })

  test('statistics of one process are marked until all nodes are loaded again', () => {
    const alone = applyTick(before, tickAt(10 * MINUTE + 2000, { isWhole: false }))
    expect(alone.stats?.isWhole).toBe(false)
    expect(alone.isComplete).toBe(true)
    const back = applyTick(alone.stats, tickAt(10 * MINUTE + 4000))
    expect(back.isComplete).toBe(false)
    expect(back.stats?.isWhole).toBe(false)
    expect(applyTick(back.stats, tickAt(10 * MINUTE + 4000)).isComplete).toBe(false)
  })

  test('a tick appends a step to each priority, and shows the calls in flight of now', () => {
    const whose = { isPerNode: true, isPerCaller: false }
    const now = { rule: 'backend', inFlight: 3, peak: 9, max: 40, ...whose, ceilings: [] }
    const { stats, isComplete } = applyTick(before, tickAt(10 * MINUTE + 2000, { inFlight: [now] }))
    expect(isComplete).toBe(true)
    expect(stats?.priorities).toEqual([
      { priority: 'reads', admitted: [1, 2, 5], shed: [0, 1, 4], shadowShed: [0, 0, 3] },
    ])
    expect(stats?.inFlight).toEqual([now])
  })

  test('a tick with other priorities requests a reload', () => {
    const none = { admitted: 0, shed: 0, shadowShed: 0 }
    for (const names of [[], ['critical'], ['reads', 'critical']]) {
      const priorities = names.map((priority) => ({ priority, ...none }))
      const tick = tickAt(10 * MINUTE + 2000, { priorities })
      expect(applyTick(before, tick).isComplete).toBe(false)
    }
  })

  test('a tick without statistics requests a reload', () => {
    expect(applyTick(undefined, tickAt(2000))).toEqual({ stats: undefined, isComplete: false })
  })
})

describe('the series of minutes', () => {
  /** The statistics after this many ticks. */
  const after = (ticks: number) =>
    Array.from({ length: ticks }, (_, index) => tickAt(10 * MINUTE + (index + 1) * 2000)).reduce<
      StatsView | undefined
    >((stats, tick) => applyTick(stats, tick).stats, before)

  test('the series of minutes is unchanged during a minute', () => {
    expect(after(29)?.minutes).toEqual(before.minutes)
  })

  test('a finished minute is the sum of its steps', () => {
    const minutes = after(30)?.minutes
    expect(minutes?.endMs).toBe(11 * MINUTE)
    expect(minutes?.allowed).toEqual([30, 30, 30, 30, 30, 210])
    expect(minutes?.refused.at(-1)).toBe(150)
  })
})

describe('the series of a rule', () => {
  const applyRules = (rules: readonly RuleTickView[]) =>
    applyTick(before, tickAt(10 * MINUTE + 2000, { rules }))

  test('a rule and its candidate advance by steps of their own', () => {
    const { stats, isComplete } = applyRules([ruleTick(10 * MINUTE + 10_000)])
    expect(isComplete).toBe(true)
    expect(stats?.rules[0]?.series.refused).toEqual([1, 1, 1, 50])
    expect(stats?.rules[0]?.candidate?.shadowRefused).toEqual([1, 1, 1, 10])
    expect(stats?.rules[0]?.candidate?.refused.at(-1)).toBe(0)
    expect(stats?.rules[0]?.refusingSince).toBe('2026-03-01T12:00:00Z')
  })

  test('a rule reported twice in one step is counted once', () => {
    expect(applyRules([ruleTick(10 * MINUTE)]).stats?.rules).toEqual(before.rules)
  })

  test('a gap or an unknown rule requests a reload', () => {
    expect(applyRules([ruleTick(10 * MINUTE + 20_000)]).isComplete).toBe(false)
    expect(applyRules([ruleTick(10 * MINUTE, 'new-one')]).isComplete).toBe(false)
  })
})
