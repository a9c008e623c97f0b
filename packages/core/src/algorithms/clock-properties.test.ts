/**
 * Properties under clocks that step back and limits that change while in use. `SLUICE_RUNS`
 * multiplies the number of traces. Every bound is in real time, which advances even when the
 * store's clock does not.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { algorithmOf, RATE_MODULE_NAMES, type RateModuleName } from './index.js'
import { defineLimit, findLimitProblem, type Limit } from '../limit.js'
import { applyAct, createStoredCounter } from './apply.test-helper.js'
import { expectAtMost } from './bounds.test-helper.js'
import { windowNumberOf } from './window-edges.js'
import { play, specs, type Trace, traces, withWindowOf } from './traces.test-helper.js'
import { propertyRuns } from '../../../../tools/property-runs.js'

function holds<Given>(runs: number, given: fc.Arbitrary<Given>, claim: (given: Given) => void) {
  fc.assert(fc.property(given, claim), { numRuns: propertyRuns(runs) })
}

interface Admission {
  /** In real time: when the call was admitted, and when its delay ended. */
  readonly at: number
  readonly leftAt: number
  /** The store time at which it was counted. */
  readonly countedAt: number
  readonly units: number
}

/** Plays a trace on a clock that `backUs` sets back before each call. */
function admissionsWith(trace: Trace, backUs: (index: number) => number): readonly Admission[] {
  const limit = defineLimit(trace.spec)
  const counter = createStoredCounter(limit)
  const admissions: Admission[] = []
  let index = 0
  // Starts far enough ahead that it never falls before 1970.
  let offset = 100 * limit.windowUs
  play(trace, {}, (act) => {
    offset -= backUs(index++)
    const now = act.now + offset
    const outcome = applyAct(counter, { ...act, now })
    const leftAt = act.now + outcome.delayMs * 1000
    const { granted: units, at: countedAt } = outcome
    if (units > 0) admissions.push({ at: act.now, leftAt, countedAt, units })
    return outcome
  })
  return admissions
}

const totalOf = (admissions: readonly Admission[]): bigint =>
  admissions.reduce((sum, one) => sum + BigInt(one.units), 0n)

/** The bound of an algorithm on a steady clock. */
function expectBound(admissions: readonly Admission[], limit: Limit): void {
  const { max, windowUs } = limit
  switch (algorithmOf(limit).lua) {
    case 'block':
    case 'concurrency':
      throw new Error('It has no units of time')
    case 'caller-window': {
      let [start, windows] = [-windowUs, 0]
      for (const { countedAt } of admissions) {
        if (countedAt < start + windowUs) continue
        start = countedAt
        windows += 1
      }
      expect(totalOf(admissions)).toBeLessThanOrEqual(BigInt(max) * BigInt(windows))
      return
    }
    case 'fixed-window':
    case 'calendar-window': {
      const windows = admissions.map((one) => windowNumberOf(limit, one.countedAt))
      expect(totalOf(admissions)).toBeLessThanOrEqual(BigInt(max) * BigInt(new Set(windows).size))
      return
    }
    case 'sliding-window-log':
      admissions.forEach((first, from) => {
        const near = admissions.slice(from).filter((one) => one.at - first.at < windowUs)
        expect(totalOf(near)).toBeLessThanOrEqual(max)
      })
      return
    case 'leaky-bucket':
      admissions.slice(1).forEach((next, index) => {
        const { leftAt, units } = admissions[index] ?? next
        // Delays are rounded up to a millisecond and slots down to a tick.
        const spaceUs = BigInt(next.leftAt - leftAt + 1000 + limit.tickUs)
        expect(BigInt(units) * BigInt(windowUs)).toBeLessThanOrEqual(spaceUs * BigInt(max))
      })
      return
    case 'token-bucket':
    case 'gcra':
    case 'sliding-window-counter':
      expectAtMost(admissions, limit.capacity, limit)
  }
}

/** The longest time a call may be refused on a steady clock, in microseconds. */
function longestWaitUs(limit: Limit, amount: number): number {
  const unitUs = limit.windowUs / limit.max
  switch (limit.algorithm) {
    case 'block':
    case 'concurrency':
      throw new Error('It has no units of time')
    case 'leaky-bucket':
      return Math.ceil(2 * (limit.capacity + 1) * unitUs) + limit.tickUs
    case 'sliding-window-counter':
      return 2 * limit.windowUs
    case 'fixed-window':
    case 'sliding-window-log':
      return limit.windowUs
    case 'token-bucket':
    case 'gcra':
      return Math.ceil(amount * unitUs) + limit.tickUs
  }
}

