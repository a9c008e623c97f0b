import fc from 'fast-check'
import { expect, test } from 'vitest'
import { formatDuration, parseDuration, WINDOW_MS_MAX, WINDOW_MS_MIN } from './duration.js'

test.each([
  ['250ms', 250],
  ['1s', 1000],
  ['90s', 90_000],
  ['1m', 60_000],
  ['36h', 129_600_000],
  ['30d', 2_592_000_000],
  ['366d', 31_622_400_000],
  ['0ms', 0],
  ['999999999999999ms', 999_999_999_999_999],
])('%s is a duration', (text, ms) => {
  expect(parseDuration(text)).toBe(ms)
})

test.each([
  '',
  '1',
  's',
  '1 s',
  ' 1s',
  '1s ',
  '1s\n',
  '01s',
  '+1s',
  '-1s',
  '1.5s',
  '1e3ms',
  '0x10s',
  '1S',
  '1w',
  '1y',
  '1h30m',
  '١s',
  '9007199254740992ms',
  '999999999999999d',
])('%j is none', (text) => {
  expect(parseDuration(text)).toBeUndefined()
})

test.each([
  [0, '0ms'],
  [1, '1ms'],
  [999, '999ms'],
  [1000, '1s'],
  [1001, '1001ms'],
  [90_000, '90s'],
  [3_600_000, '1h'],
  [86_400_000, '1d'],
  [WINDOW_MS_MIN, '250ms'],
  [WINDOW_MS_MAX, '366d'],
])('%d ms is written %s', (ms, text) => {
  expect(formatDuration(ms)).toBe(text)
})

test('what is written is read back', () => {
  const readsBack = fc.property(fc.nat({ max: WINDOW_MS_MAX }), (ms) => {
    expect(parseDuration(formatDuration(ms))).toBe(ms)
  })
  fc.assert(readsBack, { numRuns: 1000 })
})
