import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  CALLERS_BYTES_MAX,
  DistinctCallers,
  mergeEstimate,
  type RuleDistinctCallers,
} from './distinct-callers.js'
import { EXACT_MAX } from './exact-distinct.js'
import { type Hashes, seededHashes } from './hashes.test-helper.js'

const MINUTE_MS = 60_000
const START_MS = 1_800_000_000_000

function setUp(options?: ConstructorParameters<typeof DistinctCallers>[0]) {
  const distinct = new DistinctCallers(options)
  let nowMs = START_MS
  distinct.tick(nowMs)
  const pass = (minutes: number) => {
    nowMs += minutes * MINUTE_MS
    distinct.tick(nowMs)
  }
  return { distinct, pass }
}

function ruleOf(distinct: DistinctCallers, rule = 'login'): RuleDistinctCallers {
  const callers = distinct.ofRule(rule)
  if (callers === undefined) throw new Error(`${rule} is not counted`)
  return callers
}

function record(callers: RuleDistinctCallers, hashes: Hashes, count: number): void {
  for (let i = 0; i < count; i++) {
    const { hi, lo } = hashes.next()
    callers.record(hi, lo)
  }
}

const seeds = fc.integer()

test('a few callers are counted exactly, however often each comes', () => {
  fc.assert(
    fc.property(seeds, fc.integer({ min: 0, max: EXACT_MAX }), (seed, count) => {
      const callers = ruleOf(setUp().distinct)
      for (let times = 0; times < 3; times++) record(callers, seededHashes(seed), count)
      expect(callers.estimate()).toBe(count)
      expect(mergeEstimate([callers.registers()])).toBe(count)
    }),
  )
})

test('many callers are estimated within a tenth', () => {
  fc.assert(
    fc.property(seeds, fc.integer({ min: EXACT_MAX, max: 200_000 }), (seed, count) => {
      const callers = ruleOf(setUp().distinct)
      record(callers, seededHashes(seed), count)
      expect(Math.abs(callers.estimate() - count)).toBeLessThan(Math.max(count * 0.1, 12))
      expect(mergeEstimate([callers.registers()])).toBe(callers.estimate())
    }),
    { numRuns: 30 },
  )
})

test('callers of the last five minutes count together, whatever minute they came in', () => {
  for (const perMinute of [10, 1000]) {
    const { distinct, pass } = setUp()
    const callers = ruleOf(distinct)
    const hashes = seededHashes(perMinute)
    for (let minute = 0; minute < 12; minute++) {
      if (minute > 0) pass(1)
      record(callers, hashes, perMinute)
      const expected = Math.min(minute + 1, 5) * perMinute
      expect(Math.abs(callers.estimate() - expected)).toBeLessThanOrEqual(expected * 0.1)
    }
  }
})

test('a caller is forgotten five minutes after its last call, and its memory released', () => {
  for (const count of [3, 5000]) {
    const { distinct, pass } = setUp()
    const callers = ruleOf(distinct)
    const before = distinct.bytes
    record(callers, seededHashes(1), count)
    expect(distinct.bytes).toBeGreaterThan(before)
    pass(4)
    expect(Math.round(callers.estimate() / count)).toBe(1)
    pass(1)
    expect([callers.estimate(), callers.registers()]).toEqual([0, ''])
    expect(distinct.bytes).toBe(before)
    expect([...distinct.estimates()]).toEqual([['login', 0]])
    record(callers, seededHashes(2), count)
    expect(Math.round(callers.estimate() / count)).toBe(1)
  }
})

test('a caller that keeps calling is never forgotten', () => {
  const { distinct, pass } = setUp()
  const callers = ruleOf(distinct)
  for (let minute = 0; minute < 20; minute++) {
    callers.record(7, 7)
    pass(1)
    expect(callers.estimate()).toBe(1)
  }
})

test('exactly counted callers keep their minutes when the set becomes a sketch', () => {
  const { distinct, pass } = setUp()
  const callers = ruleOf(distinct)
  record(callers, seededHashes(1), 40)
  pass(3)
  record(callers, seededHashes(2), 40)
  expect(Math.abs(callers.estimate() - 80)).toBeLessThan(8)
  pass(2)
  expect(Math.abs(callers.estimate() - 40)).toBeLessThan(4)
  pass(3)
  expect(callers.estimate()).toBe(0)
})

