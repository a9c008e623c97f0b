import type { CompiledLimit, FixedWindow, LimitSpec, Outcome } from '@sluice/core'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { DebtLimits } from '../src/coordination/local/debt-limit.js'
import {
  compiled,
  Fleet,
  START_US,
  settled,
  takeOf,
} from '../src/coordination/fleet.test-helper.js'
import { propertyRuns } from '../../../tools/property-runs.js'

interface Call {
  readonly atMs: number
  readonly node: number
  readonly units: number
}

/** Calls at an even rate, one node after the other. */
function even(perSecond: number, seconds: number, nodes: number): readonly Call[] {
  return Array.from({ length: perSecond * seconds }, (_, i) => ({
    atMs: (i * 1000) / perSecond,
    node: i % nodes,
    units: 1,
  }))
}

/** When a call was decided, later than it arrived if the store decided it, and how. */
interface Decided extends Call {
  readonly outcome: Outcome
  /** The store decided it while its node decided others itself, which could not know of it. */
  readonly isCrossing: boolean
}

/** How these calls were decided, in that order; `before` runs before each. */
async function decide(
  fleet: Fleet,
  of: CompiledLimit,
  calls: readonly Call[],
  before: (call: Call) => void = () => {},
): Promise<readonly Decided[]> {
  const underWay: Promise<void>[] = []
  const decided: Decided[] = []
  const here = fleet.nodes.map(() => 0)
  const ask = async (call: Call) => {
    const { node } = call
    const hereBefore = here[node]
    const outcome = await fleet.ask(node, takeOf(of, call.units))
    if (outcome === undefined) return
    const isHere = 'staleMs' in outcome
    const isCrossing = !isHere && here[node] !== hereBefore
    if (isHere) here[node] = (here[node] ?? 0) + 1
    decided.push({ ...call, atMs: (outcome.at - START_US) / 1000, outcome, isCrossing })
  }
  for (const call of calls) {
    await fleet.time.advance(call.atMs - fleet.time.nowMs)
    before(call)
    underWay.push(ask(call))
  }
  await fleet.time.advance(2 * Math.max(...fleet.nodes.map(({ store }) => store.delayMs)))
  await Promise.all(underWay)
  return decided.toSorted((a, b) => a.atMs - b.atMs)
}

/** The admitted ones of these calls. */
async function admit(...world: Parameters<typeof decide>): Promise<readonly Decided[]> {
  return (await decide(...world)).filter(({ outcome }) => outcome.granted > 0)
}

const sum = (calls: readonly Call[]): number => calls.reduce((units, call) => units + call.units, 0)

/** The most units of these calls within any span. */
function mostWithin(calls: readonly Call[], spanMs: number): number {
  let most = 0
  let within = 0
  let first = 0
  for (const { atMs, units } of calls) {
    within += units
    while ((calls[first]?.atMs ?? atMs) < atMs - spanMs) within -= calls[first++]?.units ?? 0
    most = Math.max(most, within)
  }
  return most
}

/** The largest debt of a bucket that counts everything at once. */
function excessOf(admitted: readonly Call[], { limit }: CompiledLimit): number {
  let used = 0
  let lastMs = 0
  let worst = 0
  for (const { atMs, units } of admitted) {
    used = Math.max(0, used - ((atMs - lastMs) * limit.max) / limit.windowMs) + units
    lastMs = atMs
    worst = Math.max(worst, used - limit.capacity)
  }
  return worst
}

/**
 * (n - 1) * max, plus what nodes had in flight to the store when its first answer for the caller
 * let them decide by themselves.
 */
function mostOf(admitted: readonly Decided[], nodes: number, max: number): number {
  return (nodes - 1) * max + sum(admitted.filter(({ isCrossing }) => isCrossing))
}

const overAdmitted = (fleet: Fleet): number =>
  fleet.nodes.reduce((units, { local }) => units + (local.stats.get('r')?.overAdmitted ?? 0), 0)

