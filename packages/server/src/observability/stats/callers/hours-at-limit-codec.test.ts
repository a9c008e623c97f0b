import fc from 'fast-check'
import { expect, test } from 'vitest'
import { CLEAR } from '../name-protection.test-helper.js'
import { TABLE_SLOTS } from './caller-table.js'
import { ALLOWED, HOUR, openTracker, REFUSED, START, textOf } from './caller-tracker.test-helper.js'

/** A tracker that restored what another one saved. */
function restored(text: string, startMs: number) {
  const after = openTracker(startMs)
  after.tracker.restore(text, startMs, CLEAR)
  return after
}

test('hours are restored relative to the current hour', () => {
  const { tracker, see, jump, now } = openTracker()
  see(1, REFUSED)
  see(2, { ...REFUSED, rule: 'per-ip', by: ['ip'], attributes: { ip: '203.0.113.7' } })
  jump(HOUR)
  see(1, REFUSED)
  const after = restored(tracker.save(CLEAR), now() + 2 * HOUR)
  expect(after.snapshotOf(1)).toEqual({
    rule: 'per-user',
    hash: textOf(1),
    caller: { user: 'u1' },
    plan: 'free',
    lastRefusedCall: null,
    refusals: 0,
    refusalsError: 0,
    use: 0,
    useError: 0,
    zeroSinceMs: null,
    lastSeenMs: START + HOUR,
    hours: 0b1100,
  })
  expect(after.snapshotOf(2, 'per-ip')).toMatchObject({
    caller: { ip: '203.0.113.7' },
    hours: 0b1000,
  })
  after.see(1, REFUSED)
  expect(after.snapshotOf(1)?.hours).toBe(0b1101)
})

test('hours of the limits of Envoy are restored: their paths and keys are ids and attributes', () => {
  const { tracker, see, now } = openTracker()
  const limit = { rule: 'shop.PATH_/v1/*.api_key', by: ['PATH', 'api_key_2', ':path'] }
  see(1, { ...REFUSED, ...limit, attributes: { PATH: '/v1/x', ':path': '/' } })
  const after = restored(tracker.save(CLEAR), now())
  expect(after.snapshotOf(1, limit.rule)).toMatchObject({
    caller: { PATH: '/v1/x', ':path': '/' },
    hours: 1,
  })
})

test('saving, restoring and saving again gives the same text', () => {
  const seen = fc.record({ caller: fc.nat(50), rule: fc.constantFrom('a', 'b'), hour: fc.nat(30) })
  fc.assert(
    fc.property(fc.array(seen, { maxLength: 100 }), fc.string({ maxLength: 20 }), (all, user) => {
      const { tracker, see, jump, now } = openTracker()
      let hour = 0
      for (const each of all.toSorted((a, b) => a.hour - b.hour)) {
        if (each.hour > hour) jump((each.hour - hour) * HOUR)
        hour = each.hour
        see(each.caller, { ...REFUSED, rule: each.rule, attributes: { user, plan: user } })
      }
      const snapshotOf = (of: typeof tracker) =>
        of
          .view(100, START)
          .map(({ rule, hash, caller, plan, hours }) => ({ rule, hash, caller, plan, hours }))
          .toSorted((a, b) => (a.rule + a.hash < b.rule + b.hash ? -1 : 1))
      expect(snapshotOf(restored(tracker.save(CLEAR), now()).tracker)).toEqual(snapshotOf(tracker))
    }),
    { numRuns: 30 },
  )
})

test('a full table is restored completely', () => {
  const { tracker, see, now } = openTracker()
  for (let caller = 0; caller < TABLE_SLOTS; caller++) see(caller, REFUSED)
  expect(restored(tracker.save(CLEAR), now()).tracker.held.hours).toBe(TABLE_SLOTS)
})

test('hours that are a day old are forgotten', () => {
  const { tracker, see, now } = openTracker()
  see(1, REFUSED)
  expect(restored(tracker.save(CLEAR), now() + 24 * HOUR).tracker.held.hours).toBe(0)
})

