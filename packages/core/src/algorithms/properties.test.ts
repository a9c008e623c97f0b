/**
 * The promises of every algorithm, tested on generated limits and calls. `SLUICE_RUNS` multiplies
 * the number of traces.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { defineLimit, type Limit } from '../limit.js'
import type { Outcome } from './algorithm.js'
import { type Act, applyAct, createStoredCounter, type StoredCounter } from './apply.test-helper.js'
import { expectAtMost } from './bounds.test-helper.js'
import { algorithmOf, RATE_MODULE_NAMES } from './index.js'
import { createOracle } from './oracle.test-helper.js'
import { windowNumberOf } from './window-edges.js'
import { searchCalendarWindow } from '../calendar.test-helper.js'
import { type Mishaps, play, specs, type Trace, traces } from './traces.test-helper.js'
import { propertyRuns } from '../../../../tools/property-runs.js'

function holds<Given>(runs: number, given: fc.Arbitrary<Given>, claim: (given: Given) => void) {
  fc.assert(fc.property(given, claim), { numRuns: propertyRuns(runs) })
}

const EVERYTHING = { stepsBack: true, changes: true, gives: true, charges: true } as const

/**
 * Fails if two outcomes differ. An expectation takes longer than what is tested, so it is made only
 * where it fails.
 */
function expectSame(found: Outcome, wanted: Outcome): void {
  const fields = Object.keys(wanted) as (keyof Outcome)[]
  if (fields.some((field) => !Object.is(found[field], wanted[field]))) expect(found).toEqual(wanted)
}

/** Units that passed, and when. */
interface Admission {
  readonly at: number
  readonly units: number
}

function admissionsIn(trace: Trace, may: Mishaps = {}): readonly Admission[] {
  const counter = createStoredCounter(defineLimit(trace.spec))
  const admissions: Admission[] = []
  play(trace, may, (act) => {
    const outcome = applyAct(counter, act)
    if (outcome.granted > 0) admissions.push({ at: act.now, units: outcome.granted })
    return outcome
  })
  return admissions
}

/** The most units that passed in any interval of at most `lengthUs`. */
function mostWithin(admissions: readonly Admission[], lengthUs: number): bigint {
  return admissions.reduce((most, first, from) => {
    const near = admissions.slice(from).filter((one) => one.at - first.at <= lengthUs)
    const sum = near.reduce((units, one) => units + BigInt(one.units), 0n)
    return sum > most ? sum : most
  }, 0n)
}