describe('fleets that merge counts', () => {
  test('a fleet of 10 that merges counts and gets 20 times its rate admits the rate plus one interval of calls', async () => {
    const fleet = new Fleet(10)
    const of = compiled('100/second')
    const admitted = await admit(fleet, of, even(2000, 20, 10))
    expect(admitted.length).toBeGreaterThanOrEqual(2000)
    expect(admitted.length).toBeLessThanOrEqual(2100 + 200)
  })

  test.each([
    [0, 45, 100],
    [2, 45, 108],
    [10, 63, 140],
  ])(
    'a fleet of 10 with a limit of 100 a minute, 1,000 calls a second and %d ms to the store admits %d too many, once, of %d allowed',
    async (delayMs, tooMuch, most) => {
      const fleet = new Fleet(10)
      for (const { store } of fleet.nodes) store.delayMs = delayMs
      const of = compiled({ algorithm: 'fixed-window', max: 100, window: '1m' })
      const calls = even(1000, 20, 10)
      const admitted = await admit(fleet, of, calls)
      // All calls within T + D, except the one that is decided at its end.
      expect(most).toBe(mostWithin(calls, 100 + 4 * delayMs) - 1)
      expect(admitted.length - 100).toBe(tooMuch)
      expect(tooMuch).toBeLessThanOrEqual(most)
      expect(Math.max(...admitted.map(({ atMs }) => atMs))).toBeLessThan(300)
      // Measured by the nodes themselves, against the counts of the store.
      expect(overAdmitted(fleet)).toBe(tooMuch)
      expect(fleet.state(takeOf(of))).toMatchObject({ count: admitted.length })
    },
  )

  test('a fleet of 50 that merges counts pays back more than one burst: 10/s stays 10/s', async () => {
    const fleet = new Fleet(50)
    const of = compiled('10/second')
    const admitted = await admit(fleet, of, even(1000, 20, 50))
    expect(admitted.length).toBeGreaterThanOrEqual(200)
    expect(admitted.length).toBeLessThanOrEqual(210 + 100)
  })

  test.each([
    [6, 3],
    [20, 5],
  ])(
    'a fleet of %d that merges counts keeps a rate of %d/s, smaller than the fleet',
    async (nodes, rate) => {
      const fleet = new Fleet(nodes)
      const admitted = await admit(fleet, compiled(`${rate}/second`), even(1000, 60, nodes))
      expect(admitted.length).toBeLessThanOrEqual(rate + 60 * rate + 2 * nodes)
    },
  )

  test('a fleet that merges counts keeps a rate whose burst is regained long before it is reported', async () => {
    const fleet = new Fleet(5)
    const of = compiled({ algorithm: 'gcra', max: 100, window: '1s' })
    const admitted = await admit(fleet, of, even(1000, 10, 5))
    expect(admitted.length).toBeLessThanOrEqual(1001 + 100)
  })

  test('a fleet that merges counts keeps its debt when a node calls the store that rarely does', async () => {
    const fleet = new Fleet(10)
    const of = compiled('100/second')
    const busy = even(2000, 20, 9)
    const rare = Array.from({ length: 15 }, (_, i) => ({ atMs: i * 1300 + 5, node: 9, units: 1 }))
    const calls = [...busy, ...rare].toSorted((a, b) => a.atMs - b.atMs)
    const admitted = await admit(fleet, of, calls)
    expect(admitted.length).toBeLessThanOrEqual(2100 + 200)
  })

  test('a fleet that merges counts does not carry over-admission into the next window', async () => {
    const fleet = new Fleet(10)
    const of = compiled({ algorithm: 'sliding-window-counter', max: 100, window: '10s' })
    await admit(fleet, of, even(1000, 1, 10))
    expect(fleet.state(takeOf(of))).toMatchObject({ curr: 145 })
    // Half of the next window is over: half of a full one still counts, not half of 145.
    await fleet.time.advance(15_000 - fleet.time.nowMs)
    const later = even(100, 1, 10).map((call) => ({ ...call, atMs: call.atMs + 15_000 }))
    expect(sum(await admit(fleet, of, later))).toBeGreaterThanOrEqual(50)
  })

  test('a fleet of one node that merges counts decides as the store would have', async () => {
    const calls = even(37, 20, 1).map((call, i) => ({ ...call, units: (i % 3) + 1 }))
    for (const limit of ['50/second', { algorithm: 'gcra', max: 60, window: '1s', burst: 4 }]) {
      const of = compiled(limit)
      const merged = await admit(new Fleet(1), of, calls)
      const exact = new Fleet(1)
      const expected: [atMs: number, units: number][] = []
      for (const call of calls) {
        await exact.time.advance(call.atMs - exact.time.nowMs)
        const [[outcome] = []] = exact.shared.sync.take([[takeOf(of, call.units)]])
        if (outcome === undefined || outcome.granted === 0) continue
        expected.push([(outcome.at - START_US) / 1000, call.units])
      }
      expect(merged.map(({ atMs, units }) => [atMs, units])).toEqual(expected)
    }
  })
})

