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

describe('a tick', () => {
  test('moves the lists on by one step', () => {
    const { stats: next, isComplete: isWhole } = applyTick(before, tickAt(10 * MINUTE + 2000))
    expect(isWhole).toBe(true)
    expect(next?.series.endMs).toBe(10 * MINUTE + 2000)
    expect(next?.series.allowed).toHaveLength(41)
    expect(next?.series.allowed.at(-1)).toBe(7)
    expect(next?.series.degraded.at(-1)).toBe(2)
    expect(next?.decisionLatency).toEqual({ p50Ms: [1, 2, 0.5], p99Ms: [3, null, null] })
    expect(next).toMatchObject({ nodes: 3, rulesVersion: 2, store: { state: 'another' } })
  })

  test('adds to the lists of a young server until they are full, and then the oldest goes', () => {
    const young = { ...before, series: series(2000, 10 * MINUTE, STEPS_MAX - 1) }
    const full = applyTick(young, tickAt(10 * MINUTE + 2000)).stats
    expect(full?.series.allowed).toHaveLength(STEPS_MAX)
    const later = applyTick(full, tickAt(10 * MINUTE + 4000, { allowed: 8 })).stats
    expect(later?.series.allowed).toHaveLength(STEPS_MAX)
    expect(later?.series.allowed.slice(-3)).toEqual([1, 7, 8])
  })

  test('does not change what it was given', () => {
    const copy = structuredClone(before)
    applyTick(before, tickAt(10 * MINUTE + 2000, { rules: [ruleTick(10 * MINUTE + 10_000)] }))
    expect(before).toEqual(copy)
  })

  test('that was heard before adds nothing', () => {
    const { stats: next, isComplete: isWhole } = applyTick(before, tickAt(10 * MINUTE))
    expect(isWhole).toBe(true)
    expect(next?.series).toEqual(before.series)
  })

  test('after a gap asks for the whole, and draws nothing half', () => {
    const { stats: next, isComplete: isWhole } = applyTick(before, tickAt(10 * MINUTE + 4000))
    expect(isWhole).toBe(false)
    expect(next?.series).toEqual(before.series)
    expect(next?.store.state).toBe('another')
  })

  test('of one process alone says so, until the others have been read again', () => {
    const alone = applyTick(before, tickAt(10 * MINUTE + 2000, { isWhole: false }))
    expect(alone.stats?.isWhole).toBe(false)
    expect(alone.isComplete).toBe(true)
    const back = applyTick(alone.stats, tickAt(10 * MINUTE + 4000))
    expect(back.isComplete).toBe(false)
    expect(back.stats?.isWhole).toBe(false)
    expect(applyTick(back.stats, tickAt(10 * MINUTE + 4000)).isComplete).toBe(false)
  })

  test('before anything is known asks for the whole', () => {
    expect(applyTick(undefined, tickAt(2000))).toEqual({ stats: undefined, isComplete: false })
  })
})

describe('the minutes', () => {
  /** As many ticks as told, one after the other. */
  const after = (ticks: number) =>
    Array.from({ length: ticks }, (_, index) => tickAt(10 * MINUTE + (index + 1) * 2000)).reduce<
      StatsView | undefined
    >((stats, tick) => applyTick(stats, tick).stats, before)

  test('stay while one is not over', () => {
    expect(after(29)?.minutes).toEqual(before.minutes)
  })

  test('get the sum of the steps of one that is', () => {
    const minutes = after(30)?.minutes
    expect(minutes?.endMs).toBe(11 * MINUTE)
    expect(minutes?.allowed).toEqual([30, 30, 30, 30, 30, 210])
    expect(minutes?.refused.at(-1)).toBe(150)
  })
})

describe('a rule', () => {
  const told = (rules: readonly RuleTickView[]) =>
    applyTick(before, tickAt(10 * MINUTE + 2000, { rules }))

  test('moves on by its own steps, with what is on trial beside it', () => {
    const { stats: next, isComplete: isWhole } = told([ruleTick(10 * MINUTE + 10_000)])
    expect(isWhole).toBe(true)
    expect(next?.rules[0]?.series.refused).toEqual([1, 1, 1, 50])
    expect(next?.rules[0]?.candidate?.shadowRefused).toEqual([1, 1, 1, 10])
    expect(next?.rules[0]?.candidate?.refused.at(-1)).toBe(0)
    expect(next?.rules[0]?.refusingSince).toBe('2026-03-01T12:00:00Z')
  })

  test('is told several times in the same step, and counted once', () => {
    expect(told([ruleTick(10 * MINUTE)]).stats?.rules).toEqual(before.rules)
  })

  test('with a gap, or one that nobody knows yet, asks for the whole', () => {
    expect(told([ruleTick(10 * MINUTE + 20_000)]).isComplete).toBe(false)
    expect(told([ruleTick(10 * MINUTE, 'new-one')]).isComplete).toBe(false)
  })
})