describe('every interval admits at most what the algorithm allows', () => {
  test.each(['token-bucket', 'gcra'] as const)('%s: burst + rate * t', (algorithm) => {
    holds(200, traces(algorithm), (trace) => {
      const limit = defineLimit(trace.spec)
      expectAtMost(admissionsIn(trace), limit.capacity, limit)
    })
  })

  test('token-bucket with wait: burst + rate * t, counted when the delay of a call ends', () => {
    holds(200, traces('token-bucket', { lends: true }), (trace) => {
      const limit = defineLimit(trace.spec)
      const counter = createStoredCounter(limit)
      const admissions: Admission[] = []
      play(trace, {}, (act) => {
        const outcome = applyAct(counter, act)
        const at = act.now + outcome.delayMs * 1000
        if (outcome.granted > 0) admissions.push({ at, units: outcome.granted })
        return outcome
      })
      const inOrder = admissions.toSorted((a, b) => a.at - b.at)
      // A delay is rounded up to a millisecond, so the last call of an interval may go 1 ms late.
      const slack = Math.ceil((limit.max / limit.windowUs) * 1000)
      expectAtMost(inOrder, limit.capacity + slack, limit)
    })
  })

  test('leaky-bucket: calls leave one slot apart, even when others leave the queue', () => {
    holds(400, traces('leaky-bucket', { slow: true }), (trace) => {
      const limit = defineLimit(trace.spec)
      expectSpaced(admissionsKept(trace, limit), limit)
    })
  })

  test('fixed-window: max in a window, twice that around an edge', () => {
    holds(200, traces('fixed-window'), (trace) => {
      const { max, windowUs } = defineLimit(trace.spec)
      const admissions = admissionsIn(trace)
      const byWindow = admissions.map((one) => ({ ...one, at: Math.floor(one.at / windowUs) }))
      expect(mostWithin(byWindow, 0)).toBeLessThanOrEqual(max)
      expect(mostWithin(admissions, windowUs)).toBeLessThanOrEqual(2n * BigInt(max))
    })
  })

  test('calendar-window: max in a day, week or month', () => {
    holds(200, traces('calendar-window'), (trace) => {
      const { max, calendar } = defineLimit(trace.spec)
      if (calendar === undefined) throw new Error('no calendar')
      const startOf = (at: number) => searchCalendarWindow(calendar, at).start
      const byWindow = admissionsIn(trace).map((one) => ({ ...one, at: startOf(one.at) }))
      expect(mostWithin(byWindow, 0)).toBeLessThanOrEqual(max)
    })
  })

  test('caller-window: max from the first call on, twice that around the end of a window', () => {
    holds(200, traces('caller-window'), (trace) => {
      const { max, windowUs } = defineLimit(trace.spec)
      const admissions = admissionsIn(trace)
      let start = -windowUs
      const byWindow = admissions.map((one) => {
        if (one.at >= start + windowUs) start = one.at
        return { ...one, at: start }
      })
      expect(mostWithin(byWindow, 0)).toBeLessThanOrEqual(max)
      expect(mostWithin(admissions, windowUs)).toBeLessThanOrEqual(2n * BigInt(max))
    })
  })

  test('sliding-window-counter: max * (1 + t / window)', () => {
    holds(300, traces('sliding-window-counter'), (trace) => {
      const limit = defineLimit(trace.spec)
      expectAtMost(admissionsIn(trace), limit.max, limit)
    })
  })

  test('sliding-window-counter: never over-admits, and refuses early by at most prev / 2^20', () => {
    const shares = fc.record({ prev: fc.nat({ max: 1000 }), curr: fc.nat({ max: 1000 }) })
    const given = fc.tuple(specs('sliding-window-counter'), shares, fc.nat({ max: 999_999 }))
    holds(500, given, ([spec, share, admissions]) => {
      const { max, windowUs } = defineLimit(spec)
      const counter = createStoredCounter(defineLimit(spec))
      const [prev, curr] = [share.prev, share.curr].map((part) => Math.floor((max / 1000) * part))
      const now = windowUs + Math.floor((windowUs / 1_000_000) * admissions)
      counter.charge(prev ?? 0, 0, 0, 0)
      counter.charge(curr ?? 0, now, now, 0)
      const { remaining } = counter.peek(0, now)
      const window = BigInt(windowUs)
      const weight = BigInt(prev ?? 0) * BigInt(2 * windowUs - now)
      const free = BigInt(max - (curr ?? 0)) * window - weight
      expect(BigInt(remaining) * window).toBeLessThanOrEqual(free > 0n ? free : 0n)
      const early = free - BigInt(remaining + 1) * window
      expect(early * 2n ** 20n).toBeLessThan(BigInt(Math.max(1, prev ?? 0)) * window)
    })
  })

  test('sliding-window-log: max in any window', () => {
    holds(200, traces('sliding-window-log'), (trace) => {
      const limit = defineLimit(trace.spec)
      expect(mostWithin(admissionsIn(trace), limit.windowUs - 1)).toBeLessThanOrEqual(limit.max)
    })
  })
})

/** Returns the calls that stayed in a leaky bucket, by slot; fails if too many ever wait. */
function admissionsKept(trace: Trace, limit: Limit): readonly Admission[] {
  const counter = createStoredCounter(limit)
  let stayed: Admission[] = []
  play(trace, { gives: true }, (act) => {
    const outcome = applyAct(counter, act)
    if (act.verb === 'give' && act.at !== undefined && (act.undone || act.at > act.now)) {
      const left = stayed.findIndex((one) => one.at === act.at && one.units === act.amount)
      stayed = stayed.filter((_, index) => index !== left)
    }
    if (outcome.granted > 0) stayed.push({ at: outcome.at, units: outcome.granted })
    const waiting = stayed.reduce((sum, one) => sum + waitingOf(one, limit, act.now), 0n)
    if (waiting > limit.capacity) expect(waiting).toBeLessThanOrEqual(limit.capacity)
    return outcome
  })
  return stayed.toSorted((a, b) => a.at - b.at)
}

/** The units of a call whose slot is still to come; `at` is the first slot, rounded down. */
function waitingOf({ at, units }: Admission, { p, q, tickUs }: Limit, now: number): bigint {
  const slots = (BigInt(now - at) * BigInt(p)) / BigInt(q * tickUs)
  const left = now < at ? BigInt(units) : BigInt(units) - slots - 1n
  return left > 0n ? left : 0n
}

