import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { StoreClock } from './store-clock.js'

const STORE_AHEAD_US = 1_760_000_000_000_000

describe('the clock of a store', () => {
  test('stays unknown before the store has sent its time', () => {
    expect(new StoreClock(() => 0).isKnown).toBe(false)
  })

  test('lies between the bounds that sending and receiving give', () => {
    const clock = new StoreClock(() => 10)
    clock.learn(1, 5, STORE_AHEAD_US + 3000)
    expect(clock.earliest(10)).toBe(STORE_AHEAD_US + 8000)
    expect(clock.latest()).toBe(STORE_AHEAD_US + 12_000)
    expect(clock.now()).toBe(STORE_AHEAD_US + 10_000)
  })

  test('has a true time between `earliest` and `latest`', () => {
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

  test.each([3_600_000_000, -3_600_000_000])('follows a step of %d us at once', (stepUs) => {
    const clock = new StoreClock(() => 3)
    clock.learn(0, 1, STORE_AHEAD_US + 500)
    clock.learn(2, 3, STORE_AHEAD_US + stepUs + 2500)
    expect(Math.abs(clock.now() - (STORE_AHEAD_US + stepUs + 3000))).toBeLessThanOrEqual(500)
  })

  test('keeps narrow bounds after a slow reply with wide ones', () => {
    const clock = new StoreClock(() => 210)
    clock.learn(0, 1, STORE_AHEAD_US + 500)
    clock.learn(10, 210, STORE_AHEAD_US + 100_000)
    expect(clock.latest() - clock.earliest(210)).toBe(1000)
  })

  test('keeps a slow reply after a silence apart from earlier bounds', () => {
    const clock = new StoreClock(() => 60_100)
    clock.learn(0, 1, STORE_AHEAD_US + 500)
    // Within a minute the clocks have drifted apart by 20 ms.
    clock.learn(60_000, 60_100, STORE_AHEAD_US + 60_000_000 + 20_000)
    expect(clock.latest()).toBeGreaterThanOrEqual(STORE_AHEAD_US + 60_100_000 + 20_000)
  })
})

describe('the uncertainty of the time of a store', () => {
  test('is infinite before the store has sent its time', () => {
    expect(new StoreClock(() => 0).uncertaintyUs()).toBe(Infinity)
  })

  test('equals half of the bounds, plus half a millisecond for each second since', () => {
    let nowMs = 4
    const clock = new StoreClock(() => nowMs)
    clock.learn(0, 4, STORE_AHEAD_US + 2000)
    expect(clock.uncertaintyUs()).toBe(2000 + 2)
    nowMs = 1000
    expect(clock.uncertaintyUs()).toBe(2000 + 500)
    nowMs = 200_000
    expect(clock.uncertaintyUs()).toBe(2000 + 100_000)
    expect(clock.aheadOf(STORE_AHEAD_US).errorUs).toBe(clock.uncertaintyUs())
  })

  test('covers a clock that drifts by less than 500 ppm', () => {
    const trip = fc.record({
      pause: fc.oneof(fc.integer({ min: 0, max: 1500 }), fc.integer({ min: 0, max: 600_000 })),
      there: fc.integer({ min: 0, max: 300 }),
      back: fc.integer({ min: 0, max: 300 }),
      after: fc.integer({ min: 0, max: 5000 }),
      isForgotten: fc.boolean(),
    })
    const drift = fc.double({ min: -499e-6, max: 499e-6, noNaN: true })
    fc.assert(
      fc.property(fc.array(trip, { minLength: 1, maxLength: 30 }), drift, (trips, ppm) => {
        let nowMs = 0
        const clock = new StoreClock(() => nowMs)
        const trueUs = () => STORE_AHEAD_US + Math.round(nowMs * 1000 * (1 + ppm))
        const check = () => {
          expect(Math.abs(clock.now() - trueUs())).toBeLessThanOrEqual(clock.uncertaintyUs() + 1)
        }
        for (const { pause, there, back, after, isForgotten } of trips) {
          nowMs += pause
          const sentMs = nowMs
          nowMs += there
          const storeUs = trueUs()
          nowMs += back
          clock.learn(sentMs, nowMs, storeUs)
          check()
          if (isForgotten) clock.forget()
          nowMs += after
          check()
        }
      }),
    )
  })

  test('continues from the known clock if another server may answer', () => {
    let nowMs = 1
    const clock = new StoreClock(() => nowMs)
    expect(clock.wasEverKnown).toBe(false)
    clock.learn(0, 1, STORE_AHEAD_US + 500)
    clock.forget()
    expect([clock.isKnown, clock.wasEverKnown]).toEqual([false, true])
    nowMs = 2001
    expect(clock.now()).toBe(STORE_AHEAD_US + 2_001_000)
    expect(clock.uncertaintyUs()).toBe(Math.ceil(500 + 1000.5))
    expect(clock.latest()).toBe(Infinity)
  })
})
