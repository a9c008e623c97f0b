import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { commonEnd, mergeSeries, BucketRing } from './series.js'
import { BucketClock } from './time-buckets.js'

const STEP_MS = 2000
const KEPT = 5

/** A ring that is advanced by a clock, as on a node. */
function setUp(beganMs = 0) {
  const clock = new BucketClock(STEP_MS, beganMs)
  const ring = new BucketRing(KEPT)
  const totals = { allowed: 0, refused: 0, shadowRefused: 0, degraded: 0 }
  /** Adds this many decisions up to this time. */
  const tick = (nowMs: number, allowed = 0, refused = 0) => {
    totals.allowed += allowed
    totals.refused += refused
    const before = clock.end
    const step = clock.advance(nowMs)
    if (step < before) ring.rewind(step)
    ring.feed(step, totals)
  }
  const allowed = () => ring.series(clock.firstBucket, clock.end).allowed
  return { clock, ring, tick, allowed }
}

describe('time buckets', () => {
  test('begin at multiples of their length since 1970, wherever a node began', () => {
    const { clock, ring, tick, allowed } = setUp(1_000_001_500)
    tick(1_000_002_000, 3)
    tick(1_000_003_000, 5)
    tick(1_000_004_000, 7)
    expect(clock.end).toBe(500_002)
    expect(allowed()).toEqual([3, 12])
    expect(ring.series(0, 500_002).end).toBe(500_002)
  })

  test('are published when complete, and do not change afterwards', () => {
    const { clock, tick, allowed } = setUp()
    tick(1000, 1)
    tick(1900, 1)
    expect(allowed()).toEqual([])
    tick(2050, 1)
    expect([clock.end, allowed()]).toEqual([1, [3]])
    tick(3000, 10)
    tick(4001, 10)
    expect(allowed()).toEqual([3, 20])
  })

  test('have the growth of the totals, for each field', () => {
    const ring = new BucketRing(KEPT)
    ring.feed(7, { allowed: 10, refused: 4, shadowRefused: 2, degraded: 1 })
    ring.feed(8, { allowed: 11, refused: 6, shadowRefused: 5, degraded: 5 })
    expect(ring.series(7, 9)).toEqual({
      end: 9,
      allowed: [10, 1],
      refused: [4, 2],
      shadowRefused: [2, 3],
      degraded: [1, 4],
    })
    expect(ring.sum(9)).toEqual({ decisions: 22, refused: 6 })
  })

  test('are at most as many as are kept, the oldest first', () => {
    const { tick, allowed } = setUp()
    for (let second = 1; second <= 40; second++) tick(second * 1000, second)
    expect(allowed()).toEqual([31 + 32, 33 + 34, 35 + 36, 37 + 38, 39 + 40])
  })

  test('without any decision are 0, even at the end', () => {
    const { tick, allowed } = setUp()
    tick(1000, 1)
    tick(2000)
    tick(4000)
    tick(6000, 0)
    expect(allowed()).toEqual([1, 0, 0])
  })

  test('skipped by a clock that was set ahead are 0, and nothing is lost', () => {
    const { tick, allowed } = setUp()
    tick(1000, 1)
    tick(2000, 1)
    tick(9000, 4)
    tick(10_000, 4)
    expect(allowed()).toEqual([2, 0, 0, 0, 8])
    tick(3_600_000, 1)
    tick(3_602_000, 1)
    expect(allowed()).toEqual([0, 0, 0, 0, 2])
  })

  test('stay while a clock that was set back slightly catches up', () => {
    const { tick, allowed } = setUp()
    tick(1000, 1)
    tick(2000, 1)
    tick(1500, 1)
    tick(1900, 1)
    tick(3000, 1)
    tick(4000, 1)
    expect(allowed()).toEqual([2, 4])
  })

  test('in the future of a clock that was set back are forgotten, and nothing is counted twice', () => {
    const { clock, tick, allowed } = setUp()
    for (let second = 1; second <= 10; second++) tick(second * 1000, 1)
    expect(allowed()).toEqual([2, 2, 2, 2, 2])
    tick(4000, 1)
    expect([clock.end, allowed()]).toEqual([2, [2, 2]])
    tick(5000, 1)
    tick(6000, 1)
    expect(allowed()).toEqual([2, 2, 3])
    tick(7000, 1)
    tick(8000, 1)
    tick(9000)
    tick(10_000)
    expect(allowed()).toEqual([2, 2, 3, 2, 0])
  })

  test('of a clock that was set back by hours begin there', () => {
    const { clock, tick, allowed } = setUp(7_200_000)
    tick(7_201_000, 1)
    tick(7_202_000, 1)
    tick(3_600_000, 1)
    tick(3_601_000, 1)
    tick(3_602_000, 1)
    expect(clock.firstBucket).toBe(1800)
    expect(allowed()).toEqual([3])
  })

  test('of a ring that released its memory are 0, and later decisions are counted', () => {
    const ring = new BucketRing(KEPT)
    ring.feed(1, { allowed: 9, refused: 0, shadowRefused: 0, degraded: 0 })
    ring.drop()
    expect([ring.hasData, ring.series(0, 3).allowed, ring.sum(3).decisions]).toEqual([
      false,
      [0, 0, 0],
      0,
    ])
    ring.feed(100, { allowed: 11, refused: 0, shadowRefused: 0, degraded: 0 })
    expect(ring.series(99, 101).allowed).toEqual([0, 2])
  })

  test('hold every count once, at whatever times they are read', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 1, max: 1900 }), fc.nat(50)), { maxLength: 60 }),
        (ticks) => {
          const { tick, ring, clock } = setUp(777)
          let nowMs = 777
          const wide = new BucketRing(1000)
          let total = 0
          for (const [afterMs, count] of ticks) {
            nowMs += afterMs
            total += count
            tick(nowMs, count)
            wide.feed(clock.end, { allowed: total, refused: 0, shadowRefused: 0, degraded: 0 })
          }
          const kept = ring.series(0, clock.end + 1).allowed
          const all = wide.series(0, clock.end + 1).allowed
          const sum = (counts: readonly number[]) => counts.reduce((a, b) => a + b, 0)
          expect(sum(all)).toBe(total)
          expect(sum(kept)).toBeLessThanOrEqual(total)
          if (clock.end - clock.firstBucket < KEPT) expect(sum(kept)).toBe(total)
        },
      ),
    )
  })
})

