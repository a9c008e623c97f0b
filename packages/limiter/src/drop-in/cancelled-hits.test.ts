import { describe, expect, test } from 'vitest'
import { CANCELLED_COUNTERS_MAX, CancelledHits } from './cancelled-hits.js'

const KEY = keyOf(-1)
const MINUTE = 60e6

describe('CancelledHits', () => {
  test('subtracts cancelled hits from charges until none are left', () => {
    const cancelled = new CancelledHits()
    cancelled.add(KEY, 3, 0, MINUTE)
    expect([2, 2, 2].map((amount) => cancelled.settle(KEY, amount, 1))).toEqual([0, 1, 2])
  })

  test('forgets hits of a window that has ended', () => {
    const cancelled = new CancelledHits()
    cancelled.add(KEY, 3, 0, MINUTE)
    expect(cancelled.settle(KEY, 1, MINUTE)).toBe(1)
    cancelled.add(KEY, 3, 0, MINUTE)
    cancelled.add(KEY, 1, MINUTE, 2 * MINUTE)
    expect(cancelled.settle(KEY, 4, MINUTE)).toBe(3)
  })

  test('makes room for new hits by those whose windows have ended', () => {
    const cancelled = new CancelledHits()
    for (let i = 0; i < CANCELLED_COUNTERS_MAX; i++) {
      cancelled.add(keyOf(i), 1, 0, i === 7 ? 3 * MINUTE : MINUTE)
    }
    cancelled.add(KEY, 1, MINUTE, 2 * MINUTE)
    expect(cancelled.settle(KEY, 1, MINUTE)).toBe(0)
    expect(cancelled.settle(keyOf(7), 1, MINUTE)).toBe(0)
  })

  test('takes no more counters while all windows are open', () => {
    const cancelled = new CancelledHits()
    for (let i = 0; i < CANCELLED_COUNTERS_MAX; i++) {
      cancelled.add(keyOf(i), 1, 0, MINUTE)
    }
    cancelled.add(KEY, 1, 1, MINUTE)
    expect(cancelled.settle(KEY, 1, 1)).toBe(1)
    expect(cancelled.settle(keyOf(0), 1, 1)).toBe(0)
  })
})

function keyOf(hi: number) {
  return { hi, lo: 0, partition: 0 }
}