describe('partitions', () => {
  const cutOff = (fleet: Fleet, fault: 'not-run' | 'lost') => (call: Call) => {
    const isCut = call.atMs >= 5000 && call.atMs < 15_000
    for (const { store } of fleet.nodes.slice(5)) store.fault = isCut ? fault : undefined
  }

  test.each(['not-run', 'lost'] as const)(
    'a partition of 10 s (%s) blocks no caller for longer than the debt',
    async (fault) => {
      const fleet = new Fleet(10)
      const of = compiled('100/second')
      const admitted = await admit(fleet, of, even(2000, 25, 10), cutOff(fleet, fault))
      const { debt } = new DebtLimits().get(of, 10)
      const times = admitted.flatMap(({ atMs }) => (atMs >= 15_000 ? atMs : []))
      const gaps = [15_000, ...times].map((atMs, i) => (times[i] ?? 25_000) - atMs)
      expect(Math.max(...gaps)).toBeLessThanOrEqual((debt / 100) * 1000 + 200)
      // Then at most the rate, the debt and the calls of one interval.
      expect(times.length).toBeLessThanOrEqual(1000 + 200 + 5 * 100)
    },
  )

  test.each(['not-run', 'lost'] as const)(
    'a partition of 10 s (%s) charges no window twice',
    async (fault) => {
      const fleet = new Fleet(10)
      const of = compiled({ algorithm: 'fixed-window', max: 100, window: '1s' })
      const admitted = await admit(fleet, of, even(500, 20, 10), cutOff(fleet, fault))
      const windowOf = (us: number) => Math.floor(us / 1_000_000)
      const charged = new Map<number, number>()
      for (const { at, amount } of fleet.nodes.flatMap(({ store }) => store.ran)) {
        charged.set(windowOf(at), (charged.get(windowOf(at)) ?? 0) + amount)
      }
      for (const [window, units] of charged) {
        const spent = admitted.filter(({ atMs }) => windowOf(START_US + atMs * 1000) === window)
        expect(units).toBeLessThanOrEqual(spent.length)
      }
    },
  )
})

