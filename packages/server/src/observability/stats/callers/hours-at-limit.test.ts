import fc from 'fast-check'
import { expect, test } from 'vitest'
import { PROTECTED_MAX, TABLE_SLOTS } from './caller-table.js'
import {
  ALLOWED,
  hashOf,
  HOUR,
  LAST_ONE,
  MINUTE,
  openTracker,
  REFUSED,
  START,
} from './caller-tracker.test-helper.js'
import { countHours, HIGHER_TIER_HOURS, HoursAtLimit, HOURS, shiftHours } from './hours-at-limit.js'

test('bit i says whether a caller reached its limit i hours ago', () => {
  const { see, jump, snapshotOf } = openTracker()
  see(1, REFUSED)
  jump(HOUR)
  see(1, ALLOWED)
  jump(HOUR)
  see(1, LAST_ONE)
  see(1, LAST_ONE)
  expect(snapshotOf(1)?.hours).toBe(0b101)
  jump(59 * MINUTE)
  expect(snapshotOf(1)?.hours).toBe(0b101)
  jump(MINUTE)
  expect(snapshotOf(1)?.hours).toBe(0b1010)
})

test('hours follow the wall clock', () => {
  const { see, jump, snapshotOf } = openTracker(START + 59 * MINUTE)
  see(1, REFUSED)
  jump(2 * MINUTE)
  see(1, REFUSED)
  expect(snapshotOf(1)?.hours).toBe(0b11)
})

test('after 24 hours an hour is forgotten, and a caller without any as well', () => {
  const { tracker, see, jump, snapshotOf } = openTracker()
  see(1, REFUSED)
  for (let hour = 1; hour < HOURS; hour++) jump(HOUR)
  expect(snapshotOf(1)?.hours).toBe(2 ** 23)
  jump(HOUR)
  expect(snapshotOf(1)).toBeUndefined()
  expect(tracker.held).toEqual({ top: 0, exhausted: 0, hours: 0 })
})

test('after days of suspension no caller is left', () => {
  const { tracker, see, jump } = openTracker()
  see(1, REFUSED)
  jump(40 * HOUR)
  expect(tracker.held.hours).toBe(0)
})

test('a caller at its limit in most of the last 24 hours is listed with its latest plan', () => {
  const { see, jump, snapshotOf } = openTracker()
  for (let hour = 0; hour < HIGHER_TIER_HOURS; hour++) {
    const plan = hour < 10 ? 'free' : 'basic'
    see(1, { ...REFUSED, attributes: { user: 'u1', plan } })
    jump(HOUR)
  }
  expect(snapshotOf(1)).toMatchObject({ plan: 'basic', caller: { user: 'u1' } })
  expect(countHours(snapshotOf(1)?.hours ?? 0)).toBe(HIGHER_TIER_HOURS)
})

test('a flood of newcomers evicts no caller with two hours or more', () => {
  const { see, jump, snapshotOf } = openTracker()
  for (let hour = 0; hour < 3; hour++) {
    for (let caller = 0; caller < 10; caller++) see(caller, REFUSED)
    jump(HOUR)
  }
  for (let caller = 0; caller < 60_000; caller++) see(1000 + caller, REFUSED)
  for (let caller = 0; caller < 10; caller++) expect(snapshotOf(caller)?.hours).toBe(0b1110)
})

test('a newcomer enters a table with all protected slots taken, and displaces callers with fewer hours', () => {
  const callers = new HoursAtLimit(START)
  const reach = (caller: number, nowMs: number) => {
    const { hi, lo } = hashOf(caller)
    callers.record(0, hi, lo, nowMs)
  }
  const hoursOf = (caller: number) => {
    const { hi, lo } = hashOf(caller)
    const slot = callers.table.find(0, hi, lo)
    return slot === -1 ? 0 : countHours(callers.hoursAt(slot))
  }
  for (let hour = 0; hour < 2; hour++) {
    callers.tick(START + hour * HOUR)
    for (let caller = 0; caller < PROTECTED_MAX; caller++) reach(caller, START + hour * HOUR)
  }
  expect(callers.table.hasProtectedRoom).toBe(false)
  for (let hour = 2; hour < 5; hour++) {
    callers.tick(START + hour * HOUR)
    reach(5000, START + hour * HOUR)
  }
  expect(hoursOf(5000)).toBe(3)
  for (let caller = 0; caller < 50_000; caller++) reach(10_000 + caller, START + 5 * HOUR)
  expect(hoursOf(5000)).toBe(3)
  expect(callers.size).toBe(TABLE_SLOTS)
})

test('a clock that is set back slightly shifts no hour twice', () => {
  const { see, jump, snapshotOf } = openTracker()
  see(1, REFUSED)
  jump(HOUR)
  jump(-5)
  jump(10)
  expect(snapshotOf(1)?.hours).toBe(0b10)
})

test('counted and shifted hours agree with a list of 24 booleans', () => {
  fc.assert(
    fc.property(fc.nat(2 ** HOURS - 1), fc.nat(40), (hours, by) => {
      const list = Array.from({ length: HOURS }, (_, i) => (hours >>> i) & 1)
      expect(countHours(hours)).toBe(list.filter((bit) => bit === 1).length)
      const later = [...Array.from({ length: by }, () => 0), ...list].slice(0, HOURS)
      const shifted = shiftHours(hours, by)
      expect(Array.from({ length: HOURS }, (_, i) => (shifted >>> i) & 1)).toEqual(later)
      expect(shifted).toBeLessThan(2 ** HOURS)
    }),
  )
})
