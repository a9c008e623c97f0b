import { algorithmOf, type Bucket } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { DebtLimits } from './debt-limit.js'
import { compiled } from '../fleet.test-helper.js'

const debtLimitOf = (limit: object | string, nodes: number, syncEveryMs = 100) =>
  new DebtLimits().get(compiled(limit, syncEveryMs), nodes)

describe('debt of buckets', () => {
  test.each([
    ['100/second', 10, 100, 100],
    ['100/second', 20, 100, 200],
    ['10/second', 50, 100, 50],
    ['10/second', 1, 100, 10],
    ['10/minute', 7, 100, 10],
    [{ algorithm: 'gcra', max: 100, window: '1s' }, 3, 100, 30],
    [{ max: 100, window: '1s', burst: 7 }, 1, 250, 25],
    [{ max: 3, window: '1s', burst: 1 }, 1, 100, 1],
    ['5/second', 20, 100, 20],
  ])(
    'the bucket %j on %d nodes, merged every %d ms, owes at most %d',
    (limit, nodes, everyMs, debt) => {
      const owing = debtLimitOf(limit, nodes, everyMs)
      expect(owing.debt).toBe(debt)
      expect(owing.limit.borrowable).toBe(debt)
      const own = compiled(limit).limit
      expect(owing.limit).toMatchObject({
        algorithm: own.algorithm,
        name: own.name,
        max: own.max,
        windowUs: own.windowUs,
        capacity: own.capacity,
      })
    },
  )

  test('a bucket whose counts are merged also owes what waiting lends, and delays no call that cannot wait', () => {
    const owing = debtLimitOf({ max: 100, window: '1s', wait: '500ms' }, 1)
    expect(owing.debt).toBe(50 + 100)
    expect(owing.limit.maxWaitUs).toBe(500_000)
    expect(owing.immediate).toMatchObject({ maxWaitUs: 0, borrowable: 150 })
  })

  test('a bucket whose counts are merged knows how long it takes to regain its debt', () => {
    expect(debtLimitOf('100/second', 20).debtUs).toBe(2_000_000)
    expect(debtLimitOf({ algorithm: 'gcra', max: 100, window: '1s' }, 3).debtUs).toBe(300_000)
  })

  test('a bucket whose counts are merged does not forget what it owes when a call comes', () => {
    const { limit, debt } = debtLimitOf('100/second', 10)
    const state: Bucket = { at: 0, used: 200, part: 0 }
    expect(algorithmOf(limit).charge(state, limit, 50, 0, 0, debt)).toEqual(state)
    expect(algorithmOf(limit).take(state, limit, 1, 0).retryAfterMs).toBe(1010)
    // By its own limit it would pass as soon as one unit of the burst has refilled.
    const own = compiled('100/second').limit
    expect(algorithmOf(own).take(state, own, 1, 0).retryAfterMs).toBe(10)
  })

  test('the debt of a bucket whose counts are merged is at most what can be counted', () => {
    const fine = { max: 366 * 86_400_000 + 1, window: '366d', burst: 60_000 }
    const own = compiled(fine)
    const owing = debtLimitOf(fine, 1000, 60_000)
    expect(owing.debt).toBeGreaterThan(0)
    expect(owing.debt).toBeLessThan(1000 * 60_000)
    expect(owing.limit.capacity).toBe(own.limit.capacity)
  })

  test('a bucket whose counts are merged has no debt if none can be counted, and decides by its own limit', () => {
    const own = compiled({ max: 366 * 86_400_000 + 1, window: '366d', burst: 71_208 })
    const owing = new DebtLimits().get(own, 1000)
    expect(owing.limit).toBe(own.limit)
    expect(owing.debt).toBe(0)
  })

  test('a bucket of 0 is its own debt limit', () => {
    const own = compiled('0/second')
    const owing = new DebtLimits().get(own, 5)
    expect(owing.limit).toBe(own.limit)
    expect(owing).toMatchObject({ debt: 0, debtUs: 0 })
  })
})

describe('debt of windows', () => {
  test('a window whose counts are merged counts what all nodes can spend of it, under its own limit', () => {
    const own = compiled({ algorithm: 'fixed-window', max: 100, window: '1m' })
    const owing = new DebtLimits().get(own, 7)
    expect(owing.limit).toBe(own.limit)
    expect(owing).toMatchObject({ debt: 700, debtUs: 0 })
  })

  test('the debt of a window whose counts are merged is at most the largest exact number', () => {
    const huge = { algorithm: 'fixed-window', max: 999_999_999_999_999, window: '1d' }
    expect(debtLimitOf(huge, 1000).debt).toBe(999_999_999_999_999)
  })
})

test('limits with debt are made once for each size of the fleet', () => {
  const debts = new DebtLimits()
  const own = compiled('10/second')
  const first = debts.get(own, 20)
  expect(debts.get(own, 20)).toBe(first)
  expect(debts.get(own, 30).debt).toBe(30)
})
