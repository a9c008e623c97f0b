import { expect, test } from 'vitest'
import { lastOf, pulseOf } from './pulse.js'

const series = (allowed: readonly number[], refused: readonly number[]) => ({
  stepMs: 2000,
  endMs: 0,
  allowed,
  refused,
  shadowRefused: [],
  degraded: [],
})

test('the pulse is of the last ten seconds, with the refused among the decisions', () => {
  const pulse = pulseOf(series([500, 8, 8, 8, 8, 8], [500, 2, 2, 2, 2, 2]))
  expect(pulse).toEqual({ decisions: 5, refusals: 1, share: 0.2 })
})

test('without calls nothing is refused', () => {
  expect(pulseOf(series([0], [0]))).toEqual({ decisions: 0, refusals: 0, share: 0 })
})

test('a quiet step does not hide the last that is known', () => {
  expect(lastOf([1, 2, null, null])).toBe(2)
  expect(lastOf([null])).toBe(null)
})
