import { describe, expect, test } from 'vitest'
import { LeasedCounter } from './leased-counter.js'
import { LeasedCounters } from './leased-counters.js'
import { takeOf } from './leases.test-helper.js'
import { emptyStats } from '../coordination-stats.js'

const { compiled: of } = takeOf({ algorithm: 'fixed-window', max: 1000, window: '1h' })
const keyOf = (lo: number, hi = 1) => ({ hi, lo, partition: 0 })
const counterOf = (lo: number, hi = 1) => new LeasedCounter(keyOf(lo, hi), of, emptyStats(), 0)

/** Filled with counters 0 to n - 1, in generations of ten. */
function filled(n: number) {
  const meters = new LeasedCounters(10)
  for (let lo = 0; lo < n; lo++) meters.add(counterOf(lo), 0)
  return meters
}

describe('LeasedCounters', () => {
  test('leased counters form at most two generations, and the oldest are dropped first', () => {
    const meters = filled(1000)
    expect(meters.size).toBeLessThanOrEqual(20)
    expect(meters.find(keyOf(999))?.key.lo).toBe(999)
    expect(meters.find(keyOf(0))).toBeUndefined()
  })

  test('leased counters stay while they are used', () => {
    const meters = filled(10)
    for (let lo = 10; lo < 1000; lo++) {
      meters.add(counterOf(lo), 0)
      expect(meters.find(keyOf(3))).toBeDefined()
      expect(meters.size).toBeLessThanOrEqual(20)
    }
  })

  test('leased counters stay while something of them is held', () => {
    const meters = filled(10)
    const busy = meters.find(keyOf(4))
    if (busy !== undefined) busy.giving = 1
    for (let lo = 10; lo < 1000; lo++) meters.add(counterOf(lo), 0)
    expect(meters.find(keyOf(4))).toBe(busy)
  })

  test('the number of leased counters stays bounded if the whole older generation is used again', () => {
    const meters = filled(20)
    for (let lo = 0; lo < 20; lo++) meters.find(keyOf(lo))
    for (let lo = 20; lo < 40; lo++) meters.add(counterOf(lo), 0)
    expect(meters.size).toBeLessThanOrEqual(20)
  })

  test('old leased counters are dropped when others are added', () => {
    const meters = filled(1)
    meters.add(counterOf(1), 10_000)
    meters.add(counterOf(2), 20_000)
    expect(meters.find(keyOf(0))).toBeUndefined()
    expect(meters.find(keyOf(1))).toBeDefined()
  })

  test('leased counters are distinguished by the upper half of their keys, in either generation', () => {
    const meters = new LeasedCounters(10)
    for (const hi of [1, 2, 3]) meters.add(counterOf(7, hi), 0)
    for (const hi of [1, 2, 3, 4]) meters.add(counterOf(8, hi), 10_000)
    for (const lo of [7, 8]) {
      for (const hi of [2, 1, 3]) expect(meters.find(keyOf(lo, hi))?.key).toEqual(keyOf(lo, hi))
    }
    expect(meters.find(keyOf(7, 9))).toBeUndefined()
    expect(meters.size).toBe(7)
  })
})

describe('spentLately', () => {
  test('the recent usage of a counter covers one lease lifetime, the period before it by overlap', () => {
    const counter = counterOf(1)
    counter.recordSpent(10, 0)
    counter.recordSpent(6, 1999)
    expect(counter.spentLately(1999)).toBe(16)
    counter.recordSpent(2, 2000)
    expect(counter.spentLately(2000)).toBe(18)
    expect(counter.spentLately(3000)).toBe(2 + 8)
    expect(counter.spentLately(4000)).toBe(2)
    expect(counter.spentLately(9000)).toBe(0)
  })

  test('the recent usage of a counter excludes units that were put back, and is never negative', () => {
    const counter = counterOf(1)
    counter.recordSpent(3, 0)
    counter.unrecordSpent(2)
    expect(counter.spentLately(0)).toBe(1)
    counter.unrecordSpent(5)
    expect(counter.spentLately(0)).toBe(0)
  })
})
