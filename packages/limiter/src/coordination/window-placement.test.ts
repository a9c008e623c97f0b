import { defineLimit, type Limit, type LimitSpec } from '@sluice/core'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type StoreTimeEstimate, placeInWindow } from './window-placement.js'

const SECOND_US = 1_000_000
const EDGE_US = 1_760_000_000 * SECOND_US
const TOLERANCE_US = 100_000

const limitOf = (algorithm: LimitSpec['algorithm'], windowMs = 1000) =>
  defineLimit({ algorithm, max: 10, windowMs })
const windowed = limitOf('fixed-window')

const estimateOf = (
  time: number,
  uncertaintyUs: number,
  toleranceUs = TOLERANCE_US,
): StoreTimeEstimate => ({
  time: () => time,
  uncertaintyUs: () => uncertaintyUs,
  toleranceUs,
})

const place = (sinceEdgeUs: number, uncertaintyUs: number, limit = windowed) =>
  placeInWindow(estimateOf(EDGE_US + sinceEdgeUs, uncertaintyUs), limit) - EDGE_US

describe('placeInWindow', () => {
  test('a unit is placed at the store’s time while that is known well enough', () => {
    for (const sinceEdge of [0, 1, 50_000, 999_999]) {
      expect(place(sinceEdge, TOLERANCE_US)).toBe(sinceEdge)
      expect(place(sinceEdge, 0)).toBe(sinceEdge)
    }
  })

  test('a unit as near to an edge as the time may be off is placed in the earlier window', () => {
    expect(place(0, 150_000)).toBe(-150_000)
    expect(place(149_999, 150_000)).toBe(-1)
    expect(place(150_000, 150_000)).toBe(150_000)
    expect(place(900_000, 150_000)).toBe(900_000)
    expect(place(-1, 150_000)).toBe(-1)
  })

  test('a unit is placed in the last window at the earliest, however far off the time may be', () => {
    expect(place(300_000, 5 * SECOND_US)).toBe(-700_000)
    expect(place(0, 5 * SECOND_US)).toBe(-SECOND_US)
  })

  test('a unit near local midnight is placed in the earlier day of its zone', () => {
    const day = defineLimit({
      algorithm: 'fixed-window',
      max: 10,
      windowMs: 86_400_000,
      window: 'day',
      zone: 'Europe/Berlin',
    })
    // The day on which summer begins.
    const midnight = Date.UTC(2026, 2, 28, 23) * 1000
    const placeAt = (time: number) => placeInWindow(estimateOf(time, 150_000), day) - midnight
    expect(placeAt(midnight + 149_999)).toBe(-1)
    expect(placeAt(midnight + 150_000)).toBe(150_000)
    expect(placeAt(midnight + 23 * 3600 * SECOND_US)).toBe(23 * 3600 * SECOND_US - 150_000)
  })

  test.each(['token-bucket', 'gcra', 'leaky-bucket', 'sliding-window-log'] as const)(
    'a unit of a %s, which has no edges, is placed at the estimated time unchanged',
    (algorithm) => {
      expect(place(0, 500_000, limitOf(algorithm))).toBe(0)
    },
  )

  test('a unit is placed at the estimated time unchanged before the store has reported its own', () => {
    expect(place(0, Infinity)).toBe(0)
    expect(place(1.5, Infinity)).toBe(1)
  })

  test('with a tolerance of 0 any uncertainty places a unit in the earlier window', () => {
    expect(placeInWindow(estimateOf(EDGE_US, 1, 0), windowed)).toBe(EDGE_US - 1)
    expect(placeInWindow(estimateOf(EDGE_US, 0, 0), windowed)).toBe(EDGE_US)
  })

  test('a unit is never placed at a negative time', () => {
    expect(placeInWindow(estimateOf(10, 150_000), windowed)).toBe(10)
  })
})

describe('for all store times', () => {
  const limits = fc
    .record({
      algorithm: fc.constantFrom('fixed-window' as const, 'sliding-window-counter' as const),
      windowMs: fc.integer({ min: 250, max: 86_400_000 }),
    })
    .map(({ algorithm, windowMs }) => limitOf(algorithm, windowMs))
  const doubt = fc.oneof(
    fc.double({ min: 0, max: 3 * TOLERANCE_US, noNaN: true }),
    fc.double({ min: 0, max: 10 * SECOND_US, noNaN: true }),
  )
  const moment = fc.record({
    limit: limits,
    windows: fc.integer({ min: 1, max: 10_000 }),
    /** Mostly near an edge. */
    sinceEdge: fc.oneof(
      fc.double({ min: -SECOND_US, max: SECOND_US, noNaN: true }),
      fc.double({ min: 0, max: 86_400 * SECOND_US, noNaN: true }),
    ),
    uncertaintyUs: doubt,
    toleranceUs: fc.integer({ min: 0, max: 2 * TOLERANCE_US }),
    /** The true error of the store's time, as a fraction of the uncertainty. */
    offBy: fc.double({ min: -1, max: 1, noNaN: true }),
  })
  const windowOf = (at: number, { windowUs }: Limit) => Math.floor(at / windowUs)

  test('a unit is in its window or the one before, by whole microseconds', () => {
    fc.assert(
      fc.property(moment, ({ limit, windows, sinceEdge, uncertaintyUs, toleranceUs }) => {
        const time = Math.max(0, windows * limit.windowUs + sinceEdge)
        const placed = placeInWindow(estimateOf(time, uncertaintyUs, toleranceUs), limit)
        expect(Number.isSafeInteger(placed)).toBe(true)
        expect(placed).toBeLessThanOrEqual(time)
        const back = windowOf(time, limit) - windowOf(placed, limit)
        expect([0, 1]).toContain(back)
        expect(back === 0 || time % limit.windowUs < Math.ceil(uncertaintyUs)).toBe(true)
        if (back === 0 || uncertaintyUs <= toleranceUs) expect(placed).toBe(Math.floor(time))
      }),
    )
  })

  test('beyond the tolerance no unit is in a window that the store has not begun', () => {
    fc.assert(
      fc.property(moment, ({ limit, windows, sinceEdge, uncertaintyUs, offBy }) => {
        const time = Math.floor(Math.max(limit.windowUs, windows * limit.windowUs + sinceEdge))
        const doubtUs = Math.min(uncertaintyUs, limit.windowUs)
        const placed = placeInWindow(estimateOf(time, doubtUs, 0), limit)
        const storeUs = Math.round(time + offBy * doubtUs)
        expect(windowOf(placed, limit)).toBeLessThanOrEqual(windowOf(storeUs, limit))
      }),
    )
  })
})
