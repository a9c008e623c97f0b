/** Takes that gate, overdraw and give back, on generated limits and states. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { propertyRuns } from '../../../../tools/property-runs.js'
import { defineLimit, type Limit } from '../limit.js'
import { applyAct, createStoredCounter, type StoredCounter } from './apply.test-helper.js'
import { RATE_MODULE_NAMES } from './index.js'
import { play, traces } from './traces.test-helper.js'

const EVERYTHING = {
  stepsBack: true,
  changes: true,
  gives: true,
  charges: true,
  metered: true,
} as const

/** Algorithms that can owe. */
const OWING = RATE_MODULE_NAMES.filter((name) => name !== 'leaky-bucket')

/** Plays traces, and shows `inspect` every counter before each act. */
function eachState(
  algorithm: (typeof RATE_MODULE_NAMES)[number],
  runs: number,
  inspect: (counter: StoredCounter, limit: Limit, now: number, amount: number) => void,
): void {
  fc.assert(
    fc.property(traces(algorithm, { lends: true }), (trace) => {
      const counter = createStoredCounter(defineLimit(trace.spec))
      play(trace, EVERYTHING, (act, limit) => {
        counter.change(limit)
        inspect(counter, limit, act.now, Math.max(1, act.amount))
        return applyAct(counter, act)
      })
    }),
    { numRuns: propertyRuns(runs) },
  )
}

const GATE = { gate: true } as const
const OVERDRAW = { overdraw: true } as const

describe.each(RATE_MODULE_NAMES)('%s', (algorithm) => {
  test('a gate passes exactly if a call of one unit would pass without waiting in a bucket', () => {
    eachState(algorithm, 150, (counter, limit, now) => {
      const gated = counter.copy().take(0, now, undefined, GATE)
      expect(gated.granted).toBe(0)
      const one = counter.copy().take(1, now)
      const isLent = algorithm !== 'leaky-bucket' && one.delayMs > 0
      expect(gated.retryAfterMs === 0).toBe(one.granted === 1 && !isLent)
      if (limit.maxWaitUs === 0) expect(gated.retryAfterMs).toBe(one.retryAfterMs)
    })
  })

  test('a gate passes after its retryAfterMs, and not one millisecond earlier', () => {
    eachState(algorithm, 150, (counter, _limit, now) => {
      const after = counter.copy()
      const { retryAfterMs } = after.take(0, now, undefined, GATE)
      if (retryAfterMs === 0 || retryAfterMs === null) return
      const waitMs = (ms: number) =>
        after.copy().take(0, now + ms * 1000, undefined, GATE).retryAfterMs
      expect(waitMs(retryAfterMs)).toBe(0)
      expect(waitMs(retryAfterMs - 1)).not.toBe(0)
    })
  })

  test('a peek of a gate or an overdraw says when it passes, and changes nothing', () => {
    eachState(algorithm, 100, (counter, _limit, now, amount) => {
      for (const [units, metered] of [[0, GATE] as const, [amount, OVERDRAW] as const]) {
        const peeked = counter.peek(units, now, metered)
        const taken = counter.copy().take(units, now, undefined, metered)
        expect(peeked.granted).toBe(0)
        expect(peeked.retryAfterMs).toBe(taken.retryAfterMs)
      }
    })
  })
})

describe.each(OWING)('%s', (algorithm) => {
  test('an overdraw charges the amount, or all that is free and may be owed', () => {
    eachState(algorithm, 150, (counter, limit, now, amount) => {
      const after = counter.copy()
      const taken = after.take(amount, now, undefined, OVERDRAW)
      const whole = counter.copy().take(amount, now)
      if (whole.retryAfterMs === 0) {
        expect(taken).toEqual(whole)
        return
      }
      const { remaining } = counter.peek(0, now)
      expect(taken.granted).toBeLessThanOrEqual(Math.min(amount, remaining + limit.debt))
      expect(taken.remaining).toBe(Math.max(0, remaining - taken.granted))
      expect(taken.retryAfterMs).not.toBe(0)
      // A bucket that makes calls wait lends to those that wait.
      if (taken.granted === amount || limit.maxWaitUs > 0) return
      expect(after.take(1, now, undefined, OVERDRAW).granted).toBe(0)
    })
  })

  test('an overdraw fits after its retryAfterMs, and not one millisecond earlier', () => {
    eachState(algorithm, 150, (counter, limit, now, amount) => {
      const after = counter.copy()
      const { retryAfterMs } = after.take(amount, now, undefined, OVERDRAW)
      if (retryAfterMs === 0 || retryAfterMs === null) return
      const fitting = Math.min(amount, limit.capacity)
      const left = (ms: number) => after.peek(0, now + ms * 1000).remaining
      expect(left(retryAfterMs)).toBeGreaterThanOrEqual(fitting)
      expect(left(retryAfterMs - 1)).toBeLessThan(fitting)
    })
  })

  test('what an overdraw charged is all given back by an amount below 0', () => {
    eachState(algorithm, 150, (counter, limit, now, amount) => {
      if (limit.capacity === 0) return
      const after = counter.copy()
      const { granted, at } = after.take(amount, now, undefined, OVERDRAW)
      if (granted === 0) return
      const back = after.take(-granted, now, undefined, { at })
      expect(back.granted).toBe(-granted)
      expect(back.remaining).toBe(counter.peek(0, now).remaining)
    })
  })
})
