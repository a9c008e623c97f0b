import { describe, expect, test } from 'vitest'
import { defineLimit, MODULE_CHOICES, RATE_MODULE_NAMES, SluiceError } from '@sluice/core'
import { decodeBatch } from './batch-reply.js'
import type { StoreOp } from './batch-request.js'
import { Dice } from '../../dice.test-helper.js'

const limits = [
  ...RATE_MODULE_NAMES.map((name) =>
    defineLimit({ ...MODULE_CHOICES[name], max: 10, windowMs: 1000 }),
  ),
  defineLimit({ algorithm: 'concurrency', max: 10, windowMs: 0 }),
]
const key = { hi: 1, lo: 2, partition: 3 }
const bucket = defineLimit({ algorithm: 'token-bucket', max: 10, windowMs: 1000 })
const take = (verb: 'take' | 'peek' = 'take', limit = bucket): StoreOp => ({
  verb,
  groups: [[{ key, limit, amount: 3 }]],
  states: true,
})
const reset: StoreOp = { verb: 'reset', key }

/** Small numbers as the script packs them. */
function packed(...numbers: readonly number[]): Buffer {
  return Buffer.from([0x90 + numbers.length, ...numbers.map((n) => (n < 0 ? 256 + n : n))])
}

const plain = { resetAfterMs: 9, remaining: 7, retryAfterMs: 0, delayMs: 0 }

test('an outcome without a mark has the units left, the reset and the usual values', () => {
  expect(decodeBatch([take()], packed(1, 50, 7, 9))).toEqual({
    late: false,
    storeTime: 50,
    answers: [[[{ ...plain, granted: 3, at: 50 }]]],
  })
  expect(decodeBatch([take('peek')], packed(1, 50, 7, 9)).answers).toEqual([
    [[{ ...plain, granted: 0, at: 50 }]],
  ])
})

test('a mark decides which numbers follow', () => {
  const numbers = [1, 50, -31, 7, 9, 6, 2, 4, -8, 3, 11, 12, 13]
  expect(decodeBatch([take()], packed(...numbers)).answers).toEqual([
    [
      [
        {
          ...plain,
          granted: 2,
          retryAfterMs: 5,
          delayMs: 4,
          at: 42,
          state: { at: 11, used: 12, part: 13 },
        },
      ],
    ],
  ])
  expect(decodeBatch([take()], packed(1, 50, -17, 7, 9, 0, 0)).answers).toEqual([
    [[{ ...plain, granted: 0, retryAfterMs: null, at: 50, state: undefined }]],
  ])
})

test('a late batch did nothing', () => {
  const reply = decodeBatch([take(), reset], packed(0, 50))
  expect(reply).toEqual({ late: true, storeTime: 50, answers: [] })
})

test('an op may be spoiled or have no result', () => {
  const ops = [take(), reset, reset, { ...take(), groups: [] }, { ...take('peek'), groups: [] }]
  expect(decodeBatch(ops as StoreOp[], packed(1, 50, -32, -32, 0)).answers).toEqual([
    'spoiled',
    'spoiled',
    undefined,
    [[]],
    [],
  ])
})

describe('a reply that the script cannot have sent is an error with a code', () => {
  test.each([
    ['null', null],
    ['a number', 5],
    ['a list', [packed(1, 50, 7, 9)]],
    ['another start', packed(2, 50, 7, 9)],
    ['too little', packed(1, 50, 7)],
    ['too much', packed(1, 50, 7, 9, 9)],
    ['an unknown mark', packed(1, 50, -33, 7, 9)],
    ['a number below 0', packed(1, 50, -2, 7, 9, -3)],
    ['a state of another size', packed(1, 50, -16, 7, 9, 2, 1, 1)],
    ['text', Buffer.from('OK')],
  ])('%s', (_, reply) => {
    expect(() => decodeBatch([take()], reply)).toThrow(
      expect.objectContaining({ code: 'STORE_FAILED' }),
    )
  })

  test('random bytes, and replies with a byte changed', () => {
    const dice = new Dice(7)
    const ops = [...limits.flatMap((limit) => [take('peek', limit), take('take', limit)]), reset]
    for (let n = 0; n < 20_000; n++) {
      const size = dice.below(60)
      const bytes = Buffer.from(Array.from({ length: size }, () => dice.below(256)))
      if (dice.oneIn(2)) bytes.set([0xdc, 0, dice.below(60), 1, 50].slice(0, size))
      try {
        decodeBatch(ops, bytes)
      } catch (error) {
        expect(error).toBeInstanceOf(SluiceError)
      }
    }
  })
})
