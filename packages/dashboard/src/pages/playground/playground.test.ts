import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ALGORITHMS, CALLS_MAX, callsOf, limitsOf, PRESETS, rateMax, SPANS } from './calls.js'
import { algorithmResult, peakWithin } from './algorithm-result.js'

const SPAN = { seconds: 20, columns: 20 }
const LIMIT = { max: 20, windowSeconds: 5, burst: 10 }

describe('callsOf', () => {
  test('calls are spread evenly over their column', () => {
    expect(callsOf([0, 4], SPAN).map(({ atMs }) => atMs)).toEqual([1125, 1375, 1625, 1875])
  })

  test('half a call per second is one call every two seconds', () => {
    expect(callsOf(Array(20).fill(0.5), SPAN)).toHaveLength(10)
  })

  test('calls are ordered, within the span and bounded', () => {
    const rates = fc.array(fc.double({ min: 0, max: 1000, noNaN: true }), { maxLength: 30 })
    fc.assert(
      fc.property(rates, fc.constantFrom(...SPANS), (given, span) => {
        const times = callsOf(given.slice(0, span.columns), span).map(({ atMs }) => atMs)
        expect(times).toEqual(times.toSorted((a, b) => a - b))
        expect(times.length).toBeLessThanOrEqual(CALLS_MAX)
        expect(times.every((at) => at >= 0 && at <= span.seconds * 1000)).toBe(true)
      }),
    )
  })

  test('the highest rate in every column stays below the bound', () => {
    for (const span of SPANS) {
      const all = callsOf(Array(span.columns).fill(rateMax(span)), span)
      expect(all).toHaveLength(rateMax(span) * span.seconds)
    }
  })
})

describe('presets', () => {
  test.each(PRESETS)('the preset $label fits every span and limit', ({ rates }) => {
    for (const span of SPANS) {
      for (const max of [1, 20, 200]) {
        const made = rates(span, { ...LIMIT, max })
        expect(made).toHaveLength(span.columns)
        expect(made.every((rate) => rate >= 0 && rate <= rateMax(span))).toBe(true)
      }
    }
  })

  test('the preset for the window edge has a full limit on each side', () => {
    const edge = PRESETS.find(({ id }) => id === 'edge')
    const calls = callsOf(edge?.rates(SPAN, LIMIT) ?? [], SPAN)
    const before = calls.filter(({ atMs }) => atMs < 10_000)
    expect([before.length, calls.length - before.length]).toEqual([20, 20])
  })
})

test('one limit is converted for six algorithms', () => {
  const limits = limitsOf(LIMIT) as readonly { readonly algorithm: string }[]
  expect(limits.map(({ algorithm }) => algorithm)).toEqual([...ALGORITHMS])
  expect(limits[0]).toEqual({ algorithm: 'token-bucket', max: 20, window: '5000ms', burst: 10 })
  expect(limits[2]).toEqual({ algorithm: 'leaky-bucket', max: 20, window: '5000ms', queue: 10 })
})

describe('the result of an algorithm', () => {
  const yes = { allowed: true, delayMs: 0, remaining: 0, retryAfterMs: 0 }
  const no = { ...yes, allowed: false, retryAfterMs: 5 }
  const calls = [{ atMs: 100 }, { atMs: 200 }, { atMs: 1500 }, { atMs: 20_000 }]
  const limit = { ...LIMIT, max: 2 }
  const resultOf = (
    outcomes: readonly (typeof yes)[],
    algorithm: (typeof ALGORITHMS)[number] = 'gcra',
  ) => algorithmResult(algorithm, calls, outcomes, { span: SPAN, limit })

  test('each column counts its admitted, delayed and refused calls', () => {
    const { columns, admitted, delayed, refused } = resultOf([
      yes,
      { ...yes, delayMs: 30 },
      no,
      yes,
    ])
    expect(columns[0]).toEqual({ admitted: 1, delayed: 1, refused: 0 })
    expect(columns[1]).toEqual({ admitted: 0, delayed: 0, refused: 1 })
    expect(columns[19]).toEqual({ admitted: 1, delayed: 0, refused: 0 })
    expect([admitted, delayed, refused]).toEqual([2, 1, 1])
  })

  test('the summary describes the algorithm and its result', () => {
    expect(resultOf([yes, yes, yes, yes], 'fixed-window').summary).toBe(
      'Counts 2 in 5 s and resets at each window edge. Here 3 were admitted within 5 s, across a window edge: the limit is 2.',
    )
    expect(resultOf([yes, yes, no, yes], 'sliding-window-log').summary).toMatch(
      /Here at most 2 were admitted within 5 s\.$/,
    )
    expect(resultOf([yes, { ...yes, delayMs: 2500 }, no, yes], 'leaky-bucket').summary).toMatch(
      /Here 1 waited, up to 2\.5 s; 1 found the queue full\.$/,
    )
    expect(algorithmResult('gcra', [], [], { span: SPAN, limit }).summary).toBe('No requests.')
  })

  test('the peak is the largest number in any span of the window length', () => {
    expect(peakWithin([0, 1, 4, 5, 5.5], 5)).toBe(4)
    expect(peakWithin([0, 5], 5)).toBe(1)
    expect(peakWithin([], 5)).toBe(0)
  })
})
