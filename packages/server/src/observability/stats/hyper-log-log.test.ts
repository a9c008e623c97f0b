import fc from 'fast-check'
import { expect, test } from 'vitest'
import { seededHashes } from './hashes.test-helper.js'
import {
  estimateOf,
  makeRegisters,
  mergeRegisters,
  rankOf,
  readRegisters,
  REGISTERS,
  type Registers,
  registerOf,
  writeRegisters,
} from './hyper-log-log.js'

function add(registers: Registers, { hi, lo }: { readonly hi: number; readonly lo: number }): void {
  const register = registerOf(lo)
  registers[register] = Math.max(registers[register] ?? 0, rankOf(hi))
}

/** Registers after this many different hashes. */
function registersOf(seed: number, count: number): Registers {
  const registers = makeRegisters()
  const hashes = seededHashes(seed)
  for (let i = 0; i < count; i++) add(registers, hashes.next())
  return registers
}

const seeds = fc.integer()

test('the rank is one more than the trailing zeros of the high half', () => {
  expect([1, 2, 3, 4, 0x80000000, -0x80000000, -1, 0].map(rankOf)).toEqual([
    1, 2, 1, 3, 32, 32, 1, 33,
  ])
})

test('every register can be chosen, by signed and unsigned halves alike', () => {
  expect([0, 1, -1, 0xffffffff, 1 << 21].map(registerOf)).toEqual([
    0,
    0,
    REGISTERS - 1,
    REGISTERS - 1,
    1,
  ])
})

test('any number of hashes is estimated within a tenth', () => {
  expect(estimateOf(makeRegisters())).toBe(0)
  fc.assert(
    fc.property(seeds, fc.integer({ min: 1, max: 200_000 }), (seed, count) => {
      const error = Math.abs(estimateOf(registersOf(seed, count)) - count)
      // Of a few hashes two may share a register.
      expect(error).toBeLessThan(Math.max(count * 0.1, 3))
    }),
    { numRuns: 40 },
  )
})

test('the mean error of many sketches matches the theory and has no bias', () => {
  for (const count of [500, 5000, 50_000]) {
    const errors = Array.from({ length: 40 }, (_, seed) => {
      return estimateOf(registersOf(seed * 7919 + count, count)) / count - 1
    })
    const mean = errors.reduce((sum, error) => sum + error, 0) / errors.length
    const spread = Math.sqrt(errors.reduce((sum, error) => sum + error ** 2, 0) / errors.length)
    expect(Math.abs(mean)).toBeLessThan(0.015)
    expect(spread).toBeLessThan(0.035)
  }
})

test('merging two sketches gives the registers of their union', () => {
  fc.assert(
    fc.property(seeds, fc.nat(3000), fc.nat(3000), fc.nat(3000), (seed, left, both, right) => {
      const hashes = seededHashes(seed)
      const [one, other, all] = [makeRegisters(), makeRegisters(), makeRegisters()]
      for (let i = 0; i < left + both + right; i++) {
        const hash = hashes.next()
        if (i < left + both) add(one, hash)
        if (i >= left) add(other, hash)
        add(all, hash)
      }
      mergeRegisters(one, other)
      expect(one).toEqual(all)
    }),
    { numRuns: 30 },
  )
})

test('written registers are read unchanged, and other text is rejected', () => {
  fc.assert(
    fc.property(seeds, fc.nat(5000), (seed, count) => {
      const registers = registersOf(seed, count)
      expect(readRegisters(writeRegisters(registers))).toEqual(registers)
    }),
    { numRuns: 20 },
  )
  const text = writeRegisters(makeRegisters())
  expect(text).toMatch(/^[0-Q]+$/)
  const bad = ['', text.slice(1), `${text}0`, `~${text.slice(1)}`, `\u0130${text.slice(1)}`, 'é']
  expect(bad.map(readRegisters)).toEqual(bad.map(() => undefined))
})
