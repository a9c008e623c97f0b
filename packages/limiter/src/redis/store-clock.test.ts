import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { StoreClock } from './store-clock.js'

const STORE_AHEAD_US = 1_760_000_000_000_000

describe('the clock of a store', () => {
  test('is not known before the store has told its time', () => {
    expect(new StoreClock(() => 0).isKnown).toBe(false)
  })

  test('lies between the bounds that sending and receiving give', () => {
    const clock = new StoreClock(() => 10)
    clock.learn(1, 5, STORE_AHEAD_US + 3000)
    expect(clock.earliest(10)).toBe(STORE_AHEAD_US + 8000)
    expect(clock.latest()).toBe(STORE_AHEAD_US + 12_000)
    expect(clock.now()).toBe(STORE_AHEAD_US + 10_000)
  })

  test('is never told too late by `earliest` nor too early by `latest`', () => {
    const trip = fc.record({
      pause: fc.integer({ min: 0, max: 400 }),
      there: fc.integer({ min: 0, max: 30 }),
      back: fc.integer({ min: 0, max: 30 }),
    })
    fc.assert(
      fc.property(fc.array(trip, { minLength: 1, maxLength: 40 }), (trips) => {
        let nowMs = 0
        const clock = new StoreClock(() => nowMs)
        for (const { pause, there, back } of trips) {
          nowMs += pause
          const sentMs = nowMs
          nowMs += there
          const storeUs = STORE_AHEAD_US + nowMs * 1000
          nowMs += back
          clock.learn(sentMs, nowMs, storeUs)
          const trueUs = STORE_AHEAD_US + nowMs * 1000
          expect(clock.earliest(nowMs)).toBeLessThanOrEqual(trueUs)
          expect(clock.latest()).toBeGreaterThanOrEqual(trueUs)
        }
      }),
    )
  })

  test.each([3_600_000_000, -3_600_000_000])('a step of %d us is believed at once', (stepUs) => {
    const clock = new StoreClock(() => 3)
    clock.learn(0, 1, STORE_AHEAD_US + 500)
    clock.learn(2, 3, STORE_AHEAD_US + stepUs + 2500)
    expect(Math.abs(clock.now() - (STORE_AHEAD_US + stepUs + 3000))).toBeLessThanOrEqual(500)
  })

  test('wide bounds of a slow reply do not replace narrow ones', () => {
    const clock = new StoreClock(() => 210)
    clock.learn(0, 1, STORE_AHEAD_US + 500)
    clock.learn(10, 210, STORE_AHEAD_US + 100_000)
    expect(clock.latest() - clock.earliest(210)).toBe(1000)
  })
})
