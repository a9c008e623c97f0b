import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  durationText,
  formatDuration,
  parseDuration,
  WINDOW_MS_MAX,
  WINDOW_MS_MIN,
} from './duration.js'

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
])('%j is not a duration', (text) => {
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

test('a formatted duration parses back', () => {
  const readsBack = fc.property(fc.nat({ max: WINDOW_MS_MAX }), (ms) => {
    expect(parseDuration(formatDuration(ms))).toBe(ms)
  })
  fc.assert(readsBack, { numRuns: 1000 })
})

test.each([
  [0, 'nearest', '0 ms'],
  [0.04, 'nearest', '0 ms'],
  [-0.04, 'nearest', '0 ms'],
  [0.44, 'nearest', '0.4 ms'],
  [-19.96, 'nearest', '-20 ms'],
  [250.4, 'nearest', '250 ms'],
  [999.6, 'nearest', '1 s'],
  [-3_599_999.6, 'nearest', '-1 h'],
  [3_599_999.6, 'down', '59 min'],
  [3_599_999.6, 'up', '1 h'],
  [999.6, 'down', '999 ms'],
  [119_999, 'down', '119.9 s'],
  [120_000, 'down', '2 min'],
  [5_400_000, 'nearest', '1.5 h'],
  [172_800_000, 'down', '2 d'],
  [86_400_000 * 366, 'up', '366 d'],
  [Infinity, 'up', 'forever'],
  [Number.NaN, 'up', 'not known'],
] as const)('%d ms, rounded %s, reads %s', (ms, rounding, text) => {
  expect(durationText(ms, rounding)).toBe(text)
})

test('a duration rounded down is never above its value, and one rounded up never below', () => {
  const units = { ms: 1, s: 1000, min: 60_000, h: 3_600_000, d: 86_400_000 }
  const msOf = (text: string) => {
    const [value, unit] = text.split(' ')
    return Number(value) * (units[unit as keyof typeof units] ?? Number.NaN)
  }
  fc.assert(
    fc.property(fc.double({ min: 0, max: 4e10, noNaN: true }), (ms) => {
      // A product of tenths may be off by its last bit.
      expect(msOf(durationText(ms, 'down'))).toBeLessThanOrEqual(ms * (1 + 1e-12))
      expect(msOf(durationText(ms, 'up'))).toBeGreaterThanOrEqual(ms * (1 - 1e-12))
    }),
  )
})
