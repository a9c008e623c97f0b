import { defineLimit, type Take } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { costOfChange, costOfTakes } from './op-cost.js'

const bucket = defineLimit({ algorithm: 'token-bucket', max: 10, windowMs: 1000 })
const log = defineLimit({ algorithm: 'sliding-window-log', max: 10_000, windowMs: 3_600_000 })
const NOW = 3_600_000_000

function take(limit = bucket): Take {
  return { key: { hi: 1, lo: 1, partition: 0 }, limit, amount: 1 }
}

describe('the cost of a take', () => {
  test('equals the number of limits for buckets, with or without states', () => {
    expect(costOfTakes([[take(), take()], [take()]], false)).toBe(3)
    expect(costOfTakes([[take(), take()], [take()]], true)).toBe(3)
  })

  test('increases for a log, and further if its state is requested', () => {
    expect(costOfTakes([[take(log)]], false)).toBe(8)
    expect(costOfTakes([[take(log)]], true)).toBe(24)
  })

  test('equals that of a give if it gives back to a log, at worst of the whole log', () => {
    const at = { key: take().key, limit: log, amount: -1, at: NOW }
    expect(costOfTakes([[at]], false)).toBe(8 + 1250)
    expect(costOfTakes([[{ ...at, at: undefined }]], false)).toBe(8)
    expect(costOfTakes([[{ ...at, limit: bucket }]], false)).toBe(1)
  })

  test('equals at least one, even without any take', () => {
    expect([costOfTakes([], false), costOfTakes([[], []], true)]).toEqual([1, 1])
  })
})

describe('the cost of a give or charge', () => {
  test('equals one for all algorithms but the log', () => {
    expect(costOfChange(bucket, 0, NOW)).toBe(1)
  })

  test('grows with the units that a log may have admitted since, up to the whole log', () => {
    expect(costOfChange(log, NOW, NOW)).toBe(8)
    expect(costOfChange(log, NOW - 2000, NOW)).toBe(8 + 63)
    expect(costOfChange(log, NOW - 60_000_000, NOW)).toBe(8 + 1250)
  })

  test('covers the whole log while the time of the store is unknown', () => {
    expect(costOfChange(log, NOW, Number.NaN)).toBe(8 + 1250)
  })

  test('stays small if the oldest units are given back, which rewrites nothing', () => {
    expect(costOfChange(log, undefined, NOW)).toBe(8)
  })

  test('equals that of a new record if the clock of the store went back', () => {
    expect(costOfChange(log, NOW + 5_000_000, NOW)).toBe(8)
  })
})
