import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import * as format from './format.js'

describe('numbers', () => {
  test.each([
    [0, '0'],
    [9999, '9,999'],
    [10_000, '10k'],
    [12_345, '12.3k'],
    [999_499, '999k'],
    [999_500, '1M'],
    [1_234_567, '1.23M'],
    [5e9, '5G'],
    [Number.NaN, '–'],
  ])('compact formats %d as %s', (value, expected) => {
    expect(format.compact(value)).toBe(expected)
  })

  test.each([
    [0, '0'],
    [0.04, '<0.1'],
    [0.4, '0.4'],
    [12.34, '12.3'],
    [99.96, '100'],
    [1234, '1,234'],
    [56_789, '56.8k'],
  ])('rate formats %d as %s', (value, expected) => {
    expect(format.rate(value)).toBe(expected)
  })

  test.each([
    [0, '0 %'],
    [0.0001, '<0.1 %'],
    [0.042, '4.2 %'],
    [0.5, '50 %'],
    [0.9999, '>99 %'],
    [1, '100 %'],
  ])('percent formats %d as %s, and never rounds to none or all', (value, expected) => {
    expect(format.percent(value)).toBe(expected)
  })

  test.each([
    [null, '–'],
    [0, '0 ms'],
    [0.04, '40 µs'],
    [1.25, '1.3 ms'],
    [27, '27 ms'],
    [31.2, '31.2 ms'],
    [1500, '1.5 s'],
  ])('millis formats %s as %s', (value, expected) => {
    expect(format.millis(value)).toBe(expected)
  })

  test.each([
    [null, '–'],
    [512, '512 B'],
    [1234, '1.2 kB'],
    [412e6, '410 MB'],
  ])('bytes formats %s as %s', (value, expected) => {
    expect(format.bytes(value)).toBe(expected)
  })
})

describe('times', () => {
  test.each([
    [-5, '0 s'],
    [59_999, '59 s'],
    [60_000, '1 min'],
    [3_600_000, '1 h'],
    [7_500_000, '2 h 5 min'],
    [90_000_000, '1 d 1 h'],
  ])('duration formats %d ms as %s', (ms, expected) => {
    expect(format.duration(ms)).toBe(expected)
  })

  test('a time in the future is shown as just now', () => {
    expect(format.ago('2026-03-01T12:00:05Z', Date.parse('2026-03-01T12:00:00Z'))).toBe('just now')
    expect(format.ago('2026-03-01T11:57:00Z', Date.parse('2026-03-01T12:00:00Z'))).toBe('3 min ago')
  })

  test('an invalid time is shown as a dash and does not throw', () => {
    expect(format.ago('yesterday', 0)).toBe('–')
    expect(format.dateTime('never')).toBe('–')
    expect(format.clockTime(1e18)).toBe('–')
  })
})

describe('series', () => {
  const series = {
    stepMs: 2000,
    endMs: 10_000,
    allowed: [100, 0, 10, 30],
    refused: [0, 0, 10, 10],
    shadowRefused: [0, 0, 0, 0],
    degraded: [0, 0, 0, 0],
  }

  test('perSecond averages the last steps', () => {
    expect(format.perSecond(series, 'allowed', 4)).toBe(10)
    expect(format.perSecond(series, 'allowed', 600)).toBe(17.5)
    expect(format.perSecond({ ...series, allowed: [] }, 'allowed', 4)).toBe(0)
  })

  test('the refused share without requests is 0', () => {
    expect(format.refusedShare(series)).toBe(20 / 160)
    expect(format.refusedShare({ ...series, allowed: [], refused: [] })).toBe(0)
  })

  test('requests that a shadow rule would refuse are requests too', () => {
    const shadow = { ...series, shadowRefused: [0, 0, 0, 40] }
    expect(format.decisionsPerStep(shadow)).toEqual([100, 0, 20, 80])
    expect(format.decisionRate(shadow, 4)).toBe(25)
    expect(format.refusedShare(shadow)).toBe(20 / 200)
  })
})

describe('untrusted text', () => {
  test('harmless text is unchanged', () => {
    expect(format.visibleText('user-4711 <b>"é"</b> 日本')).toBe('user-4711 <b>"é"</b> 日本')
  })

  test('invisible and bidirectional control characters are shown by code point', () => {
    expect(format.visibleText('a\u0000b\u202ec\u200bd')).toBe('a<U+0000>b<U+202E>c<U+200B>d')
  })

  test('spaces at either end are shown, as they make another caller', () => {
    expect(format.visibleText('  two words ')).toBe('<U+0020><U+0020>two words<U+0020>')
    expect(format.visibleText('two words', 4)).toBe('two …')
  })

  test('long text is truncated, and never inside a surrogate pair', () => {
    expect(format.visibleText('x'.repeat(1_000_000))).toBe(`${'x'.repeat(120)}…`)
    expect(format.visibleText('ab😀', 3)).toBe('ab…')
  })

  test('any text is bounded and has no invisible characters', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 120 }), (text) => {
        const visible = format.visibleText(text, 50)
        expect(visible.length).toBeLessThanOrEqual(50 * '<U+E0001>'.length + 1)
        expect(/[\p{Cc}\p{Cf}]/u.test(visible)).toBe(false)
      }),
    )
  })
})
