import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { deepEqual } from './deep-equal.js'

test('deepEqual agrees with node:util on any two JSON values', () => {
  const value = fc
    .jsonValue({ maxDepth: 3 })
    .map((any) => JSON.parse(JSON.stringify(any)) as unknown)
  const property = fc.property(value, value, (one, other) => {
    expect(deepEqual(one, other)).toBe(isDeepStrictEqual(one, other))
    expect(deepEqual(one, structuredClone(one))).toBe(true)
  })
  fc.assert(property, { numRuns: 500 })
})

test.each([
  [{ a: 1, b: [2] }, { b: [2], a: 1 }, true],
  [{ a: undefined }, { b: undefined }, true],
  [{ a: 1 }, { a: 1, b: 2 }, false],
  [[], {}, false],
  [[1], [1, 2], false],
  [null, {}, false],
  [undefined, undefined, true],
  [JSON.parse('{"__proto__": 1}'), {}, false],
])('deepEqual of %j and %j is %s', (one, other, expected) => {
  expect(deepEqual(one, other)).toBe(expected)
  expect(deepEqual(other, one)).toBe(expected)
})

test('values nested deeper than any rule are unequal, and do not overflow the stack', () => {
  const nested = (depth: number) => {
    let value: unknown = 1
    for (let i = 0; i < depth; i++) value = i % 2 === 0 ? [value] : { value }
    return value
  }
  expect(deepEqual(nested(20), nested(20))).toBe(true)
  expect(deepEqual(nested(100_000), nested(100_000))).toBe(false)
})