function expectSpaced(calls: readonly Admission[], { p, q, tickUs }: Limit): void {
  calls.slice(1).forEach((next, index) => {
    const { at, units } = calls[index] ?? next
    const spaceUs = BigInt(next.at - at + tickUs)
    if (spaceUs * BigInt(p) <= BigInt(units) * BigInt(q) * BigInt(tickUs)) {
      throw new Error(`${next.at} leaves too soon after ${units} at ${at}`)
    }
  })
}

/** Fails unless a call passes after the wait of its refusal, and is refused 1 ms earlier. */
function expectRetry(counter: StoredCounter, act: Act, limit: Limit, outcome: Outcome): void {
  const { retryAfterMs } = outcome
  if (retryAfterMs === null) {
    const empty = createStoredCounter(limit)
    expect(empty.take(act.amount, act.now, act.atLeast).granted).toBe(0)
    return
  }
  const grantedAfter = (ms: number) =>
    counter.copy().take(act.amount, act.now + ms * 1000, act.atLeast).granted
  expect(retryAfterMs).toBeGreaterThan(0)
  expect(grantedAfter(retryAfterMs)).toBeGreaterThan(0)
  expect(grantedAfter(retryAfterMs - 1)).toBe(0)
}

function expectPeekTellsTake(counter: StoredCounter, act: Act): void {
  const before = JSON.stringify(counter.state())
  const peeked = counter.peek(act.amount, act.now)
  expect(JSON.stringify(counter.state())).toBe(before)
  const taken = counter.copy().take(act.amount, act.now)
  if (act.amount > 0 && taken.granted === 0) {
    expect(peeked).toEqual(taken)
    return
  }
  const { delayMs, at } = taken
  expect(peeked).toMatchObject({ granted: 0, retryAfterMs: 0, delayMs, at })
  expect(taken.remaining).toBeLessThanOrEqual(peeked.remaining)
}

/** Whether units taken at `at` no longer count, so that nothing can be given back. */
function isOver(at: number, now: number, limit: Limit): boolean {
  const windowsAgo = windowNumberOf(limit, now) - windowNumberOf(limit, at)
  switch (algorithmOf(limit).lua) {
    case 'block':
    case 'concurrency':
      throw new Error('It has no units of time')
    case 'fixed-window':
    case 'calendar-window':
      return windowsAgo >= 1
    case 'sliding-window-counter':
      return windowsAgo >= 2
    case 'caller-window':
    case 'sliding-window-log':
      return now - at >= limit.windowUs
    case 'leaky-bucket':
      return at <= now
    case 'token-bucket':
    case 'gcra':
      return now - at >= Math.ceil((limit.capacity * limit.q) / limit.p) * limit.tickUs
  }
}

/** Algorithms that refund units; a call that left a queue cannot return to it. */
const REFUNDED = RATE_MODULE_NAMES.filter((name) => name !== 'leaky-bucket')

test.each(REFUNDED)('%s: units given back at once are all available again', (algorithm) => {
  holds(100, traces(algorithm), (trace) => {
    const limit = defineLimit(trace.spec)
    const counter = createStoredCounter(limit)
    const taken: Outcome[] = []
    const atOnce = trace.moments.map((moment) => ({ ...moment, pause: { kind: 'us', n: 0 } }))
    play({ ...trace, moments: atOnce as Trace['moments'] }, {}, (act) => {
      taken.push(applyAct(counter, act))
      return taken.at(-1) as Outcome
    })
    for (const { granted, at } of taken) counter.give(granted, trace.start, at)
    expect(counter.peek(0, trace.start).remaining).toBe(limit.capacity)
  })
})

test('leaky-bucket: calls undone in reverse order restore the queue', () => {
  holds(200, fc.tuple(traces('leaky-bucket'), fc.nat({ max: 5000 })), ([trace, laterUs]) => {
    const limit = defineLimit(trace.spec)
    const counter = createStoredCounter(limit)
    const taken: Outcome[] = []
    const atOnce = trace.moments.map((moment) => ({ ...moment, pause: { kind: 'us', n: 0 } }))
    play({ ...trace, moments: atOnce as Trace['moments'] }, {}, (act) => {
      const outcome = applyAct(counter, act)
      if (outcome.granted > 0) taken.push(outcome)
      return outcome
    })
    const now = trace.start + laterUs
    for (const { granted, at } of taken.toReversed()) counter.give(granted, now, at, true)
    expect(counter.peek(1, now)).toEqual(createStoredCounter(limit).peek(1, now))
  })
})

