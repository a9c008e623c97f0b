import { expect, test } from 'vitest'
import { callWith } from '../../../lib/normalized-call.test-helper.js'
import { PROTECTED_MAX, TABLE_SLOTS } from './caller-table.js'
import {
  ALLOWED,
  HOUR,
  LAST_ONE,
  MINUTE,
  openTracker,
  REFUSED,
  SECOND,
  START,
  textOf,
} from './caller-tracker.test-helper.js'

test('a caller that is refused continuously is exhausted since its first refusal', () => {
  const { tracker, see, pass, snapshotOf, now } = openTracker()
  see(1)
  pass(3 * SECOND)
  const firstMs = now()
  see(1, REFUSED)
  pass(10 * MINUTE, () => see(1, REFUSED))
  expect(snapshotOf(1)?.zeroSinceMs).toBe(firstMs)
  expect(tracker.exhausted(5 * MINUTE)).toEqual([
    {
      rule: 'per-user',
      hash: textOf(1),
      caller: { user: 'u1' },
      plan: 'free',
      isEverybody: false,
      sinceMs: firstMs,
      lastSeenMs: now(),
      lastRefusedCall: null,
    },
  ])
  expect(tracker.exhausted(10 * MINUTE)).toEqual([])
  expect(tracker.exhaustedCount).toBe(1)
})

test('a call that leaves budget ends exhaustion, five seconds after the last that left none', () => {
  const { tracker, see, pass, snapshotOf, now } = openTracker()
  pass(6 * MINUTE, () => see(1, REFUSED))
  pass(4 * SECOND, () => see(1, ALLOWED))
  expect(snapshotOf(1)?.zeroSinceMs).not.toBeNull()
  pass(SECOND, () => see(1, ALLOWED))
  expect(snapshotOf(1)?.zeroSinceMs).toBeNull()
  expect(tracker.exhausted(0)).toEqual([])
  pass(SECOND)
  see(1, REFUSED)
  expect(snapshotOf(1)?.zeroSinceMs).toBe(now())
})

test('a caller with bursts, refused in each, is exhausted since the first', () => {
  const { see, pass, snapshotOf } = openTracker()
  see(1, REFUSED)
  pass(6 * MINUTE, () => {
    see(1, ALLOWED)
    see(1, LAST_ONE)
    see(1, REFUSED)
  })
  expect(snapshotOf(1)?.zeroSinceMs).toBe(START)
})

test('an admitted call that leaves nothing does not end exhaustion', () => {
  const { see, pass, snapshotOf } = openTracker()
  see(1, LAST_ONE)
  pass(MINUTE, () => {
    see(1, REFUSED)
    see(1, LAST_ONE)
  })
  expect(snapshotOf(1)?.zeroSinceMs).toBe(START)
})

test('a caller that repeatedly uses up its limit but is never refused raises no alert', () => {
  const { tracker, see, pass, snapshotOf } = openTracker()
  see(1, LAST_ONE)
  pass(6 * MINUTE, () => see(1, LAST_ONE))
  expect(snapshotOf(1)?.zeroSinceMs).toBe(START)
  expect(tracker.exhausted(5 * MINUTE)).toEqual([])
  see(1, REFUSED)
  expect(tracker.exhausted(5 * MINUTE)).toMatchObject([{ sinceMs: START }])
})

test('a caller refused once that stayed away was not exhausted in the meantime', () => {
  const { tracker, see, pass } = openTracker()
  see(1, REFUSED)
  see(2, REFUSED)
  pass(20 * SECOND, () => see(2, REFUSED))
  pass(20 * SECOND)
  expect(tracker.exhausted(10 * SECOND).map(({ hash }) => hash)).toEqual([textOf(2)])
})

test('a caller without calls for a minute is no longer exhausted', () => {
  const { tracker, see, pass, snapshotOf } = openTracker()
  see(1, REFUSED)
  pass(MINUTE)
  expect(snapshotOf(1)?.zeroSinceMs).toBe(START)
  pass(SECOND)
  expect(snapshotOf(1)?.zeroSinceMs).toBeNull()
  expect(tracker.exhaustedCount).toBe(0)
})

test('a refusal with budget left, because the cost exceeds it, is no exhaustion', () => {
  const { see, pass, snapshotOf } = openTracker()
  see(1, { outcome: 'refused', left: 0.2 })
  expect(snapshotOf(1)).toMatchObject({ zeroSinceMs: null, refusals: 1, hours: 1 })
  see(1, REFUSED)
  pass(5 * SECOND, () => see(1, { outcome: 'refused', left: 0.2 }))
  expect(snapshotOf(1)?.zeroSinceMs).toBeNull()
})

