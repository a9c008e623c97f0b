import { describe, expect, test } from 'vitest'
import { parseRules } from '../rules/parse-rules.js'
import type { RuleSet } from '../rules/rule.js'
import { sipKey } from '../sip-hash.js'
import { compileRules } from './compile.js'
import { compileRegion, leastBurst, regionUnits, unmergeableReason } from './region-limits.js'

const SECRET = sipKey(new Uint8Array(16))
const NAMES = ['us-east', 'eu-west', 'ap-south']

function setOf(text: string): RuleSet {
  const { rules, errors } = parseRules(text)
  expect(errors).toEqual([])
  if (rules === undefined) throw new Error('no rules')
  return rules
}

function limitsIn(own: string, text: string, names = NAMES) {
  const snapshot = compileRules(setOf(text), { secret: SECRET, regions: { own, names } })
  return snapshot.rules.flatMap(({ limits }) => limits.map(({ limit }) => limit))
}

function limitIn(own: string, text: string, names = NAMES) {
  const [limit] = limitsIn(own, text, names)
  if (limit === undefined) throw new Error('no limit')
  return limit
}

describe('the units of a region', () => {
  test.each([
    [10, [1, 1], [5, 5]],
    [10, [1, 1, 1], [3, 3, 4]],
    [1, [1, 1, 1], [0, 0, 1]],
    [0, [1, 1], [0, 0]],
    [1000, [5000, 3000, 2000], [500, 300, 200]],
    [7, [5000, 3000, 2000], [3, 2, 2]],
    [10, [10_000, 0], [10, 0]],
    [999_999_999_999_999, [3333, 6667], [333_299_999_999_999, 666_700_000_000_000]],
  ])('of %d with weights %j are %j', (units, weights, expected) => {
    expect(weights.map((_, index) => regionUnits(units, weights, index))).toEqual(expected)
  })

  test('sum to the whole, each within one unit of its weight, for any units and weights', () => {
    let seed = 1
    const random = (below: number) => {
      seed = (seed * 48_271) % 2_147_483_647
      return seed % below
    }
    for (let run = 0; run < 2000; run++) {
      const weights = Array.from({ length: 1 + random(16) }, () => random(10_000))
      const all = weights.reduce((sum, weight) => sum + weight, 0)
      const units = random(2) === 0 ? random(100) : random(2_147_483_646) * 400_000
      const parts = weights.map((_, index) => regionUnits(units, weights, index))
      const isWhole = parts.reduce((sum, part) => sum + part, 0) === (all === 0 ? 0 : units)
      const isNear = parts.every((part, index) => {
        const exact = all === 0 ? 0 : (units / all) * (weights[index] ?? 0)
        return Math.abs(part - exact) <= 1
      })
      if (!isWhole || !isNear) expect({ units, weights, parts }).toBeUndefined()
    }
  })

  test('of a region that has no share are none', () => {
    const region = compileRegion({ own: 'moon', names: ['eu-west', 'moon'] }, new Map([['eu', 1]]))
    expect(regionUnits(100, region?.weights ?? [], region?.index ?? 0)).toBe(0)
  })
})

describe('regions: split', () => {
  const rule = (limit: string, more = '') =>
    `rules: [{ id: r, by: [], limits: [${limit}], regions: split${more} }]`

  test('gives each region an equal part by default, in the order of their names', () => {
    const maxima = NAMES.map((own) => limitIn(own, rule('10/second')).max)
    expect(maxima).toEqual([4, 3, 3])
    const inAnotherOrder = limitIn('us-east', rule('10/second'), NAMES.toReversed())
    expect(inAnotherOrder.max).toBe(4)
  })

  test('gives each region its share of max, burst, queue and debt', () => {
    const shares = 'shares: { eu-west: 50%, us-east: 30%, ap-south: 20% }\n'
    const limits = [
      '{ max: 1000, window: 1s, burst: 100, debt: 50 }',
      '{ algorithm: leaky-bucket, max: 100, window: 1s, queue: 40, name: queue }',
      '{ algorithm: concurrency, max: 50 }',
    ].join(', ')
    const [bucket, queue, places] = limitsIn('us-east', shares + rule(limits))
    expect(bucket).toMatchObject({ max: 300, capacity: 30, debt: 15 })
    expect(queue).toMatchObject({ max: 30, capacity: 12 })
    expect(places).toMatchObject({ max: 15 })
  })

  test('leaves each region one unit of burst, so that it can admit its part of the rate', () => {
    for (const own of NAMES) {
      const limit = limitIn(own, rule('{ algorithm: gcra, max: 300, window: 1s }'))
      expect(limit).toMatchObject({ max: 100, capacity: 1 })
    }
  })

  test('refuses every call in a region without a share, under the same counter', () => {
    const shares = 'shares: { eu-west: 100%, us-east: 0%, ap-south: 0% }\n'
    const text = shares + rule('{ max: 10, window: 1s, burst: 20, wait: 1s }')
    expect(limitIn('us-east', text)).toMatchObject({ max: 0, capacity: 0, name: 'token-bucket-1s' })
    expect(limitIn('eu-west', text)).toMatchObject({ max: 10, capacity: 20 })
  })

  test('has the whole limit where there is one region, or none is configured', () => {
    expect(limitIn('eu-west', rule('10/second'), ['eu-west']).max).toBe(10)
    const snapshot = compileRules(setOf(rule('10/second')), { secret: SECRET })
    expect(snapshot.rules[0]?.limits[0]?.limit.max).toBe(10)
  })

  test('applies new shares and another region to rules that did not change', () => {
    const set = setOf(rule('10/second', ', overrides: []'))
    const regions = { own: 'eu-west', names: ['eu-west', 'us-east'] }
    const before = compileRules(set, { secret: SECRET, regions })
    const shares = new Map([
      ['eu-west', 9000],
      ['us-east', 1000],
    ])
    const after = compileRules({ ...set, shares }, { secret: SECRET, regions }, before)
    const maxOf = ({ rules }: typeof before) => rules[0]?.limits[0]?.limit.max
    expect([maxOf(before), maxOf(after)]).toEqual([5, 9])
  })
})

