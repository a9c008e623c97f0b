import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { HistogramSeries } from '../metrics/histogram.js'
import { HistogramRing, mergeLatency, quantile } from './latency.js'

const BOUNDS = [0.001, 0.002, 0.004]

describe('a quantile', () => {
  test('is interpolated linearly between its bounds', () => {
    expect(quantile(BOUNDS, [0, 100, 0, 0], 0.5)).toBeCloseTo(0.0015)
    expect(quantile(BOUNDS, [50, 0, 50, 0], 0.75)).toBeCloseTo(0.003)
    expect(quantile(BOUNDS, [100, 0, 0, 0], 0.99)).toBeCloseTo(0.00099)
  })

  test('is null without counts', () => {
    expect(quantile(BOUNDS, [0, 0, 0, 0], 0.5)).toBeNull()
    expect(quantile([], [], 0.5)).toBeNull()
    expect(quantile([], [7], 0.5)).toBeNull()
  })

  test('above the last bound is that bound', () => {
    expect(quantile(BOUNDS, [1, 0, 0, 99], 0.5)).toBe(0.004)
  })

  test('does not lie in an empty bucket', () => {
    expect(quantile(BOUNDS, [0, 0, 10, 0], 0)).toBe(0.002)
    expect(quantile(BOUNDS, [10, 0, 10, 0], 0.5)).toBe(0.001)
    expect(quantile(BOUNDS, [0, 0, 10, 0], 1)).toBe(0.004)
  })

  test('never falls as the share rises, and lies within the bounds', () => {
    const counts = fc.array(fc.nat(1000), { minLength: 4, maxLength: 4 })
    fc.assert(
      fc.property(counts, fc.double({ min: 0, max: 1, noNaN: true }), (places, q) => {
        const low = quantile(BOUNDS, places, q * 0.9)
        const high = quantile(BOUNDS, places, q)
        if (low === null || high === null) return
        expect(low).toBeLessThanOrEqual(high)
        expect(high).toBeLessThanOrEqual(0.004)
        expect(low).toBeGreaterThanOrEqual(0)
      }),
    )
  })
})

describe('a ring of a histogram', () => {
  test('has what each bucket added, without empty places', () => {
    const histogram = new HistogramSeries(BOUNDS)
    histogram.observe(0.003, 5)
    const ring = new HistogramRing(histogram, 3, 10)
    histogram.observe(0.0005)
    histogram.observe(9, 64)
    ring.feed(10)
    histogram.observe(0.0015)
    ring.feed(12)
    expect(ring.latency(0, 13)).toEqual({ bounds: BOUNDS, steps: [[0, 1, 3, 64], [], [1, 1]] })
    expect(ring.latency(11, 12).steps).toEqual([[]])
    expect([ring.sum(1, 12), ring.sum(3, 12), ring.sum(3, 14)]).toEqual([1, 64, 0])
  })

  test('forgets future buckets after the clock was set back', () => {
    const histogram = new HistogramSeries(BOUNDS)
    const ring = new HistogramRing(histogram, 3, 10)
    histogram.observe(0.0005)
    ring.feed(12)
    ring.rewind(10)
    histogram.observe(0.0015)
    ring.feed(11)
    expect(ring.latency(10, 14).steps).toEqual([[1, 1], [], []])
  })
})

describe('histograms of several nodes', () => {
  const latency = (...steps: readonly (readonly number[])[]) => ({ bounds: BOUNDS, steps })

  test('are summed bucket by bucket', () => {
    const { steps } = mergeLatency(
      [
        { latency: latency([0, 1], [], [1, 2]), end: 10 },
        { latency: latency([0, 5, 3, 1]), end: 9 },
        { latency: { bounds: [], steps: [] }, end: 10 },
      ],
      { end: 10, length: 3 },
    )
    expect(steps.map((counts) => counts && [...counts])).toEqual([
      [1, 0, 0, 0],
      [5, 0, 0, 1],
      [0, 2, 0, 0],
    ])
  })

  test('with other bounds are left out, and so are invalid places', () => {
    const { bounds, steps } = mergeLatency(
      [
        { latency: latency([7, 1, 0, 2]), end: 1 },
        { latency: { bounds: [1, 2], steps: [[0, 9]] }, end: 1 },
      ],
      { end: 1, length: 2 },
    )
    expect(bounds).toEqual(BOUNDS)
    expect(steps.map((counts) => counts && [...counts])).toEqual([undefined, [2, 0, 0, 0]])
  })
})