test('shadow rules neither exhaust nor refuse callers', () => {
  const { tracker, see, snapshotOf } = openTracker()
  see(1, { outcome: 'shadow_refused', left: -1 })
  see(1, { outcome: 'shadow_refused', left: 0 })
  expect(snapshotOf(1)).toBeUndefined()
  see(1, { outcome: 'allowed', left: -1 })
  expect(snapshotOf(1)).toMatchObject({ zeroSinceMs: null, refusals: 0, use: 1, hours: 0 })
  expect(tracker.held).toEqual({ top: 1, exhausted: 0, hours: 0 })
})

test('a refusal by posture counts as a refusal, and says nothing about the remaining budget', () => {
  const { see, snapshotOf } = openTracker()
  see(1, { outcome: 'refused', left: -1 })
  expect(snapshotOf(1)).toMatchObject({ zeroSinceMs: null, refusals: 1, hours: 0 })
})

test('exhaustion is tracked by rule', () => {
  const { see, snapshotOf } = openTracker()
  see(1, { ...REFUSED, rule: 'a' })
  see(1, { ...ALLOWED, rule: 'b' })
  expect(snapshotOf(1, 'a')?.zeroSinceMs).toBe(START)
  expect(snapshotOf(1, 'b')?.zeroSinceMs).toBeNull()
})

test('long exhausted callers are not evicted by a flood of others', () => {
  const { tracker, see, pass } = openTracker()
  pass(11 * SECOND, () => {
    for (let caller = 0; caller < 50; caller++) see(caller, REFUSED)
  })
  const sinceMs = START + SECOND
  let next = 1000
  pass(30 * SECOND, () => {
    for (let i = 0; i < 1000; i++) see(next++, REFUSED)
  })
  const views = tracker.exhausted(9 * SECOND)
  expect(views).toHaveLength(50)
  expect(views.filter((caller) => caller.sinceMs === sinceMs)).toHaveLength(50)
  expect(tracker.exhaustedCount).toBe(TABLE_SLOTS)
})

test('in a flood a persistent caller is tracked soon after its first refusal', () => {
  const { tracker, see, pass } = openTracker()
  let next = 1000
  pass(MINUTE, () => {
    for (let i = 0; i < 500; i++) {
      see(next++, REFUSED)
      if (i % 50 === 0) see(1, REFUSED)
    }
  })
  const [longest] = tracker.exhausted(50 * SECOND)
  expect(longest?.hash).toBe(textOf(1))
  expect(longest?.caller).toEqual({ user: 'u1' })
})

test('at most a hundred exhausted callers are listed, the longest first', () => {
  const { tracker, see, pass } = openTracker()
  for (let caller = 0; caller < 300; caller++) {
    see(caller, REFUSED)
    if (caller % 10 === 9) pass(SECOND)
  }
  for (let caller = 0; caller < 300; caller++) see(caller, REFUSED)
  const views = tracker.exhausted(0)
  expect(views).toHaveLength(100)
  expect(views.map(({ sinceMs }) => sinceMs)).toEqual(
    views.map(({ sinceMs }) => sinceMs).toSorted((a, b) => a - b),
  )
  expect(views[0]?.sinceMs).toBe(START)
  for (let round = 0; round < 3; round++) {
    pass(10 * SECOND)
    for (let caller = 0; caller < TABLE_SLOTS + 500; caller++) see(caller, REFUSED)
  }
  expect(tracker.exhaustedCount).toBe(TABLE_SLOTS)
  expect(PROTECTED_MAX).toBeLessThan(TABLE_SLOTS)
})

test('a clock that is set back does not prolong exhaustion', () => {
  const { tracker, see, jump, pass, snapshotOf, now } = openTracker()
  see(1, REFUSED)
  jump(-3 * 60 * MINUTE)
  expect(snapshotOf(1)?.zeroSinceMs).toBe(now())
  pass(2 * MINUTE)
  expect(tracker.exhaustedCount).toBe(0)
})

test('a caller that recovered and was exhausted again between two ticks starts anew', () => {
  const { tracker, see, snapshotOf } = openTracker()
  see(1, REFUSED)
  tracker
    .ofRule('per-user')
    .record(['user'], { hi: 0, lo: 0 }, 'refused', 0, 1, callWith(), START, HOUR)
  tracker
    .ofRule('per-user')
    .record(['user'], { hi: 0, lo: 0 }, 'refused', 0, 1, callWith(), START + 2 * MINUTE, HOUR)
  expect(tracker.view(20, START).map(({ zeroSinceMs }) => zeroSinceMs)).toContain(
    START + 2 * MINUTE,
  )
  expect(snapshotOf(1)?.zeroSinceMs).toBe(START)
})

