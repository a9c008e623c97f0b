import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ceilDiv, floorDiv, gcd, isCount, MAX_INTEGER, usToMsUp } from './numbers.js'

/** Small numbers, large ones, and those around powers of two up to 2^53 - 1. */
const counts = fc.oneof(
  fc.integer({ min: 1, max: 1000 }),
  fc.integer({ min: 1, max: MAX_INTEGER }),
  fc
    .record({ power: fc.integer({ min: 1, max: 53 }), off: fc.integer({ min: -2, max: 2 }) })
    .map(({ power, off }) => Math.min(MAX_INTEGER, Math.max(1, 2 ** power + off))),
)

/** Quotients close to a whole number, where a rounded division would be wrong. */
const nearMultiples = fc
  .record({ a: counts, b: counts, off: fc.integer({ min: -1, max: 1 }) })
  .map(({ a, b, off }) => ({ a: Math.max(0, Math.floor(a / b) * b + off), b }))
  .filter(({ a }) => a <= MAX_INTEGER)

describe('division of whole numbers up to 2^53 - 1', () => {
  test.each([
    [0, 1, 0, 0],
    [7, 7, 1, 1],
    [8, 7, 1, 2],
    [MAX_INTEGER, 1, MAX_INTEGER, MAX_INTEGER],
    [MAX_INTEGER, MAX_INTEGER, 1, 1],
    [MAX_INTEGER - 1, MAX_INTEGER, 0, 1],
    [MAX_INTEGER, 2, 2 ** 52 - 1, 2 ** 52],
    [MAX_INTEGER, 3, 3_002_399_751_580_330, 3_002_399_751_580_331],
    [-7, 3, -3, -2],
  ])('%d / %d lies between %d and %d', (a, b, floor, ceil) => {
    expect(floorDiv(a, b)).toBe(floor)
    expect(ceilDiv(a, b)).toBe(ceil)
  })

  test('is exact, also close to a whole number', () => {
    const pairs = fc.oneof(fc.record({ a: counts, b: counts }), nearMultiples)
    const exact = fc.property(pairs, ({ a, b }) => {
      const floor = BigInt(a) / BigInt(b)
      const isWhole = floor * BigInt(b) === BigInt(a)
      expect(BigInt(floorDiv(a, b))).toBe(floor)
      expect(BigInt(ceilDiv(a, b))).toBe(isWhole ? floor : floor + 1n)
    })
    fc.assert(exact, { numRuns: 5000 })
  })
})

test('the greatest common divisor divides both, and the quotients are coprime', () => {
  expect(gcd(300_000, 1_000_000)).toBe(100_000)
  expect(gcd(7, 60_000)).toBe(1)
  expect(gcd(MAX_INTEGER, 1)).toBe(1)
  const divides = fc.property(counts, counts, (a, b) => {
    const divisor = gcd(a, b)
    expect([a % divisor, b % divisor]).toEqual([0, 0])
    expect(gcd(a / divisor, b / divisor)).toBe(1)
  })
  fc.assert(divides)
})

test('waits round up to a millisecond', () => {
  expect([0, 1, 999, 1000, 1001].map(usToMsUp)).toEqual([0, 1, 1, 1, 2])
  expect(usToMsUp(MAX_INTEGER)).toBe(9_007_199_254_741)
})

test('a count is a number, whole and from 0 to 2^53 - 1', () => {
  expect([0, 1, MAX_INTEGER].map(isCount)).toEqual([true, true, true])
  const others = [-1, 0.5, NaN, Infinity, MAX_INTEGER + 1, 1e21, '1', 1n, null, undefined, {}, []]
  expect(others.filter(isCount)).toEqual([])
})
