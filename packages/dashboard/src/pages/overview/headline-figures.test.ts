import { describe, expect, test } from 'vitest'
import { latestValue, headlineFigures, storeHint } from './headline-figures.js'

const series = (allowed: readonly number[], refused: readonly number[]) => ({
  stepMs: 2000,
  endMs: 0,
  allowed,
  refused,
  shadowRefused: [],
  degraded: [],
})

test('the pulse is of the last ten seconds, with the refused among the decisions', () => {
  const pulse = headlineFigures(series([500, 8, 8, 8, 8, 8], [500, 2, 2, 2, 2, 2]))
  expect(pulse).toEqual({ decisions: 5, refusals: 1, share: 0.2 })
})

test('without calls nothing is refused', () => {
  expect(headlineFigures(series([0], [0]))).toEqual({ decisions: 0, refusals: 0, share: 0 })
})

test('a quiet step does not hide the last that is known', () => {
  expect(latestValue([1, 2, null, null], 2000)).toBe(2)
  expect(latestValue([null], 2000)).toBe(null)
})

test('what is older than ten seconds is not told as if it were now', () => {
  expect(latestValue([9.9, null, null, null, null], 2000)).toBe(9.9)
  expect(latestValue([9.9, null, null, null, null, null], 2000)).toBe(null)
})

describe('how long the store takes', () => {
  const hintOf = (name: string, isWell: boolean, p50Ms: readonly (number | null)[]): string =>
    storeHint({
      series: series([], []),
      storeLatency: { p50Ms, p99Ms: p50Ms },
      store: { name, isWell },
    })

  test('is not told of counters in the process', () => {
    expect(hintOf('memory', true, [])).toBe('the counters are in the process')
  })

  test('of a Redis that is not asked, or does not answer, is not that of the process', () => {
    expect(hintOf('redis 192.0.2.1:6379', true, [0.5])).toBe('99 of 100; half 500 µs')
    expect(hintOf('redis 192.0.2.1:6379', true, [])).toBe('not asked in ten seconds')
    expect(hintOf('redis 192.0.2.1:6379', false, [1, null, null, null, null, null])).toBe(
      'it does not answer',
    )
  })
})
