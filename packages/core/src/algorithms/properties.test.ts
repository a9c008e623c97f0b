/**
 * What the design promises of every algorithm, on generated limits and calls. `SLUICE_RUNS`
 * multiplies the number of traces.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ALGORITHM_NAMES, defineLimit, type Limit } from '../limit.js'
import type { Outcome } from './algorithm.js'
import { applyAct, createStoredCounter, type StoredCounter } from './apply.test-helper.js'
import { algorithmOf } from './index.js'
import { createOracle } from './oracle.test-helper.js'
import { type Mishaps, play, type Trace, traces } from './traces.test-helper.js'

const TIMES = Number(process.env['SLUICE_RUNS'] ?? '1')

function holds<Given>(runs: number, given: fc.Arbitrary<Given>, claim: (given: Given) => void) {
  fc.assert(fc.property(given, claim), { numRuns: runs * TIMES })
}

const EVERYTHING = { stepsBack: true, changes: true, gives: true, charges: true } as const

/** Units that passed, by the time at which they did. */
interface Passed {
  readonly at: number
  readonly units: number
}

function passedIn(trace: Trace, may: Mishaps = {}): readonly Passed[] {
  const counter = createStoredCounter(defineLimit(trace.spec))
  const passed: Passed[] = []
  play(trace, may, (act) => {
    const outcome = applyAct(counter, act)
    if (outcome.granted > 0) passed.push({ at: act.now, units: outcome.granted })
    return outcome
  })
  return passed
}

/** The most that passed in any interval of at most `lengthUs`. */
function mostWithin(passed: readonly Passed[], lengthUs: number): bigint {
  return passed.reduce((most, first, from) => {
    const near = passed.slice(from).filter((one) => one.at - first.at <= lengthUs)
    const sum = near.reduce((units, one) => units + BigInt(one.units), 0n)
    return sum > most ? sum : most
  }, 0n)
}

/** Fails if in some interval t more passed than `atOnce + max * t / window`. */
function expectAtMost(passed: readonly Passed[], atOnce: number, limit: Limit): void {
  const [max, window] = [BigInt(limit.max), BigInt(limit.windowUs)]
  passed.forEach((first, from) => {
    let sum = 0n
    for (const last of passed.slice(from)) {
      sum += BigInt(last.units)
      const allowed = BigInt(atOnce) * window + max * BigInt(last.at - first.at)
      if (sum * window > allowed) throw new Error(`${sum} from ${first.at} to ${last.at}`)
    }
  })
}

describe('no more passes in any interval than the algorithm allows', () => {
  test.each(['token-bucket', 'gcra'] as const)('%s: burst + rate * t', (algorithm) => {
    holds(200, traces(algorithm), (trace) => {
      const limit = defineLimit(trace.spec)
      expectAtMost(passedIn(trace), limit.capacity, limit)
    })
  })

  test('token-bucket with wait: burst + rate * t, by the time at which calls may go on', () => {
    holds(200, traces('token-bucket', { lends: true }), (trace) => {
      const limit = defineLimit(trace.spec)
      const counter = createStoredCounter(limit)
      const passed: Passed[] = []
      play(trace, {}, (act) => {
        const outcome = applyAct(counter, act)
        const at = act.now + outcome.delayMs * 1000
        if (outcome.granted > 0) passed.push({ at, units: outcome.granted })
        return outcome
      })
      const inOrder = passed.toSorted((a, b) => a.at - b.at)
      // A delay is rounded up to a millisecond, so the last of an interval may go 1 ms late.
      const slack = Math.ceil((limit.max / limit.windowUs) * 1000)
      expectAtMost(inOrder, limit.capacity + slack, limit)
    })
  })

  test('leaky-bucket: one slot apart, whoever leaves the queue', () => {
    holds(400, traces('leaky-bucket', { slow: true }), (trace) => {
      const limit = defineLimit(trace.spec)
      expectSpaced(stayedIn(trace, limit), limit)
    })
  })

  test('fixed-window: max in a window, twice that around an edge', () => {
    holds(200, traces('fixed-window'), (trace) => {
      const { max, windowUs } = defineLimit(trace.spec)
      const passed = passedIn(trace)
      const byWindow = passed.map((one) => ({ ...one, at: Math.floor(one.at / windowUs) }))
      expect(mostWithin(byWindow, 0)).toBeLessThanOrEqual(max)
      expect(mostWithin(passed, windowUs)).toBeLessThanOrEqual(2n * BigInt(max))
    })
  })

  test('sliding-window-counter: max * (1 + t / window)', () => {
    holds(300, traces('sliding-window-counter'), (trace) => {
      const limit = defineLimit(trace.spec)
      expectAtMost(passedIn(trace), limit.max, limit)
    })
  })

  test('sliding-window-log: max in any window', () => {
    holds(200, traces('sliding-window-log'), (trace) => {
      const limit = defineLimit(trace.spec)
      expect(mostWithin(passedIn(trace), limit.windowUs - 1)).toBeLessThanOrEqual(limit.max)
    })
  })
})

/** The calls of a leaky bucket that did not leave it, by slot; fails if too many wait. */
function stayedIn(trace: Trace, limit: Limit): readonly Passed[] {
  const counter = createStoredCounter(limit)
  let stayed: Passed[] = []
  play(trace, { gives: true }, (act) => {
    const outcome = applyAct(counter, act)
    if (act.verb === 'give' && act.at !== undefined && act.at > act.now) {
      const left = stayed.findIndex((one) => one.at === act.at && one.units === act.amount)
      stayed = stayed.filter((_, index) => index !== left)
    }
    if (outcome.granted > 0) stayed.push({ at: outcome.at, units: outcome.granted })
    // An amount leaves at its first slot; its other units wait for theirs.
    const waiting = stayed.reduce((sum, one) => sum + unitsAhead(one, limit, act.now), 0)
    expect(waiting).toBeLessThanOrEqual(limit.capacity + givenWithoutSlot(act.verb))
    return outcome
  })
  return stayed.toSorted((a, b) => a.at - b.at)
}