describe('time buckets of several nodes', () => {
  const seriesOf = (end: number, allowed: readonly number[]) => {
    const none = allowed.map(() => 0)
    return { end, allowed, refused: none, shadowRefused: none, degraded: none }
  }

  test('are summed by their numbers', () => {
    const merged = mergeSeries([seriesOf(10, [1, 2, 3]), seriesOf(11, [10, 20, 30, 40])], {
      end: 10,
      capacity: 100,
    })
    expect(merged).toEqual({ ...seriesOf(10, [11, 22, 33]) })
  })

  test('begin with the first bucket of any node, and count as 0 where a node has none', () => {
    const merged = mergeSeries([seriesOf(10, [1]), seriesOf(10, [5, 5, 5]), seriesOf(8, [7, 7])], {
      end: 10,
      capacity: 100,
    })
    expect(merged.allowed).toEqual([7, 7 + 5, 5, 1 + 5])
  })

  test('are at most as many as are kept, and none if no node has any', () => {
    expect(mergeSeries([seriesOf(10, [1, 2, 3])], { end: 10, capacity: 2 }).allowed).toEqual([2, 3])
    expect(mergeSeries([], { end: 10, capacity: 2 }).allowed).toEqual([])
    expect(mergeSeries([seriesOf(3, [1])], { end: 1000, capacity: 2 }).allowed).toEqual([0, 0])
  })

  test('end where all nodes have published, ignoring those far behind or ahead', () => {
    expect(commonEnd(100, [])).toBe(100)
    expect(commonEnd(100, [99, 98, 100])).toBe(98)
    expect(commonEnd(100, [97, 96])).toBe(97)
    expect(commonEnd(100, [40, 5000])).toBe(100)
  })
})
