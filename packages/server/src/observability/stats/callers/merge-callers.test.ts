import fc from 'fast-check'
import { expect, test } from 'vitest'
import { SNAPSHOT_CALLERS_MAX, type CallerSnapshot } from '../node-snapshot.js'
import {
  ALLOWED,
  HOUR,
  MINUTE,
  openTracker,
  REFUSED,
  SECOND,
  START,
  textOf,
} from './caller-tracker.test-helper.js'
import { type CallersSnapshot, callersSinceMs, mergeCallers } from './merge-callers.js'
import { SKETCH_SIZE } from './space-saving.js'
import { propertyRuns } from '../../../../../../tools/property-runs.js'

const NOW = START + 10 * MINUTE
const ALL = { limit: 10_000 }

function snapshotOf(...callers: readonly Partial<CallerSnapshot>[]): CallersSnapshot {
  return {
    callersSinceMs: START,
    callers: callers.map((caller) => ({
      rule: 'a',
      hash: textOf(1),
      caller: { user: 'u1' },
      plan: 'free',
      refusals: 0,
      refusalsError: 0,
      use: 0,
      useError: 0,
      zeroSinceMs: null,
      lastSeenMs: NOW,
      hours: 0,
      ...caller,
    })),
  }
}

/** As many callers as a node publishes, with this many refusals each. */
function fullSnapshot(refusals: number): CallersSnapshot {
  const some = Array.from({ length: SNAPSHOT_CALLERS_MAX }, (_, i) => ({
    hash: textOf(1000 + i),
    refusals,
  }))
  return snapshotOf(...some)
}

test('counts and errors of all nodes are summed', async () => {
  const nodes = [
    snapshotOf({ refusals: 5, refusalsError: 1, use: 100 }),
    snapshotOf({ refusals: 7, refusalsError: 2, use: 50, useError: 20 }),
  ]
  expect(await mergeCallers(nodes, 'refusals', ALL, NOW)).toEqual([
    {
      rule: 'a',
      hash: textOf(1),
      caller: { user: 'u1' },
      plan: 'free',
      isEverybody: false,
      lastRefusedCall: null,
      refusals: 12,
      shadowRefusals: 0,
      candidateRefusals: 0,
      use: 130,
      error: 3,
      zeroSince: null,
      lastSeen: new Date(NOW).toISOString(),
      hoursAtLimit: 0,
    },
  ])
  expect(await mergeCallers(nodes, 'use', ALL, NOW)).toMatchObject([
    { refusals: 9, use: 150, error: 20 },
  ])
})

test('a node with a full list may have counted an unlisted caller up to its last entry', async () => {
  const nodes = [snapshotOf({ refusals: 50 }), fullSnapshot(8), fullSnapshot(3)]
  const [first] = await mergeCallers(nodes, 'refusals', ALL, NOW)
  expect(first).toMatchObject({ hash: textOf(1), refusals: 61, error: 11 })
})

test('a node with a list that is not full has no unlisted callers', async () => {
  const nodes = [snapshotOf({ refusals: 50 }), snapshotOf({ hash: textOf(2), refusals: 40 })]
  const [first] = await mergeCallers(nodes, 'refusals', ALL, NOW)
  expect(first).toMatchObject({ hash: textOf(1), refusals: 50, error: 0 })
})

test('entries of another rule do not affect this one', async () => {
  const other = fullSnapshot(90)
  const elsewhere = { ...other, callers: other.callers.map((row) => ({ ...row, rule: 'b' })) }
  const [first] = await mergeCallers(
    [snapshotOf({ refusals: 9 }), elsewhere],
    'refusals',
    { rule: 'a', limit: 5 },
    NOW,
  )
  expect(first).toMatchObject({ rule: 'a', refusals: 9, error: 0 })
  const all = await mergeCallers([snapshotOf({ refusals: 9 }), elsewhere], 'refusals', ALL, NOW)
  expect(all).toHaveLength(SNAPSHOT_CALLERS_MAX + 1)
  expect(all.at(-1)).toMatchObject({ rule: 'a', refusals: 9, error: 0 })
})

test('callers are sorted by their guaranteed count, and those without one are left out', async () => {
  const nodes = [
    snapshotOf(
      { hash: textOf(1), refusals: 1000, refusalsError: 999 },
      { hash: textOf(2), refusals: 500, refusalsError: 100 },
      { hash: textOf(3), refusals: 400, refusalsError: 400, use: 7 },
    ),
  ]
  const rows = await mergeCallers(nodes, 'refusals', ALL, NOW)
  expect(rows.map(({ hash, refusals, error }) => [hash, refusals, error])).toEqual([
    [textOf(2), 500, 100],
    [textOf(1), 1000, 999],
  ])
  expect(await mergeCallers(nodes, 'use', ALL, NOW)).toMatchObject([
    { hash: textOf(3), refusals: 0 },
  ])
})