describe('regions: merged', () => {
  const rule = (limit: string, more = '') => `rules: [{ id: r, by: [], limits: [${limit}]${more} }]`

  test('is the default: each region has the whole limit, marked for the store', () => {
    const limit = limitIn('eu-west', rule('{ algorithm: fixed-window, max: 10, window: 1m }'))
    expect(limit).toMatchObject({ max: 10, isMerged: true })
  })

  test.each([
    ['its burst', '{ max: 60, window: 1m, burst: 40 }', 40],
    ['one unit for each region', '{ algorithm: gcra, max: 1, window: 1m }', 3],
    ['what all regions admit in a second', '{ max: 1000, window: 1s, burst: 100 }', 3000],
    ['the debt it has anyway', '{ max: 60, window: 1m, debt: 500 }', 500],
  ])('lets a bucket owe %s', (_, limit, borrowable) => {
    expect(limitIn('eu-west', rule(limit))).toMatchObject({ borrowable, isMerged: true })
  })

  test('changes neither max, burst nor what a take may overdraw', () => {
    const text = rule('{ max: 60, window: 1m, burst: 40, onRefusal: overdraw, debt: 5 }')
    expect(limitIn('eu-west', text)).toMatchObject({ max: 60, capacity: 40, debt: 5 })
  })

  test.each([
    ['a leaky bucket', '{ algorithm: leaky-bucket, max: 10, window: 1s }', ''],
    ['a log', '{ algorithm: sliding-window-log, max: 10, window: 1m }', ''],
    ['places', '{ algorithm: concurrency, max: 10 }', ''],
    [
      'a window from the first call',
      '{ algorithm: fixed-window, max: 9, window: 1m, start: call }',
      '',
    ],
    ['a burst below the rate of 100 ms', '{ algorithm: gcra, max: 20, window: 1s }', ''],
    ['counts of each node', '10/second', ', coordination: node'],
    ['a rule with regions: apart', '10/second', ', regions: apart'],
  ])('leaves apart %s', (_, limit, more) => {
    expect(limitIn('eu-west', rule(limit, more)).isMerged).toBeUndefined()
  })

  test('marks nothing where there is one region', () => {
    expect(limitIn('eu-west', rule('10/second'), ['eu-west']).isMerged).toBeUndefined()
  })

  test('merges the limits of tiers, candidates and overrides, and no block', () => {
    const text = `rules: [{ id: r, by: [user], limits: [{ max: 9, window: 1s, block: 1m }],
      tiers: { plan: { pro: [90/second] } }, candidate: { limits: [8/second] },
      overrides: [{ caller: { user: u1 }, limits: [7/second] }] }]`
    const regions = { own: 'eu-west', names: NAMES }
    const { rules, overrides } = compileRules(setOf(text), { secret: SECRET, regions })
    const [own] = rules
    const override = overrides?.[0]?.all()[0]
    const lists = [
      own?.limits,
      own?.tiers?.limits.get('pro'),
      own?.candidate?.limits,
      override?.limits,
    ]
    expect(lists.map((list) => list?.[0]?.limit.isMerged)).toEqual([true, true, true, true])
    expect(own?.limits[0]?.block?.limit.isMerged).toBeUndefined()
  })

  test('keeps the mark under a ceiling', () => {
    const text = `priorities: [high, low]\n${rule('100/second', ', headroom: { high: 20% }')}`
    const regions = { own: 'eu-west', names: NAMES }
    const [compiled] = compileRules(setOf(text), { secret: SECRET, regions }).rules
    const ceilings = compiled?.limits[0]?.ceilings?.map(({ limit }) => limit)
    expect(ceilings?.map(({ isMerged, capacity }) => [isMerged, capacity])).toEqual([
      [true, 100],
      [true, 80],
    ])
  })
})

test('the least burst that can be merged is the rate of 100 ms', () => {
  const spec = { algorithm: 'gcra', max: 1000, windowMs: 1000 } as const
  expect(leastBurst(spec)).toBe(100)
  expect(unmergeableReason({ ...spec, burst: 99 })).toBe('burst')
  expect(unmergeableReason({ ...spec, burst: 100 })).toBeUndefined()
  expect(unmergeableReason({ ...spec, max: 10 })).toBeUndefined()
  expect(unmergeableReason({ ...spec, max: 11 })).toBe('burst')
})