describe.each(RATE_MODULE_NAMES)('%s', (algorithm) => {
  const every = traces(algorithm, { lends: true })

  test('every outcome equals that of the exact model, so there is no false refusal', () => {
    // A queue that several callers left may count an empty slot as passed before it is.
    const gives = algorithm !== 'leaky-bucket'
    holds(400, every, (trace) => {
      const limit = defineLimit(trace.spec)
      const [counter, oracle] = [createStoredCounter(limit), createOracle(limit)]
      play(trace, { ...EVERYTHING, gives, metered: true }, (act) => {
        const outcome = applyAct(counter, act)
        expectSame(outcome, applyAct(oracle, act))
        return outcome
      })
    })
  })

  test('a call that waits exactly retryAfterMs passes; one that waits 1 ms less does not', () => {
    holds(300, every, (trace) => {
      const counter = createStoredCounter(defineLimit(trace.spec))
      play(trace, EVERYTHING, (act, limit) => {
        const outcome = applyAct(counter, act)
        const isRefused = act.verb === 'take' && act.amount > 0 && outcome.granted === 0
        if (isRefused) expectRetry(counter, act, limit, outcome)
        return outcome
      })
    })
  })

  test('peek changes nothing and returns what take would return', () => {
    holds(150, every, (trace) => {
      const counter = createStoredCounter(defineLimit(trace.spec))
      play(trace, EVERYTHING, (act, limit) => {
        counter.change(limit)
        expectPeekTellsTake(counter, act)
        return applyAct(counter, act)
      })
    })
  })

  test('amount 0 always passes and writes nothing', () => {
    holds(150, every, (trace) => {
      const counter = createStoredCounter(defineLimit(trace.spec))
      play(trace, EVERYTHING, (act, limit) => {
        const step = algorithmOf(limit).take(counter.state(), limit, 0, act.now)
        expect(step).toMatchObject({ granted: 0, retryAfterMs: 0, delayMs: 0 })
        expect([step.state, step.rebased]).toEqual([undefined, undefined])
        return applyAct(counter, act)
      })
    })
  })

  test('a give returns at most what was taken, never above full or into another window', () => {
    holds(200, every, (trace) => {
      const counter = createStoredCounter(defineLimit(trace.spec))
      play(trace, { gives: true, charges: true }, (act, limit) => {
        const before = counter.copy()
        const outcome = applyAct(counter, act)
        if (act.verb !== 'give') return outcome
        const was = before.peek(1, act.now).remaining
        expect(outcome.remaining).toBeLessThanOrEqual(Math.min(limit.capacity, was + act.amount))
        const isUndone = act.undone === true && algorithm === 'leaky-bucket'
        if (act.at !== undefined && !isUndone && isOver(act.at, act.now, limit)) {
          expect(counter.state()).toEqual(before.state())
        }
        return outcome
      })
    })
  })

  test('every number stays whole and within its bounds', () => {
    holds(200, every, (trace) => {
      const counter = createStoredCounter(defineLimit(trace.spec))
      play(trace, { ...EVERYTHING, windowChanges: true }, (act, { capacity }) => {
        const outcome = applyAct(counter, act)
        const { retryAfterMs, ...numbers } = outcome
        for (const number of [...Object.values(numbers), retryAfterMs ?? 0]) {
          if (!Number.isSafeInteger(number) || number < 0) expect.unreachable(`found ${number}`)
        }
        if (outcome.remaining > capacity) expect(outcome.remaining).toBeLessThanOrEqual(capacity)
        if (outcome.granted > act.amount) expect(outcome.granted).toBeLessThanOrEqual(act.amount)
        return outcome
      })
    })
  })

  test('from expiresAt on, a counter behaves like an empty one', () => {
    holds(150, fc.tuple(every, fc.nat({ max: 1000 })), ([trace, later]) => {
      const counter = createStoredCounter(defineLimit(trace.spec))
      play(trace, { ...EVERYTHING, stepsBack: false }, (act, limit) => {
        const outcome = applyAct(counter, act)
        const expiresAt = Math.max(act.now, counter.expiresAt() ?? 0)
        for (const now of [expiresAt, expiresAt + later * 1000]) {
          const empty = createStoredCounter(limit)
          expectSame(counter.copy().take(act.amount, now), empty.take(act.amount, now))
        }
        return outcome
      })
    })
  })
})
