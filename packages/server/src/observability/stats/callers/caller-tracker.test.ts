import { expect, test } from 'vitest'
import { TABLE_SLOTS } from './caller-table.js'
import { callWith } from '../../../lib/normalized-call.test-helper.js'
import { PERIOD_MS, RULES_KNOWN_MAX } from './caller-tracker.js'
import { VIEW_MAX } from './caller-view.js'
import {
  ALLOWED,
  hashOf,
  HOUR,
  MINUTE,
  openTracker,
  REFUSED,
  SECOND,
  START,
  textOf,
} from './caller-tracker.test-helper.js'
import { LABEL_LENGTH_MAX } from './caller-label.js'
import { SKETCH_SIZE } from './space-saving.js'
import { RULES_TOP_MAX } from './sketch-slots.js'

test('refusals are counted by calls, and use by the cost that was admitted', () => {
  const { see, pass, snapshotOf, now } = openTracker()
  see(1, { ...ALLOWED, cost: 5 })
  see(1, { ...ALLOWED, cost: 0 })
  pass(SECOND)
  see(1, { ...REFUSED, cost: 100 })
  expect(snapshotOf(1)).toEqual({
    rule: 'per-user',
    hash: textOf(1),
    caller: { user: 'u1' },
    plan: 'free',
    lastRefusedCall: null,
    refusals: 1,
    refusalsError: 0,
    use: 5,
    useError: 0,
    zeroSinceMs: now(),
    lastSeenMs: now(),
    hours: 1,
  })
})

test('counts cover the current five minutes and the five before', () => {
  const { tracker, see, pass, snapshotOf } = openTracker(START + MINUTE)
  expect(tracker.callersSinceMs).toBe(START + MINUTE)
  see(1, REFUSED)
  pass(4 * MINUTE)
  see(1, REFUSED)
  see(2, ALLOWED)
  expect(tracker.callersSinceMs).toBe(START + MINUTE)
  expect(snapshotOf(1)?.refusals).toBe(2)
  pass(PERIOD_MS)
  expect(tracker.callersSinceMs).toBe(START + PERIOD_MS)
  expect(snapshotOf(1)?.refusals).toBe(1)
  pass(PERIOD_MS)
  // Only the hour of the first caller is left, and nothing of the other.
  expect(snapshotOf(1)).toMatchObject({ refusals: 0, hours: 1, caller: { user: 'u1' } })
  expect(snapshotOf(2)).toBeUndefined()
})

test('after ten minutes of suspension earlier callers are gone', () => {
  const { tracker, see, jump } = openTracker()
  see(1, ALLOWED)
  jump(2 * PERIOD_MS)
  expect(tracker.view(20, START)).toEqual([])
  expect(tracker.callersSinceMs).toBe(START + PERIOD_MS)
})

test('a clock that is set back far restarts counting, and slightly changes nothing', () => {
  const { tracker, see, jump, snapshotOf, now } = openTracker()
  jump(PERIOD_MS)
  see(1, ALLOWED)
  jump(-SECOND)
  jump(2 * SECOND)
  expect(snapshotOf(1)?.use).toBe(1)
  jump(-HOUR)
  expect(snapshotOf(1)).toBeUndefined()
  expect(tracker.callersSinceMs).toBe(now())
})

test('the top callers by refusals, use, exhaustion and hours are listed, each once', () => {
  const { tracker, see, jump } = openTracker()
  // By hours: long silent.
  see(400, REFUSED)
  jump(HOUR)
  see(400, REFUSED)
  jump(HOUR)
  for (let caller = 0; caller < 30; caller++) {
    for (let i = 0; i <= caller; i++) see(caller, { outcome: 'refused', left: 0.5 })
    see(100 + caller, { ...ALLOWED, cost: 10 + caller })
  }
  see(200, REFUSED)
  jump(SECOND)
  see(201, REFUSED)
  const views = tracker.view(2, START).map(({ hash }) => hash)
  // 200 and 201 share the last hour with the 30 others, so hours list the one with two.
  for (const caller of [29, 28, 129, 128, 200, 201, 400]) expect(views).toContain(textOf(caller))
  expect(new Set(views).size).toBe(views.length)
  expect(views.length).toBeLessThanOrEqual(8)
})

test('a caller seen once in a crowd has only a hash, and gets a label when it calls again', () => {
  const { see, snapshotOf } = openTracker()
  for (let caller = 0; caller < SKETCH_SIZE; caller++) see(caller, { ...ALLOWED, cost: 2 })
  see(999, { ...ALLOWED, cost: 50 })
  expect(snapshotOf(999)).toMatchObject({ caller: {}, plan: null, use: 52, useError: 2 })
  see(999)
  expect(snapshotOf(999)).toMatchObject({ caller: { user: 'u999' }, plan: 'free', use: 53 })
})

test('callers are forgotten when a rule counts by other attributes', () => {
  const { see, snapshotOf } = openTracker()
  see(1, REFUSED)
  see(2, { ...REFUSED, by: ['user'] })
  expect(snapshotOf(1)?.refusals).toBe(1)
  see(3, { ...REFUSED, by: ['ip'], attributes: { ip: '203.0.113.7' } })
  expect(snapshotOf(1)).toBeUndefined()
  expect(snapshotOf(3)).toMatchObject({ caller: { ip: '203.0.113.7' }, refusals: 1, hours: 1 })
})

