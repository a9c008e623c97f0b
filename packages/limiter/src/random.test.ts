import { afterEach, describe, expect, test, vi } from 'vitest'
import { createLimiter } from './limiter.js'
import { randomKey, randomKeyIfAllowed, randomSerial } from './random.js'

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

describe('a limiter that is created where nothing may be random yet, as a module of a Worker', () => {
  afterEach(() => void vi.restoreAllMocks())

  function createAtLoad() {
    const random = vi.spyOn(crypto, 'getRandomValues').mockImplementation(() => {
      throw new Error('Disallowed operation called within global scope.')
    })
    expect(randomKeyIfAllowed()).toBeUndefined()
    const limiter = createLimiter({
      rules: [{ id: 'per-user', by: ['user'], limits: ['1/hour'] }],
      clock: { now: () => 1_800_000_000_000_000 },
    })
    return { limiter, random }
  }
  const call = { attributes: { user: 'ann' } }

  test('counts from its first call, with receipts', () => {
    const { limiter, random } = createAtLoad()
    random.mockRestore()
    expect(limiter.checkSync(call, { receipt: true })).toMatchObject({ allowed: true })
    expect(limiter.checkSync(call)).toMatchObject({ allowed: false })
  })

  test('explains, peeks and refunds before its first call', async () => {
    const { limiter, random } = createAtLoad()
    random.mockRestore()
    expect(await limiter.explain(call)).toMatchObject({ remaining: 1 })
    expect(await limiter.peek(call)).toMatchObject({ remaining: 1 })
    await limiter.refund(call)
    expect(limiter.checkSync(call)).toMatchObject({ allowed: true, remaining: 0 })
  })

  test('decides nothing without a secret', async () => {
    const { limiter } = createAtLoad()
    await expect(limiter.check(call)).rejects.toThrow('global scope')
  })
})