describe('for all sequences of calls', () => {
  const traffic = (nodes: number) =>
    fc
      .array(
        fc.record({
          gapMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 60 })),
          node: fc.nat({ max: nodes - 1 }),
          units: fc.integer({ min: 1, max: 4 }),
        }),
        { minLength: 20, maxLength: 150 },
      )
      .map((steps) => {
        let atMs = 0
        return steps.map(({ gapMs, node, units }) => ({ atMs: (atMs += gapMs), node, units }))
      })
  const world = fc.integer({ min: 2, max: 6 }).chain((nodes) =>
    fc.record({
      nodes: fc.constant(nodes),
      calls: traffic(nodes),
      max: fc.integer({ min: 3, max: 60 }),
      everyMs: fc.constantFrom(50, 100, 200),
      delayMs: fc.constantFrom(0, 1, 7, 12),
    }),
  )
  const open = (nodes: number, delayMs: number): Fleet => {
    const fleet = new Fleet(nodes)
    for (const { store } of fleet.nodes) store.delayMs = delayMs
    return fleet
  }
  /**
   * T + D. At most half an interval passes until usage is reported, and half until another node
   * reads it. D is two round trips: the store read the state that a node uses up to one way after
   * the request, and the node uses it until the next read returns; for the first answer of a caller
   * the rounds began when it arrived. A round trip is shorter than half an interval in this test,
   * so that no round replaces another.
   */
  const heardMs = (everyMs: number, delayMs: number) => everyMs + 4 * delayMs

  test.each<LimitSpec['algorithm']>(['fixed-window', 'sliding-window-counter'])(
    'every decision of a %s knows what was spent one interval and two round trips ago',
    async (algorithm) => {
      await fc.assert(
        fc.asyncProperty(world, async ({ nodes, calls, everyMs, delayMs }) => {
          const fleet = open(nodes, delayMs)
          const of = compiled({ algorithm, max: 1000, window: '1m' }, everyMs)
          const decided = await decide(fleet, of, calls)
          // Every call is admitted, so that only learned usage can reduce what remains.
          expect(sum(decided)).toBe(sum(calls))
          for (const { atMs, outcome } of decided) {
            const heardUntilMs = atMs - heardMs(everyMs, delayMs)
            const old = decided.filter((other) => other.atMs < heardUntilMs)
            expect(outcome.remaining).toBeLessThanOrEqual(1000 - sum(old))
          }
        }),
        { numRuns: propertyRuns(200) },
      )
    },
  )

  test.each<LimitSpec['algorithm']>(['fixed-window', 'sliding-window-counter'])(
    'a %s over-admits at most (n - 1) * max plus calls in flight, or the calls of T + D if fewer, and counts it',
    async (algorithm) => {
      await fc.assert(
        fc.asyncProperty(world, async ({ nodes, calls, max, everyMs, delayMs }) => {
          const fleet = open(nodes, delayMs)
          const of = compiled({ algorithm, max, window: '1m' }, everyMs)
          const admitted = await admit(fleet, of, calls)
          const offered = mostWithin(calls, heardMs(everyMs, delayMs))
          const most = Math.min(mostOf(admitted, nodes, max), offered)
          expect(sum(admitted) - max).toBeLessThanOrEqual(most)
          await fleet.time.advance(everyMs + 4 * delayMs + 1)
          const state = fleet.state(takeOf(of))
          const count = algorithm === 'fixed-window' ? 'count' : 'curr'
          if (admitted.length > 0) expect(state).toMatchObject({ [count]: sum(admitted) })
          expect(overAdmitted(fleet)).toBe(Math.max(0, sum(admitted) - max))
        }),
        { numRuns: propertyRuns(60) },
      )
    },
  )

  test('each of many windows over-admits at most as much as a single one', async () => {
    await fc.assert(
      fc.asyncProperty(world, async ({ nodes, calls, max, everyMs, delayMs }) => {
        const fleet = open(nodes, delayMs)
        const of = compiled({ algorithm: 'fixed-window', max, window: '1s' }, everyMs)
        const admitted = await admit(fleet, of, calls)
        const offered = mostWithin(calls, heardMs(everyMs, delayMs))
        for (const { atMs: first } of admitted) {
          const window = Math.floor(first / 1000)
          const within = admitted.filter(({ atMs }) => Math.floor(atMs / 1000) === window)
          const most = Math.min(mostOf(within, nodes, max), offered)
          expect(sum(within) - max).toBeLessThanOrEqual(most)
        }
      }),
      { numRuns: propertyRuns(60) },
    )
  })

  test.each<LimitSpec['algorithm']>(['token-bucket', 'gcra'])(
    'a %s owes at most the calls of T + D',
    async (algorithm) => {
      await fc.assert(
        fc.asyncProperty(world, async ({ nodes, calls, max, everyMs, delayMs }) => {
          const fleet = open(nodes, delayMs)
          const of = compiled({ algorithm, max, window: '1s' }, everyMs)
          const admitted = await admit(fleet, of, calls)
          const offered = mostWithin(calls, heardMs(everyMs, delayMs))
          expect(excessOf(admitted, of)).toBeLessThanOrEqual(offered)
        }),
        { numRuns: propertyRuns(60) },
      )
    },
  )

  test('no window is charged more than was admitted, with any faults', async () => {
    const fault = fc.constantFrom('not-run' as const, 'lost' as const, 'ran' as const, undefined)
    const faults = fc.array(fault, { minLength: 40, maxLength: 40 })
    await fc.assert(
      fc.asyncProperty(world, faults, async ({ nodes, calls, max, everyMs, delayMs }, fates) => {
        const fleet = open(nodes, delayMs)
        const of = compiled({ algorithm: 'fixed-window', max, window: '1m' }, everyMs)
        const admitted = await admit(fleet, of, calls, ({ atMs, node }) => {
          const { store } = fleet.at(node)
          store.chargeFault = fates[Math.floor(atMs / 70 + node) % fates.length]
        })
        const closed = fleet.nodes.map(({ local }) => local.close())
        await settled()
        await fleet.time.advance(1000)
        await Promise.all(closed)
        const state = fleet.state(takeOf(of)) as FixedWindow | undefined
        expect(state?.count ?? 0).toBeLessThanOrEqual(sum(admitted))
      }),
      { numRuns: propertyRuns(60) },
    )
  })
})