describe.each(RATE_MODULE_NAMES)('%s', (algorithm) => {
  test('a clock that steps back by less than a window adds nothing', () => {
    const steps = fc.record({ where: fc.nat({ max: 29 }), share: fc.nat({ max: 999 }) })
    holds(400, fc.tuple(traces(algorithm), steps), ([trace, { where, share }]) => {
      const limit = defineLimit(trace.spec)
      const backUs = Math.floor((limit.windowUs / 1000) * share)
      expectBound(
        admissionsWith(trace, (index) => (index === where ? backUs : 0)),
        limit,
      )
    })
  })

  test('a clock that steps back by more than a window adds at most one limit per step', () => {
    const steps = fc.array(fc.nat({ max: 2000 }), { minLength: 30, maxLength: 30 })
    holds(300, fc.tuple(traces(algorithm), steps), ([trace, shares]) => {
      const limit = defineLimit(trace.spec)
      const isBack = shares.map((share) => share % 5 === 0)
      const admissions = admissionsWith(trace, (index) =>
        isBack[index] ? Math.floor(limit.windowUs * (1 + (shares[index] ?? 0) / 1000)) + 1 : 0,
      )
      const count = isBack.slice(0, trace.moments.length).filter(Boolean).length
      const lengthUs = (admissions.at(-1)?.at ?? 0) - (admissions[0]?.at ?? 0) + limit.tickUs - 1
      const window = BigInt(limit.windowUs)
      // A queue admits its places plus the call that leaves at once; a window may begin now.
      const own = BigInt(limit.capacity) + (algorithm === 'leaky-bucket' ? 1n : 0n)
      const edges = algorithm === 'fixed-window' || algorithm === 'calendar-window' ? 1n : 0n
      const limits = own * (BigInt(count) + 1n + edges)
      const allowed = limits * window + BigInt(limit.max) * BigInt(lengthUs)
      expect(totalOf(admissions) * window).toBeLessThanOrEqual(allowed)
    })
  })

  test('a step back lengthens the wait of a caller by at most one window', () => {
    const steps = fc.record({ share: fc.nat({ max: 5000 }), spent: fc.nat({ max: 1000 }) })
    holds(400, fc.tuple(specs(algorithm), steps), ([spec, { share, spent }]) => {
      const limit = defineLimit(spec)
      const counter = createStoredCounter(limit)
      const then = 20 * limit.windowUs + spent
      counter.charge(limit.capacity + 1, then - spent, then - spent, 0)
      counter.charge(limit.capacity + 1, then, then, 0)
      const backUs = Math.floor((limit.windowUs / 1000) * share)
      const { retryAfterMs } = counter.take(1, then - backUs)
      const longest = longestWaitUs(limit, 1)
      const isOfAnotherClock = algorithm !== 'leaky-bucket' && backUs > 2 * limit.windowUs
      const extra = isOfAnotherClock ? 0 : limit.windowUs
      expect(((retryAfterMs ?? 0) - 1) * 1000).toBeLessThanOrEqual(longest + extra)
    })
  })
})

/** A limit, and the same limit with another max, burst or queue. */
function changes(algorithm: RateModuleName) {
  return fc
    .tuple(traces(algorithm), specs(algorithm))
    .map(([trace, other]) => {
      const changed = withWindowOf(defineLimit(trace.spec), other)
      const isLeaky = algorithm === 'leaky-bucket'
      return { trace, changed: isLeaky ? { ...trace.spec, queue: other.queue } : changed }
    })
    .filter(({ changed }) => findLimitProblem(changed) === undefined)
}

describe.each(RATE_MODULE_NAMES)('%s', (algorithm) => {
  test('a changed limit keeps what was used', () => {
    holds(300, changes(algorithm), ({ trace, changed }) => {
      const [before, after] = [defineLimit(trace.spec), defineLimit(changed)]
      const counter = createStoredCounter(before)
      let now = trace.start
      play(trace, {}, (act) => {
        now = act.now
        return applyAct(counter, act)
      })
      // Updates the stored state to now, as a call that takes units would.
      counter.give(0, now)
      const used = before.capacity - counter.peek(0, now).remaining
      counter.change(after)
      const { remaining } = counter.peek(0, now)
      expect(remaining).toBeLessThanOrEqual(
        Math.max(0, after.capacity - used) + sliver(before, after),
      )
    })
  })
})

/**
 * The loss allowed when the limit changes: a fraction of a unit that another rate cannot represent,
 * and a fraction of a millisecond of it.
 */
function sliver(before: Limit, after: Limit): number {
  if (before.algorithm === 'sliding-window-counter') return 1 + Math.ceil(before.max / 2 ** 20)
  if (before.algorithm === 'fixed-window' || before.algorithm === 'sliding-window-log') return 0
  const withinTick = Math.ceil(((before.tickUs - 1) * after.max) / after.windowUs)
  return withinTick + (after.q === 1 ? 1 : 0)
}

test.each(['token-bucket', 'gcra'] as const)(
  '%s: a lowered limit locks no caller out for longer than its own burst takes to refill',
  (algorithm) => {
    holds(300, changes(algorithm), ({ trace, changed }) => {
      const limit = defineLimit(changed)
      const counter = createStoredCounter(defineLimit(trace.spec))
      counter.charge(Number.MAX_SAFE_INTEGER, trace.start, trace.start, 0)
      counter.change(limit)
      const { retryAfterMs } = counter.take(limit.capacity, trace.start)
      const refillUs = Math.ceil((limit.capacity * limit.windowUs) / limit.max) + limit.tickUs
      expect(((retryAfterMs ?? 0) - 1) * 1000).toBeLessThanOrEqual(refillUs)
    })
  },
)
