import { expect, test } from 'vitest'
import { instantOf, readLimits, writeLimits } from './read-limits.js'

test('limits are one on each line, the long form as JSON', () => {
  const text = ' 10/second \n\n- 5/minute\n{"max": 5, "window": "1h"}\n'
  const { limits, problem } = readLimits(text)
  expect(problem).toBeUndefined()
  expect(limits).toEqual(['10/second', '5/minute', { max: 5, window: '1h' }])
  expect(readLimits(writeLimits(limits)).limits).toEqual(limits)
})

test('what is no limit is told', () => {
  expect(readLimits(' \n').problem).toMatch(/on each line/)
  expect(readLimits('{max: 5}').problem).toMatch(/^limit 1: the long form is JSON/)
  expect(readLimits('1/day\n'.repeat(17)).problem).toMatch(/found 17/)
})

test('a local time is an instant, and nothing is none', () => {
  expect(instantOf('')).toBeUndefined()
  expect(instantOf('soon')).toBeUndefined()
  expect(instantOf('2027-01-01T00:00')).toMatch(/^202[67]-\d\d-\d\dT\d\d:\d\d:00\.000Z$/)
})
