import { describe, expect, test } from 'vitest'
import { TimedShadow } from './timed-shadow.js'

const MINUTE = 60_000
const NOON = Date.parse('2026-06-01T12:00:00Z')
const QUARTER = { until: '2026-06-01T12:15:00.000Z', forMs: 15 * MINUTE }

/** Clocks that a test sets: a monotonic clock and the wall clock. */
function world(wallMs = NOON) {
  const clocks = { steady: 1000, wall: wallMs }
  const shadow = new TimedShadow({ nowMs: () => clocks.steady, wallMs: () => clocks.wall })
  const pass = (ms: number) => {
    clocks.steady += ms
    clocks.wall += ms
  }
  return { shadow, clocks, pass }
}

describe('a timed shadow', () => {
  test('a shadow of all rules covers each rule until its end, and none after', () => {
    const { shadow, pass } = world()
    shadow.update({ all: QUARTER }, true)
    expect(shadow.until()).toBe(QUARTER.until)
    expect(shadow.until('login')).toBe(QUARTER.until)
    expect(shadow.msLeft()).toBe(15 * MINUTE)
    pass(15 * MINUTE - 1)
    expect(shadow.until('login')).toBe(QUARTER.until)
    pass(1)
    expect(shadow.until('login')).toBeUndefined()
    expect(shadow.msLeft()).toBeUndefined()
  })

  test('a shadow of one rule covers no other, and of two ends the later one counts', () => {
    const { shadow, pass } = world()
    const hour = { until: '2026-06-01T13:00:00.000Z', forMs: 60 * MINUTE }
    shadow.update({ all: QUARTER, rules: { login: hour } }, true)
    expect(shadow.until('login')).toBe(hour.until)
    expect(shadow.until('other')).toBe(QUARTER.until)
    pass(20 * MINUTE)
    expect(shadow.until()).toBeUndefined()
    expect(shadow.until('other')).toBeUndefined()
    expect(shadow.until('login')).toBe(hour.until)
    expect(shadow.ruleCount).toBe(1)
  })

  test('a shadow is over when it is removed from the store', () => {
    const { shadow } = world()
    shadow.update({ all: QUARTER }, true)
    shadow.update(undefined, true)
    expect(shadow.until()).toBeUndefined()
  })

  test('a shadow that is read again continues, whatever the wall clock was set to', () => {
    const { shadow, clocks, pass } = world()
    shadow.update({ all: QUARTER }, true)
    pass(5 * MINUTE)
    clocks.wall += 24 * 60 * MINUTE
    shadow.update({ all: { ...QUARTER } }, false)
    expect(shadow.msLeft()).toBe(10 * MINUTE)
  })

  test.each([
    ['an hour ahead', 60 * MINUTE, 15 * MINUTE - 15_000],
    ['an hour behind', -60 * MINUTE, 15 * MINUTE],
    ['right', 0, 15 * MINUTE],
    ['ten seconds ahead', 10_000, 15 * MINUTE - 10_000],
  ])(
    'a shadow on a following node whose clock is %s lasts for the requested duration',
    (_clock, offMs, leftMs) => {
      const { shadow } = world(NOON + offMs)
      shadow.update({ all: QUARTER }, true)
      expect(shadow.msLeft()).toBe(leftMs)
    },
  )

  test.each([
    ['right', 5 * MINUTE, 10 * MINUTE],
    ['an hour ahead', 65 * MINUTE, undefined],
    ['a day behind', -24 * 60 * MINUTE, 15 * MINUTE],
  ])(
    'a shadow on a node that starts 5 minutes later and whose clock is %s follows that clock, and is never longer than requested',
    (_clock, wallMs, leftMs) => {
      const { shadow } = world(NOON + wallMs)
      shadow.update({ all: QUARTER }, false)
      expect(shadow.msLeft()).toBe(leftMs)
    },
  )

  test.each([
    [null],
    ['all'],
    [[]],
    [{ all: 'now' }],
    [{ all: { until: 'soon', forMs: MINUTE } }],
    [{ all: { until: QUARTER.until } }],
    [{ all: { until: QUARTER.until, forMs: '15m' } }],
    [{ all: { until: '9999-01-01T00:00:00Z', forMs: 1e15 } }],
    [{ rules: { login: null } }],
  ])('a shadow written by hand as %j leaves the rules enforced', (stored) => {
    const { shadow } = world()
    shadow.update(stored, true)
    expect(shadow.until('login')).toBeUndefined()
  })
})
