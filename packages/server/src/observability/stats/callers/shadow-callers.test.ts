/** Callers with would-be refusals: counted on a node, and merged over all nodes. */
import { describe, expect, test } from 'vitest'
import { SNAPSHOT_CALLERS_MAX, type ShadowCallerSnapshot } from '../node-snapshot.js'
import { PERIOD_MS } from './caller-tracker.js'
import {
  ALLOWED,
  MINUTE,
  openTracker,
  REFUSED,
  START,
  textOf,
} from './caller-tracker.test-helper.js'
import { type CallersSnapshot, mergeCallers } from './merge-callers.js'
import { SHADOW_VIEW_MAX } from './caller-view.js'
import { SKETCH_SIZE } from './space-saving.js'
import { RULES_TOP_MAX } from './sketch-slots.js'

const NOW = START + 10 * MINUTE
const ALL = { limit: 10_000 }

describe('a node', () => {
  test('counts would-be refusals of a caller by shadow rule and by candidate', () => {
    const { tracker, would, now } = openTracker()
    for (let i = 0; i < 3; i++) would(1)
    for (let i = 0; i < 2; i++) would(1, 'candidate')
    would(2, 'candidate')
    const common = {
      rule: 'per-user',
      plan: 'free',
      lastRefusedCall: 'GET /tried',
      lastSeenMs: now(),
    }
    const exact = { shadowRefusalsError: 0, candidateRefusalsError: 0 }
    expect(tracker.shadowView(20)).toEqual([
      {
        ...common,
        ...exact,
        hash: textOf(1),
        caller: { user: 'u1' },
        shadowRefusals: 3,
        candidateRefusals: 2,
      },
      {
        ...common,
        ...exact,
        hash: textOf(2),
        caller: { user: 'u2' },
        shadowRefusals: 0,
        candidateRefusals: 1,
      },
    ])
    expect(tracker.view(20, START)).toEqual([])
  })

  test('covers the current five minutes and the five before', () => {
    const { tracker, would, pass } = openTracker()
    would(1)
    pass(PERIOD_MS)
    would(1)
    expect(tracker.shadowView(20)).toMatchObject([{ shadowRefusals: 2 }])
    pass(PERIOD_MS)
    expect(tracker.shadowView(20)).toMatchObject([{ shadowRefusals: 1 }])
    pass(2 * PERIOD_MS)
    expect(tracker.shadowView(20)).toEqual([])
    expect(tracker.held.top).toBe(0)
  })

  test('forgets would-be refusals when the rule counts by other attributes', () => {
    const { tracker, see, would } = openTracker()
    would(1)
    see(1, { by: ['ip'], attributes: { ip: '192.0.2.1' } })
    expect(tracker.shadowView(20)).toEqual([])
  })

  test('keeps refusals and use unchanged while a candidate would refuse many callers', () => {
    const quiet = openTracker()
    const loud = openTracker()
    for (const { see } of [quiet, loud]) {
      for (let i = 0; i < 50; i++) see(i, REFUSED)
      for (let i = 50; i < 90; i++) see(i, { ...ALLOWED, cost: i })
    }
    for (let rule = 0; rule < 2 * RULES_TOP_MAX; rule++) {
      for (let i = 0; i < 100; i++) loud.would(1000 + i, 'candidate', `crowded-${rule}`)
    }
    for (let i = 0; i < 10_000; i++) loud.would(100 + i, 'candidate')
    expect(loud.tracker.view(20, START)).toEqual(quiet.tracker.view(20, START))
  })

  test('tracks and publishes a bounded number of them, of the rules with most', () => {
    const { tracker, would } = openTracker()
    for (let rule = 0; rule < 300; rule++) {
      for (let i = 0; i < 100 + (rule === 7 ? 900 : 0); i++) would(i, 'shadow', `r${rule}`)
    }
    expect(tracker.held.top).toBe(RULES_TOP_MAX * SKETCH_SIZE)
    const view = tracker.shadowView(SNAPSHOT_CALLERS_MAX)
    expect(view).toHaveLength(SHADOW_VIEW_MAX)
    expect(view[0]?.rule).toBe('r7')
  })
})

