import { describe, expect, test } from 'vitest'
import { PriceTable } from './prices.js'

const TABLE = new PriceTable(
  new Map([
    ['gpt-5', { input: 1.25, output: 10, cached: 0.125 }],
    ['gpt-5*', { input: 2, output: 8, cached: 2 }],
    ['gpt-5-mini*', { input: 0.07, output: 2, cached: 0.07 }],
  ]),
)
const spend = (model: string | undefined, input: number, output: number, cached = 0) =>
  TABLE.spendOf(model, { input, cached, output })

describe('prices', () => {
  test('are millionths of money for a token, with another price for cached input', () => {
    expect(spend('gpt-5', 1_000_000, 0)).toBe(1_250_000)
    expect(spend('gpt-5', 0, 1_000_000)).toBe(10_000_000)
    expect(spend('gpt-5', 1_000_000, 0, 400_000)).toBe(600_000 * 1.25 + 400_000 * 0.125)
  })

  test('are rounded up, but not because of fractions that have no exact binary form', () => {
    expect(spend('gpt-5-mini', 1, 0)).toBe(1)
    expect(spend('gpt-5-mini', 100, 0)).toBe(7)
    expect(spend('gpt-5-mini', 101, 0)).toBe(8)
    expect(spend('gpt-5', 0, 0)).toBe(0)
  })

  test('hold for the exact name, else the longest beginning of it', () => {
    expect([TABLE.pricesOf('gpt-5').input, TABLE.pricesOf('gpt-5.1').input]).toEqual([1.25, 2])
    expect(TABLE.pricesOf('gpt-5-mini-2026').input).toBe(0.07)
  })

  test('are the dearest for a model that is not listed, or not known', () => {
    const dearest = { input: 2, output: 10, cached: 2 }
    expect([TABLE.pricesOf('other'), TABLE.pricesOf(undefined)]).toEqual([dearest, dearest])
  })

  test('never exceed the largest exact number', () => {
    expect(spend('gpt-5', 1e12, 1e15)).toBe(Number.MAX_SAFE_INTEGER)
  })
})