test('hours of a clock that was ahead are restored unchanged', () => {
  const { tracker, see, now } = openTracker()
  see(1, REFUSED)
  const after = restored(tracker.save(CLEAR), now() - 5 * HOUR)
  expect(after.snapshotOf(1)).toMatchObject({ hours: 1, lastSeenMs: now() - 5 * HOUR })
})

test('hours recorded before the restore are kept', () => {
  const { tracker, see, now } = openTracker()
  see(1, REFUSED)
  see(2, { ...REFUSED, rule: 'other' })
  const after = openTracker(now() + HOUR)
  after.see(1, REFUSED)
  after.see(2, { ...ALLOWED, rule: 'other', by: ['ip'], attributes: { ip: '::1' } })
  after.tracker.restore(tracker.save(CLEAR), after.now(), CLEAR)
  expect(after.snapshotOf(1)?.hours).toBe(0b11)
  // The rule counts by another attribute now, so the saved callers are not its own.
  expect(after.snapshotOf(2, 'other')?.hours).toBe(0)
})

const HASH = '00112233aabbccdd'
const RULE = { rule: 'a', by: ['user'], callers: [[HASH, 1, START, 'free', 'u1']] }
const DAMAGED: readonly (readonly [string, unknown, string])[] = [
  ['another format', { format: 2, hour: 1, rules: [] }, 'format: found 2; accepted: 1'],
  ['no hour', { format: 1, rules: [] }, 'hour: found undefined'],
  ['no rules', { format: 1, hour: 1, rules: {} }, 'rules: found an object; accepted: a list'],
  ['a list', [], 'text: found an object; accepted: an object'],
  ['a rule that is none', withRule({ rule: 'A B' }), 'rules[0].rule: found A B'],
  ['attributes that are none', withRule({ by: ['user', 7] }), 'rules[0].by: found ["user",7]'],
  ['a short caller', withRule({ callers: [[HASH, 1]] }), 'rules[0].callers[0]: found 2 fields'],
  ['a hash that is none', withCaller(['xyz', 1, 0, '', 'u']), 'found xyz; accepted: 16 hex digits'],
  ['no hours', withCaller([HASH, 0, 0, '', 'u']), 'found 0; accepted: 24 bits'],
  ['more hours than a day has', withCaller([HASH, 2 ** 24, 0, '', 'u']), 'found 16777216'],
  ['no time', withCaller([HASH, 1, -1, '', 'u']), 'found -1; accepted: milliseconds'],
  ['no text', withCaller([HASH, 1, 0, '', 7]), 'accepted: a plan and values'],
  [
    'too many callers',
    withRule({ callers: Array.from({ length: TABLE_SLOTS + 1 }, () => RULE.callers[0]) }),
    'found 4097 callers; accepted: at most 4096',
  ],
]

function withRule(change: Readonly<Record<string, unknown>>) {
  return { format: 1, hour: Math.floor(START / HOUR), rules: [{ ...RULE, ...change }] }
}

function withCaller(caller: readonly unknown[]) {
  return withRule({ callers: [RULE.callers[0], caller] })
}

test.each(DAMAGED)('%s is refused and changes nothing', (_, value, message) => {
  const { tracker, see, snapshotOf } = openTracker()
  see(1, REFUSED)
  expect(() => tracker.restore(JSON.stringify(value), START, CLEAR)).toThrow(message)
  expect(snapshotOf(1)?.hours).toBe(1)
  expect(tracker.held.hours).toBe(1)
})

test('truncated JSON is refused, wherever it was cut', () => {
  const { tracker, see } = openTracker()
  see(1, REFUSED)
  const text = tracker.save(CLEAR).trim()
  const after = openTracker()
  for (let length = 0; length < text.length; length += 7) {
    expect(() => after.tracker.restore(text.slice(0, length), START, CLEAR)).toThrow()
  }
  expect(after.tracker.held.hours).toBe(0)
})