test('a rule without by is exhausted for all callers together', () => {
  const { tracker, see, pass } = openTracker()
  pass(MINUTE, () => see(1, { ...REFUSED, rule: 'all', by: [] }))
  pass(MINUTE, () => {
    see(1, { ...REFUSED, rule: 'all', by: [] })
    see(2, REFUSED)
  })
  const views = tracker.exhausted(30 * SECOND).map(({ rule, isEverybody }) => [rule, isEverybody])
  expect(views).toEqual([
    ['all', true],
    ['per-user', false],
  ])
})

const SHORT = { ...REFUSED, resetAfterMs: 2 * SECOND }

test('a caller whose limits have refilled is no longer listed as exhausted', () => {
  const { tracker, see, pass, snapshotOf } = openTracker()
  see(1, SHORT)
  expect(snapshotOf(1)).toMatchObject({ zeroSinceMs: START })
  // A decision has the time of the last tick, so it may have been up to a second later.
  pass(3 * SECOND)
  expect(snapshotOf(1)?.isRefilled).toBeUndefined()
  pass(SECOND)
  expect(snapshotOf(1)).toMatchObject({ zeroSinceMs: START, isRefilled: true })
  pass(5 * SECOND)
  expect(snapshotOf(1)).toMatchObject({ zeroSinceMs: null, refusals: 1 })
  expect(tracker.exhaustedCount).toBe(0)
})

test('refilled callers take no place from exhausted ones', () => {
  const { tracker, see, pass, now } = openTracker()
  // More than are listed of a rule, all exhausted for longer; none by refusals or hours.
  for (let caller = 0; caller < 30; caller++) see(caller, { ...SHORT, resetAfterMs: 0 })
  pass(3 * SECOND)
  see(99, REFUSED)
  const atZero = tracker
    .view(1, now())
    .filter(({ zeroSinceMs, isRefilled }) => zeroSinceMs !== null && isRefilled !== true)
  expect(atZero.map(({ hash }) => hash)).toEqual([textOf(99)])
})

test('a caller refused within five seconds of a refill is exhausted since its first refusal', () => {
  const { see, pass, snapshotOf, now } = openTracker()
  see(1, SHORT)
  pass(7 * SECOND)
  see(1, SHORT)
  expect(snapshotOf(1)).toMatchObject({ zeroSinceMs: START })
  expect(snapshotOf(1)?.isRefilled).toBeUndefined()
  pass(10 * SECOND)
  see(1, SHORT)
  expect(snapshotOf(1)?.zeroSinceMs).toBe(now())
})

test('an exhausted caller is listed with its last refused call, updated once a tick', () => {
  const { tracker, see, pass, snapshotOf } = openTracker()
  const at = (path: string) => ({
    ...REFUSED,
    attributes: { user: 'u1', method: 'post', path },
  })
  see(1, at('/v1/login?token=secret'))
  expect(snapshotOf(1)?.lastRefusedCall).toBe('POST /v1/login')
  see(1, at('/v1/other'))
  expect(snapshotOf(1)?.lastRefusedCall).toBe('POST /v1/login')
  pass(SECOND)
  see(1, at('/v1/other'))
  expect(snapshotOf(1)?.lastRefusedCall).toBe('POST /v1/other')
  expect(tracker.exhausted(0)).toMatchObject([{ lastRefusedCall: 'POST /v1/other' }])
  expect(tracker.nameOf('per-user', textOf(1))).toEqual({
    caller: { user: 'u1' },
    plan: null,
    isEverybody: false,
    lastRefusedCall: 'POST /v1/other',
  })
  expect(tracker.refusedCallOf('per-user')).toBe('POST /v1/other')
})

test('an exhausted caller has its refused call even if others are refused more often', () => {
  const { tracker, see, pass } = openTracker()
  pass(12 * SECOND, () => {
    see(1, { ...REFUSED, attributes: { user: 'u1', method: 'GET', path: '/quiet' } })
    for (let caller = 100; caller < 300; caller++) for (let i = 0; i < 3; i++) see(caller, REFUSED)
  })
  const views = tracker.exhausted(10 * SECOND).find(({ hash }) => hash === textOf(1))
  expect(views?.lastRefusedCall).toBe('GET /quiet')
})