test('a clock that jumps ahead forgets all callers, and one that is set back closes one minute', () => {
  const { distinct, pass } = setUp()
  const callers = ruleOf(distinct)
  record(callers, seededHashes(1), 10)
  pass(-60)
  pass(1)
  expect(callers.estimate()).toBe(10)
  pass(1_000_000)
  expect(callers.estimate()).toBe(0)
})

test('the merged estimate of several nodes equals that of one node', () => {
  fc.assert(
    fc.property(seeds, fc.nat(400), fc.nat(400), fc.nat(400), (seed, left, both, right) => {
      const { distinct } = setUp()
      const [one, other, all] = ['one', 'other', 'all'].map((rule) => ruleOf(distinct, rule))
      const hashes = seededHashes(seed)
      for (let i = 0; i < left + both + right; i++) {
        const { hi, lo } = hashes.next()
        if (i < left + both) one?.record(hi, lo)
        if (i >= left) other?.record(hi, lo)
        all?.record(hi, lo)
      }
      const merged = mergeEstimate([one?.registers() ?? '', other?.registers() ?? '', ''])
      const areFew = left + both <= EXACT_MAX && both + right <= EXACT_MAX
      expect(merged).toBe(areFew ? left + both + right : all?.estimate())
    }),
    { numRuns: 60 },
  )
})

test('unreadable texts are ignored', () => {
  const callers = ruleOf(setUp().distinct)
  callers.record(1, 2)
  const bad = ['', 'f', 's', 'x', 'fAAAA', `f${'A'.repeat(100_000)}`, 's000', 'nonsense', '\u0000']
  expect(mergeEstimate([...bad, callers.registers()])).toBe(1)
  expect(mergeEstimate(bad)).toBe(0)
  fc.assert(fc.property(fc.array(fc.string()), (texts) => mergeEstimate(texts) >= 0))
})

test('memory is bounded: rules beyond it are not counted until there is room', () => {
  const { distinct, pass } = setUp()
  const hashes = seededHashes(5)
  const names = Array.from({ length: 1000 }, (_, i) => `rule-${i}`)
  for (const name of names) record(ruleOf(distinct, name), hashes, 100)
  expect(distinct.bytes).toBeLessThanOrEqual(CALLERS_BYTES_MAX)
  const counted = new Map(distinct.estimates())
  expect(counted.size).toBeGreaterThan(400)
  expect(counted.size).toBeLessThan(1000)
  for (const callers of counted.values()) expect(callers).toBeGreaterThan(80)
  const last = ruleOf(distinct, 'rule-999')
  expect([last.isCounted, last.estimate(), last.registers()]).toEqual([false, 0, ''])
  for (let minute = 0; minute < 5; minute++) {
    record(last, hashes, 10)
    pass(1)
  }
  expect(last.isCounted).toBe(true)
  record(last, hashes, 10)
  expect(last.estimate()).toBe(10)
})

test('a rule stays uncounted as long as no memory is free', () => {
  const { distinct, pass } = setUp({ bytesMax: 20_000 })
  const [one, other] = [ruleOf(distinct, 'one'), ruleOf(distinct, 'other')]
  const hashes = seededHashes(9)
  for (let minute = 0; minute < 15; minute++) {
    record(one, hashes, 100)
    record(other, hashes, 100)
    expect([one.isCounted, other.isCounted]).toEqual([true, false])
    pass(1)
  }
})

test('rules beyond 20,000 are not counted, and each name has one counter', () => {
  const distinct = new DistinctCallers()
  for (let i = 0; i < 20_000; i++) expect(distinct.ofRule(`rule-${i}`)).toBeDefined()
  expect(distinct.ofRule('one more')).toBeUndefined()
  expect(distinct.ofRule('rule-3')).toBe(distinct.ofRule('rule-3'))
  expect(distinct.bytes).toBeLessThanOrEqual(CALLERS_BYTES_MAX)
})
