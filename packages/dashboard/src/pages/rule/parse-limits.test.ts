import { expect, test } from 'vitest'
import { localTimeToIso, parseLimits, writeLimits } from './parse-limits.js'

test('limits are parsed one per line, the long form as JSON', () => {
  const text = ' 10/second \n\n- 5/minute\n{"max": 5, "window": "1h"}\n'
  const { limits, problem } = parseLimits(text)
  expect(problem).toBeUndefined()
  expect(limits).toEqual(['10/second', '5/minute', { max: 5, window: '1h' }])
  expect(parseLimits(writeLimits(limits)).limits).toEqual(limits)
})

test('empty, malformed and too many limits are reported', () => {
  expect(parseLimits(' \n').problem).toMatch(/one limit per line/)
  expect(parseLimits('{max: 5}').problem).toMatch(/^limit 1: use JSON/)
  expect(parseLimits('1/day\n'.repeat(17)).problem).toMatch(/found 17/)
})

test('a local time is converted to ISO 8601, and an invalid one to undefined', () => {
  expect(localTimeToIso('')).toBeUndefined()
  expect(localTimeToIso('soon')).toBeUndefined()
  expect(localTimeToIso('2027-01-01T00:00')).toMatch(/^202[67]-\d\d-\d\dT\d\d:\d\d:00\.000Z$/)
})