test('a caller is exhausted if it is on every node that it calls, since the last of them', async () => {
  const early = { zeroSinceMs: NOW - 5 * MINUTE }
  const late = { zeroSinceMs: NOW - MINUTE }
  const since = async (...nodes: readonly CallersSnapshot[]) => {
    const rows = await mergeCallers(nodes, 'zero', ALL, NOW)
    return rows.map(({ zeroSince }) => zeroSince)
  }
  expect(await since(snapshotOf(early), snapshotOf(late))).toEqual([
    new Date(NOW - MINUTE).toISOString(),
  ])
  expect(await since(snapshotOf(early), snapshotOf({ use: 1 }))).toEqual([])
  const longAgo = { use: 1, lastSeenMs: NOW - 61 * SECOND }
  expect(await since(snapshotOf(early), snapshotOf(longAgo))).toEqual([
    new Date(NOW - 5 * MINUTE).toISOString(),
  ])
  expect(await since(snapshotOf({ ...early, lastSeenMs: NOW - 61 * SECOND }))).toEqual([])
})

test('the longest exhausted callers come first', async () => {
  const node = snapshotOf(
    { hash: textOf(1), zeroSinceMs: NOW - MINUTE },
    { hash: textOf(2), zeroSinceMs: NOW - 3 * MINUTE },
    // By a clock ahead of ours.
    { hash: textOf(3), zeroSinceMs: NOW + SECOND, lastSeenMs: NOW + SECOND },
    { hash: textOf(4) },
  )
  const rows = await mergeCallers([node], 'zero', ALL, NOW)
  expect(rows.map(({ hash }) => hash)).toEqual([textOf(2), textOf(1), textOf(3)])
})

test('an hour counts once, on however many nodes the limit was reached', async () => {
  const rows = await mergeCallers(
    [
      snapshotOf({ hours: 0b1011_1111_1111 }),
      snapshotOf({ hours: 0b0110_0000_0011 }),
      snapshotOf({ hash: textOf(2), hours: 0 }),
    ],
    'hours',
    ALL,
    NOW,
  )
  expect(rows).toMatchObject([{ hash: textOf(1), hoursAtLimit: 12, error: 0 }])
})

test('callers at the limit in fewer than half of the last 24 hours are left out', async () => {
  const hours = [1, 11, 12, 24].map((count, place) => ({
    hash: textOf(place),
    hours: 2 ** count - 1,
  }))
  const rows = await mergeCallers([snapshotOf(...hours)], 'hours', ALL, NOW)
  expect(rows.map(({ hoursAtLimit }) => hoursAtLimit)).toEqual([24, 12])
  const byUse = await mergeCallers([snapshotOf({ use: 1, hours: 1 })], 'use', ALL, NOW)
  expect(byUse).toMatchObject([{ hoursAtLimit: 1 }])
})

test('all callers together have no plan', async () => {
  const everybody = snapshotOf({ refusals: 1, caller: {}, plan: 'pro' })
  const rows = await mergeCallers([everybody], 'refusals', ALL, NOW)
  expect(rows).toMatchObject([{ caller: {}, plan: null }])
})

test('a caller has the name of the node that saw it last, among those with a name', async () => {
  const nodes = [
    snapshotOf({ refusals: 1, plan: 'free', lastSeenMs: NOW - 3 }),
    snapshotOf({ refusals: 1, plan: 'pro', lastSeenMs: NOW - 2 }),
    snapshotOf({ refusals: 1, plan: null, caller: {}, lastSeenMs: NOW - 1 }),
  ]
  for (const sights of [nodes, nodes.toReversed()]) {
    expect(await mergeCallers(sights, 'refusals', ALL, NOW)).toMatchObject([
      { plan: 'pro', caller: { user: 'u1' }, lastSeen: new Date(NOW - 1).toISOString() },
    ])
  }
})

test('the list has at most the requested length, and is empty without callers', async () => {
  expect(await mergeCallers([fullSnapshot(3)], 'refusals', { limit: 4 }, NOW)).toHaveLength(4)
  expect(await mergeCallers([], 'hours', ALL, NOW)).toEqual([])
})

test('counts cover the time since the first node began to count', () => {
  const later = { ...snapshotOf(), callersSinceMs: START + MINUTE }
  expect(callersSinceMs([later, snapshotOf()], NOW)).toBe(START)
  expect(callersSinceMs([], NOW)).toBe(NOW)
})

interface Stream {
  readonly node: number
  readonly caller: number
  readonly cost: number
  readonly isRefused: boolean
}

const event: fc.Arbitrary<Stream> = fc.record({
  node: fc.nat(2),
  caller: fc.oneof(fc.nat(15), fc.nat(400)),
  cost: fc.integer({ min: 1, max: 20 }),
  isRefused: fc.boolean(),
})

