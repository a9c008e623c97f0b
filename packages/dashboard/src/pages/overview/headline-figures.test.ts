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

test('headline figures cover the last ten seconds, and decisions include refusals', () => {
  const figures = headlineFigures(series([500, 8, 8, 8, 8, 8], [500, 2, 2, 2, 2, 2]))
  expect(figures).toEqual({ decisions: 5, refusals: 1, share: 0.2 })
})

test('without calls the refused share is 0', () => {
  expect(headlineFigures(series([0], [0]))).toEqual({ decisions: 0, refusals: 0, share: 0 })
})

test('a step without a value keeps the previous latency', () => {
  expect(latestValue([1, 2, null, null], 2000)).toBe(2)
  expect(latestValue([null], 2000)).toBe(null)
})

test('a latency older than ten seconds is not shown', () => {
  expect(latestValue([9.9, null, null, null, null], 2000)).toBe(9.9)
  expect(latestValue([9.9, null, null, null, null, null], 2000)).toBe(null)
})

describe('the hint below the store latency', () => {
  const hintOf = (name: string, isWell: boolean, p50Ms: readonly (number | null)[]): string =>
    storeHint({
      series: series([], []),
      storeLatency: { p50Ms, p99Ms: p50Ms },
      store: { name, isWell },
    })

  test('counters in the process have no store latency', () => {
    expect(hintOf('memory', true, [])).toBe('counters are in the process')
  })

  test('a Redis without requests or without answers differs from counters in the process', () => {
    expect(hintOf('redis 192.0.2.1:6379', true, [0.5])).toBe('p50 500 µs')
    expect(hintOf('redis 192.0.2.1:6379', true, [])).toBe('no requests in 10 s')
    expect(hintOf('redis 192.0.2.1:6379', false, [1, null, null, null, null, null])).toBe(
      'not answering',
    )
  })
})