describe('all nodes together', () => {
  function snapshotOf(
    shadowCallers: readonly Partial<ShadowCallerSnapshot>[] | undefined,
    callers: readonly { readonly user: number; readonly refusals: number }[] = [],
  ): CallersSnapshot {
    const named = { rule: 'a', plan: 'free', lastSeenMs: NOW }
    return {
      callersSinceMs: START,
      callers: callers.map(({ user, refusals }) => ({
        ...named,
        hash: textOf(user),
        caller: { user: `u${user}` },
        refusals,
        refusalsError: 0,
        use: 0,
        useError: 0,
        zeroSinceMs: null,
        hours: 0,
      })),
      shadowCallers: shadowCallers?.map((caller) => ({
        ...named,
        hash: textOf(1),
        caller: { user: 'u1' },
        shadowRefusals: 0,
        shadowRefusalsError: 0,
        candidateRefusals: 0,
        candidateRefusalsError: 0,
        ...caller,
      })),
    }
  }
  const other = { hash: textOf(2), caller: { user: 'u2' } }

  test('sum would-be refusals and their errors', async () => {
    const nodes = [
      snapshotOf([
        { candidateRefusals: 5, candidateRefusalsError: 1 },
        { ...other, shadowRefusals: 30 },
      ]),
      snapshotOf([{ candidateRefusals: 7, candidateRefusalsError: 2 }]),
    ]
    expect(await mergeCallers(nodes, 'shadow', ALL, NOW)).toMatchObject([
      { caller: { user: 'u2' }, shadowRefusals: 30, candidateRefusals: 0, error: 0, refusals: 0 },
      { caller: { user: 'u1' }, shadowRefusals: 0, candidateRefusals: 12, error: 3, refusals: 0 },
    ])
  })

  test('accept a node of a release without would-be refusals', async () => {
    const nodes = [
      snapshotOf(undefined, [{ user: 1, refusals: 4 }]),
      snapshotOf([{ shadowRefusals: 5 }], [{ user: 1, refusals: 2 }]),
    ]
    expect(await mergeCallers(nodes, 'refusals', ALL, NOW)).toMatchObject([
      { caller: { user: 'u1' }, refusals: 6, shadowRefusals: 5 },
    ])
    expect(await mergeCallers([snapshotOf(undefined)], 'shadow', ALL, NOW)).toEqual([])
  })

  test('list refused callers before those that would have been refused', async () => {
    const crowd = Array.from({ length: 20 }, (_, i) => ({
      hash: textOf(100 + i),
      caller: { user: `u${100 + i}` },
      candidateRefusals: 1_000_000 + i,
    }))
    const nodes = [
      snapshotOf(crowd, [{ user: 1, refusals: 1 }]),
      snapshotOf(crowd, [{ user: 2, refusals: 2 }]),
    ]
    const users = async (limit: number) =>
      (await mergeCallers(nodes, 'refusals', { limit }, NOW)).map(({ caller }) => caller['user'])
    expect(await users(2)).toEqual(['u2', 'u1'])
    expect(await users(4)).toEqual(['u2', 'u1', 'u119', 'u118'])
    const last = (await mergeCallers(nodes, 'refusals', { limit: 3 }, NOW)).at(-1)
    expect(last).toMatchObject({ refusals: 0, error: 0, candidateRefusals: 2_000_038 })
  })

  test('leave callers with only would-be refusals out of use, zero and hours', async () => {
    const nodes = [snapshotOf([{ shadowRefusals: 9 }])]
    for (const order of ['use', 'zero', 'hours'] as const) {
      expect(await mergeCallers(nodes, order, ALL, NOW)).toEqual([])
    }
  })

  test('list the would-be refusals of one rule', async () => {
    const nodes = [snapshotOf([{ shadowRefusals: 9 }, { rule: 'b', candidateRefusals: 3 }])]
    expect(await mergeCallers(nodes, 'shadow', { ...ALL, rule: 'b' }, NOW)).toMatchObject([
      { rule: 'b', candidateRefusals: 3 },
    ])
  })

  test('add to the error what nodes that did not publish a caller may have counted', async () => {
    const full = Array.from({ length: SNAPSHOT_CALLERS_MAX }, (_, i) => ({
      hash: textOf(1000 + i),
      candidateRefusals: 6,
    }))
    const nodes = [snapshotOf([{ ...other, candidateRefusals: 50 }]), snapshotOf(full)]
    expect((await mergeCallers(nodes, 'shadow', { limit: 1 }, NOW))[0]).toMatchObject({
      caller: { user: 'u2' },
      candidateRefusals: 56,
      error: 6,
    })
  })

  test('count 0 for a node whose error exceeds its count', async () => {
    const nodes = [snapshotOf([{ shadowRefusals: 1, shadowRefusalsError: 1000 }])]
    expect(await mergeCallers(nodes, 'shadow', ALL, NOW)).toEqual([])
  })
})
