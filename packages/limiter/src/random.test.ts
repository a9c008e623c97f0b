import { describe, expect, test } from 'vitest'
import { randomKey, randomSerial } from './random.js'

describe('random values of a limiter', () => {
  test('a key of hashes has 16 bytes, and two keys differ', () => {
    expect(randomKey()).toHaveLength(16)
    expect(randomKey()).not.toEqual(randomKey())
  })

  test('serials are whole numbers below 2^40 that use all of their 40 bits', () => {
    const serials = Array.from({ length: 1000 }, randomSerial)
    expect(serials.every((serial) => Number.isSafeInteger(serial) && serial >= 0)).toBe(true)
    expect(Math.max(...serials)).toBeLessThan(2 ** 40)
    // A bit that is never set in a thousand draws would be a mistake of the arithmetic.
    const seen = serials.reduce((bits, serial) => bits | BigInt(serial), 0n)
    expect(seen).toBe(2n ** 40n - 1n)
  })
})