test('callers of different rules are separate', () => {
  const { see, snapshotOf } = openTracker()
  see(1, { ...REFUSED, rule: 'a' })
  see(1, { ...REFUSED, rule: 'a' })
  see(1, { ...ALLOWED, rule: 'b' })
  expect(snapshotOf(1, 'a')).toMatchObject({ refusals: 2, use: 0 })
  expect(snapshotOf(1, 'b')).toMatchObject({ refusals: 0, use: 1 })
})

test('the tracker of a rule is the same object each time', () => {
  const { tracker, snapshotOf } = openTracker()
  const rule = tracker.ofRule('per-user')
  expect(tracker.ofRule('per-user')).toBe(rule)
  rule.record(['user'], hashOf(1), 'refused', 0, 1, callWith({ user: 'u1' }), START, HOUR)
  expect(snapshotOf(1)).toMatchObject({ refusals: 1, plan: null })
})

test('no table exceeds its bound, whatever the traffic', () => {
  const { tracker, see, pass } = openTracker()
  let caller = 0
  const long = 'x'.repeat(8192)
  for (let period = 0; period < 2; period++) {
    for (let rule = 0; rule < RULES_TOP_MAX + 30; rule++) {
      for (let i = 0; i < SKETCH_SIZE + 20; i++) {
        const attributes = { user: `${caller}${long}`, plan: long }
        see(caller++, { ...REFUSED, rule: `r${rule}`, attributes })
        see(caller++, { ...ALLOWED, rule: `r${rule}`, attributes })
      }
    }
    pass(PERIOD_MS)
  }
  for (let i = 0; i < 200_000; i++) see(caller++, REFUSED)
  const { top, exhausted, hours } = tracker.held
  expect(top).toBeLessThanOrEqual(RULES_TOP_MAX * 2 * 2 * SKETCH_SIZE)
  expect(exhausted).toBe(TABLE_SLOTS)
  expect(hours).toBe(TABLE_SLOTS)
  const views = tracker.view(20, START)
  expect(views.length).toBeLessThanOrEqual(VIEW_MAX)
  for (const { caller: named, plan } of views) {
    const name = Object.values(named).join('') + (plan ?? '')
    expect(name.length).toBeLessThanOrEqual(LABEL_LENGTH_MAX)
  }
})

test('if more rules are busy than there are slots, the busiest get them', () => {
  const { see, pass, snapshotOf } = openTracker()
  for (let rule = 0; rule < RULES_TOP_MAX; rule++) see(1, { rule: `r${rule}` })
  pass(SECOND, () => {
    for (let i = 0; i < 50; i++) see(1, { rule: 'late' })
  })
  expect(snapshotOf(1, 'late')).toBeUndefined()
  pass(SECOND)
  see(1, { rule: 'late' })
  expect(snapshotOf(1, 'late')?.use).toBe(1)
})

test('equally busy rules do not alternate in a slot', () => {
  const { tracker, see, pass } = openTracker()
  pass(5 * SECOND, () => {
    for (let rule = 0; rule < RULES_TOP_MAX + 20; rule++) see(1, { rule: `r${rule}` })
  })
  const views = tracker.view(20, START)
  expect(views).toHaveLength(RULES_TOP_MAX)
  for (const { use } of views) expect(use).toBe(5)
})

test('a rule idle for ten minutes loses its slot to the next', () => {
  const { tracker, see, pass, snapshotOf } = openTracker()
  for (let rule = 0; rule < RULES_TOP_MAX; rule++) see(1, { rule: `r${rule}` })
  see(1, { rule: 'late' })
  pass(2 * PERIOD_MS)
  expect(tracker.held.top).toBe(0)
  see(1, { rule: 'late' })
  pass(SECOND)
  see(1, { rule: 'late' })
  expect(snapshotOf(1, 'late')?.use).toBeGreaterThan(0)
})

test('rules beyond the bound are not tracked', () => {
  const { tracker, see } = openTracker()
  for (let rule = 0; rule < RULES_KNOWN_MAX; rule++) tracker.ofRule(`r${rule}`)
  see(1, { ...REFUSED, rule: 'one-more' })
  expect(tracker.held).toEqual({ top: 0, exhausted: 0, hours: 0 })
})

test('a snapshot with too many callers leaves out whole rules, those with fewest refusals first', () => {
  const { tracker, see } = openTracker()
  for (let rule = 0; rule < RULES_TOP_MAX; rule++) {
    for (let caller = 0; caller < 50; caller++) {
      see(caller, { ...ALLOWED, rule: `r${rule}` })
      see(100 + caller, { outcome: 'refused', left: 0.5, rule: `r${rule}` })
    }
  }
  see(1, { ...REFUSED, rule: `r${RULES_TOP_MAX - 1}` })
  const views = tracker.view(20, START)
  expect(views.length).toBeLessThanOrEqual(VIEW_MAX)
  expect(views.length).toBeGreaterThan(VIEW_MAX - 80)
  expect(views[0]?.rule).toBe(`r${RULES_TOP_MAX - 1}`)
})