test('over all nodes and both periods a count is never too low, and at most its error too high', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(event, { minLength: 1, maxLength: 2500, size: 'max' }),
      fc.nat(2500),
      async (events, middle) => {
        const nodes = [openTracker(), openTracker(), openTracker()]
        const truth = { refusals: new Map<string, number>(), use: new Map<string, number>() }
        for (const [at, { node, caller, cost, isRefused }] of events.entries()) {
          if (at === middle) for (const { jump } of nodes) jump(5 * MINUTE)
          nodes[node]?.see(caller, { ...(isRefused ? REFUSED : ALLOWED), cost })
          const counts = truth[isRefused ? 'refusals' : 'use']
          const hash = textOf(caller)
          counts.set(hash, (counts.get(hash) ?? 0) + (isRefused ? 1 : cost))
        }
        const sights = nodes.map(({ tracker }) => ({
          callers: tracker.view(SNAPSHOT_CALLERS_MAX, START),
          callersSinceMs: tracker.callersSinceMs,
        }))
        for (const order of ['refusals', 'use'] as const) {
          const other = order === 'use' ? 'refusals' : 'use'
          const rows = await mergeCallers(sights, order, ALL, START + 5 * MINUTE)
          for (const caller of rows) {
            const real = truth[order].get(caller.hash) ?? 0
            expect(caller[order]).toBeGreaterThanOrEqual(real)
            expect(caller[order]).toBeLessThanOrEqual(real + caller.error)
            expect(caller[other]).toBeLessThanOrEqual(truth[other].get(caller.hash) ?? 0)
          }
          // Some node counted more of it than that share of its total. At most 20 callers have a
          // 20th of that, and the figure of one without a place is at most a 64th too high.
          const hashes = new Set(rows.map(({ hash }) => hash))
          const total = [...truth[order].values()].reduce((sum, count) => sum + count, 0)
          for (const [hash, real] of truth[order]) {
            if (real > total * (1 / SNAPSHOT_CALLERS_MAX + 1 / SKETCH_SIZE))
              expect(hashes).toContain(hash)
          }
        }
      },
    ),
    // Shrinking thousands of events would take minutes; the seed is enough.
    { numRuns: propertyRuns(25), endOnFailure: true },
  )
})

test('a caller whose hours are on two nodes is a candidate by both together', async () => {
  const nodes = [openTracker(), openTracker()]
  for (let hour = 0; hour < 14; hour++) {
    nodes[hour % 2]?.see(1, REFUSED)
    for (const { jump } of nodes) jump(HOUR)
  }
  const sights = nodes.map(({ tracker }) => ({
    callers: tracker.view(20, START),
    callersSinceMs: 0,
  }))
  const [rows] = await mergeCallers(sights, 'hours', ALL, START + 14 * HOUR)
  expect(rows?.hoursAtLimit).toBe(14)
})

test('of thousands of callers the first are listed, in order', async () => {
  const weights = Array.from({ length: 3000 }, (_, i) => (i * 7919) % 3001)
  const node = snapshotOf(...weights.map((refusals, i) => ({ hash: textOf(i), refusals })))
  const rows = await mergeCallers([node], 'refusals', { limit: 50 }, NOW)
  const heaviest = weights.toSorted((a, b) => b - a).slice(0, 50)
  expect(rows.map(({ refusals }) => refusals)).toEqual(heaviest)
})

test('a node that last saw a caller before its refill does not end its exhaustion', async () => {
  const refilled = { hash: 'a', zeroSinceMs: NOW - 40_000, lastSeenMs: NOW - 30_000 }
  const old = snapshotOf({ ...refilled, isRefilled: true })
  const present = snapshotOf({ hash: 'a', zeroSinceMs: NOW - 10_000, lastSeenMs: NOW })
  const since = async (...sights: readonly CallersSnapshot[]) =>
    (await mergeCallers(sights, 'zero', ALL, NOW)).map(({ zeroSince }) => zeroSince)
  expect(await since(old, present)).toEqual([new Date(NOW - 10_000).toISOString()])
  expect(await since(old)).toEqual([])
})

test('the refused call is from the node that saw the caller last, among those that know one', async () => {
  const row = (lastRefusedCall: string | null, lastSeenMs: number) =>
    snapshotOf({ hash: 'a', refusals: 1, lastRefusedCall, lastSeenMs })
  const sights = [row('GET /a', NOW - 2000), row('GET /b', NOW - 1000), row(null, NOW)]
  const [rows] = await mergeCallers(sights, 'refusals', ALL, NOW)
  expect(rows?.lastRefusedCall).toBe('GET /b')
  const [unknown] = await mergeCallers([row(null, NOW)], 'refusals', ALL, NOW)
  expect(unknown?.lastRefusedCall).toBeNull()
})
