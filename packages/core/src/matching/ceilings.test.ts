/** Ceilings are exact, and the counter behind them is the one of the whole limit. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { algorithmOf, RATE_MODULE_NAMES } from '../algorithms/index.js'
import { play, traces } from '../algorithms/traces.test-helper.js'
import { defineLimit, type Limit, type LimitSpec } from '../limit.js'
import { planCall } from '../decision/plan.js'
import { parseRules } from '../rules/parse-rules.js'
import { sipKey } from '../sip-hash.js'
import { propertyRuns } from '../../../../tools/property-runs.js'
import { ceilingLimit, ceilingUnits, leastCeiling, wholeLimit } from './ceilings.js'
import { compileRules } from './compile.js'
import { matchRules } from './match.js'
import { changeOverrides } from './overrides.js'

const PRIORITIES = ['critical', 'writes', 'reads', 'test'] as const

describe('ceilingUnits', () => {
  test.each([
    [50_000, [2000], 40_000],
    [100, [700], 93],
    [30, [1000, 1000], 24],
    [10, [1, 1], 8],
    [1, [1], 0],
    [999_999_999_999_999, [9000], 99_999_999_999_999],
    [7, [], 7],
  ])('of %d with %j ten-thousandths reserved above, %d are left', (capacity, reserves, left) => {
    expect(ceilingUnits(capacity, reserves)).toBe(left)
  })
})

const reserveLists = fc
  .array(fc.integer({ min: 1, max: 3000 }), { maxLength: 3 })
  .filter((list) => list.reduce((sum, share) => sum + share, 0) <= 9000)

describe.each(RATE_MODULE_NAMES)('%s with calls of all priorities on one counter', (name) => {
  const everything = fc.record({
    trace: traces(name, { lends: true }),
    reserves: reserveLists,
    dice: fc.array(fc.nat({ max: 3 }), { minLength: 30, maxLength: 30 }),
  })

  test('a call passes if and only if the whole limit has room for it and all that is reserved above', () => {
    fc.assert(
      fc.property(everything, ({ trace, reserves, dice }) => {
        const whole = defineLimit(trace.spec)
        fc.pre(ceilingUnits(whole.capacity, reserves) >= leastCeiling(whole))
        const algorithm = algorithmOf(whole)
        let state: unknown
        let turn = 0
        play(trace, {}, ({ now, amount }) => {
          const above = reserves.slice(0, dice[turn++ % dice.length])
          const limit = ceilingLimit(whole, above)
          const kept = whole.capacity - limit.capacity
          const step = algorithm.take(state, limit, amount, now)
          const same = algorithm.take(state, whole, amount, now)
          if (amount > 0) {
            const room = algorithm.peek(state, whole, amount + kept, now)
            expect(step.retryAfterMs).toBe(room.retryAfterMs)
            expect(step.delayMs).toBe(room.delayMs)
          }
          // What is stored does not depend on the priority of the call.
          if (step.state !== undefined) expect(step.state).toEqual(same.state)
          state = step.state ?? step.rebased ?? state
          return step
        })
      }),
      { numRuns: propertyRuns(200) },
    )
  })
})

test('priorities share the places of a limit, and each may take those below its ceiling', () => {
  const whole = defineLimit({ algorithm: 'concurrency', max: 10, windowMs: 0 })
  const under = ceilingLimit(whole, [2000])
  expect(under).toMatchObject({ max: 8, capacity: 8, windowUs: whole.windowUs })
  const algorithm = algorithmOf(whole)
  const { state } = algorithm.take(undefined, whole, 8, 1, undefined, 7)
  expect(algorithm.take(state, under, 1, 1, undefined, 7)).toMatchObject({ retryAfterMs: 1000 })
  const { state: full } = algorithm.take(state, whole, 2, 1, undefined, 8)
  expect(algorithm.peek(full, whole, 1, 1)).toMatchObject({ remaining: 0, retryAfterMs: 1000 })
})

describe('headroom', () => {
  const limits: readonly LimitSpec[] = [
    { algorithm: 'fixed-window', max: 100, windowMs: 60_000 },
    { algorithm: 'sliding-window-counter', max: 100, windowMs: 60_000 },
    { algorithm: 'sliding-window-log', max: 100, windowMs: 60_000 },
    { algorithm: 'token-bucket', max: 100, windowMs: 60_000 },
    { algorithm: 'gcra', max: 100, windowMs: 60_000, burst: 100 },
  ]

  test.each(limits)(
    '$algorithm: others stop at the ceiling, critical calls when all is used',
    (spec) => {
      const whole = defineLimit(spec)
      const others = ceilingLimit(whole, [2000])
      const algorithm = algorithmOf(whole)
      let state: unknown
      const admit = (limit: Limit) => {
        const step = algorithm.take(state, limit, 1, 1_000_000)
        state = step.state ?? state
        return step.granted
      }
      const admitAll = (limit: Limit) => {
        let granted = 0
        for (let i = 0; i < 200; i++) granted += admit(limit)
        return granted
      }
      expect(admitAll(others)).toBe(80)
      expect(admitAll(whole)).toBe(20)
      expect(admit(others) + admit(whole)).toBe(0)
    },
  )

  test('a call of a low priority does not hand back what a bucket owes to critical calls', () => {
    const whole = defineLimit({ algorithm: 'token-bucket', max: 100, windowMs: 60_000 })
    const others = ceilingLimit(whole, [5000])
    const algorithm = algorithmOf(whole)
    const used = algorithm.take(undefined, whole, 100, 0).state
    const refused = algorithm.take(used, others, 1, 0)
    expect(refused.granted).toBe(0)
    expect(refused.rebased).toBeUndefined()
    expect(algorithm.take(used, whole, 1, 0).granted).toBe(0)
  })
})

function snapshotOf(rule: object, priorities: readonly string[] = PRIORITIES) {
  const { rules, errors } = parseRules({
    priorities,
    rules: [{ id: 'fleet', by: [], limits: ['100/minute'], ...rule }],
  })
  expect(errors).toEqual([])
  if (rules === undefined) throw new Error('no rules')
  return compileRules(rules, { secret: sipKey(new Uint8Array(16)) })
}

const capacitiesOf = (snapshot: ReturnType<typeof snapshotOf>, attributes: object = {}) =>
  PRIORITIES.map((priority) => {
    const call = { attributes: { ...attributes, priority } }
    const { groups } = planCall(matchRules(snapshot, call), call)
    return groups.map((takes) => takes.map(({ limit }) => limit.capacity))
  })

describe('compiled ceilings', () => {
  const headroom = { critical: '20%', reads: '10%' }

  test('each priority is decided by its own ceiling on one counter', () => {
    const snapshot = snapshotOf({ headroom })
    expect(capacitiesOf(snapshot)).toEqual([[[100]], [[80]], [[80]], [[70]]])
    const keys = PRIORITIES.map((priority) => {
      const call = { attributes: { priority } }
      return planCall(matchRules(snapshot, call), call).groups[0]?.[0]?.key
    })
    expect(keys).toEqual(keys.map(() => keys[0]))
  })

  test('tiers, candidates and overrides have ceilings too', () => {
    const snapshot = snapshotOf({
      by: ['user'],
      headroom,
      tiers: { plan: { pro: ['200/minute'] } },
      candidate: { limits: ['50/minute'] },
      overrides: [{ caller: { user: 'u2' }, limits: ['10/minute'] }],
    })
    expect(capacitiesOf(snapshot, { user: 'u1', plan: 'pro' }).at(-1)).toEqual([[140], [35]])
    expect(capacitiesOf(snapshot, { user: 'u2' }).at(-1)).toEqual([[7]])
    const override = { caller: new Map([['user', 'u3']]), untilMs: undefined }
    const spec = { algorithm: 'fixed-window', max: 1000, windowMs: 1000 } as const
    const changed = changeOverrides(snapshot, [
      { rule: 'fleet', caller: override.caller, override: { ...override, limits: [spec] } },
    ])
    expect(capacitiesOf(changed.snapshot, { user: 'u3' }).at(-1)).toEqual([[700]])
  })

  test('with leases a priority that has a reserve is exact, and the others share one limit', () => {
    const snapshot = snapshotOf({ headroom: { critical: '20%' }, coordination: 'leased' })
    const takes = PRIORITIES.map((priority) => {
      const call = { attributes: { priority } }
      return planCall(matchRules(snapshot, call), call).groups[0]?.[0]?.compiled
    })
    expect(takes.map((compiled) => compiled?.coordination)).toEqual([
      'exact',
      'leased',
      'leased',
      'leased',
    ])
    expect(new Set(takes.slice(1)).size).toBe(1)
    expect(new Set(takes.map((compiled) => compiled && wholeLimit(compiled))).size).toBe(1)
  })

  test('other priorities of the set compile the rules anew', () => {
    const before = snapshotOf({ headroom: { critical: '20%' } })
    const { rules } = parseRules({
      priorities: ['test', 'critical', 'writes', 'reads'],
      rules: [{ id: 'fleet', by: [], limits: ['100/minute'], headroom: { critical: '20%' } }],
    })
    if (rules === undefined) throw new Error('no rules')
    const options = { secret: sipKey(new Uint8Array(16)) }
    const set = { ...rules, rules: before.rules.map(({ rule }) => rule) }
    const after = compileRules(set, options, before)
    expect(capacitiesOf(before)).toEqual([[[100]], [[80]], [[80]], [[80]]])
    expect(capacitiesOf(after)).toEqual([[[100]], [[80]], [[80]], [[100]]])
  })
})
