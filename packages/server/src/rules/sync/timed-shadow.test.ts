import { describe, expect, test } from 'vitest'
import { TimedShadow } from './timed-shadow.js'

const MINUTE = 60_000
const NOON = Date.parse('2026-06-01T12:00:00Z')
const QUARTER = { until: '2026-06-01T12:15:00.000Z', forMs: 15 * MINUTE }

/** Clocks that a test sets: one that never steps, and that of the wall. */
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
  test('of all rules covers each of them until its end, and nothing after', () => {
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

  test('of one rule covers no other, and the later end counts where there are two', () => {
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

  test('is over when the store holds it no more', () => {
    const { shadow } = world()
    shadow.update({ all: QUARTER }, true)
    shadow.update(undefined, true)
    expect(shadow.until()).toBeUndefined()
  })

  test('that is read again goes on, whatever the wall clock was set to meanwhile', () => {
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
    'on a node that follows the store and whose clock is %s lasts as long as it was asked for',
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
    'on a node that starts after 5 minutes and whose clock is %s goes by that clock, and lasts no longer than the whole',
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
  ])('that is written as %j by hand leaves the rules enforced', (stored) => {
    const { shadow } = world()
    shadow.update(stored, true)
    expect(shadow.until('login')).toBeUndefined()
  })
})
