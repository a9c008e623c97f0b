import { defineLimit, type Limit } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import type { StoreOp } from '../redis/protocol/store-op.js'
import { BatchFrames, hashOfLimit, readBatch } from './batch-frame.js'

const window = defineLimit({ algorithm: 'fixed-window', max: 5, windowMs: 60_000 })
const bucket = defineLimit({ algorithm: 'token-bucket', max: 9, windowMs: 1000 })
const key = (n: number) => ({ hi: ~n, lo: n, partition: n % 128 })
const OPS: readonly StoreOp[] = [
  {
    verb: 'take',
    states: true,
    groups: [
      [
        { key: key(1), limit: window, amount: 2 },
        { key: key(2), limit: bucket, amount: -3, at: 77 },
      ],
      [{ key: key(3), limit: window, amount: 0, gate: true }],
    ],
  },
  {
    verb: 'take',
    states: false,
    groups: [
      [
        { key: key(4), limit: bucket, amount: 4, atLeast: 1, holder: 12, durable: true },
        { key: key(5), limit: bucket, amount: 4, overdraw: true, isAfterMarks: true },
      ],
    ],
  },
  { verb: 'peek', states: false, groups: [[{ key: key(6), limit: window, amount: 1 }]] },
  { verb: 'give', give: { key: key(7), limit: window, amount: 2, at: 0, undone: true } },
  { verb: 'give', give: { key: key(8), limit: bucket, amount: 2, at: undefined, undone: false } },
  { verb: 'charge', charge: { key: key(9), limit: bucket, amount: 1, at: 5, debt: 2 } },
  { verb: 'reset', key: key(10) },
]

function payloadOf(ops: readonly StoreOp[]): Buffer {
  const { command } = new BatchFrames().encode(ops, { notAfter: 1234, now: 0 })
  return command.words()[1] as Buffer
}

function finder(...limits: readonly Limit[]) {
  const known = new Map(
    limits.map((limit) => {
      const { hi, lo } = hashOfLimit(JSON.stringify(limit))
      return [`${hi}.${lo}`, limit]
    }),
  )
  return (hi: number, lo: number) => known.get(`${hi}.${lo}`)
}

describe('a batch for a peer', () => {
  test('is read as it was written, with every field of every operation', () => {
    const request = readBatch(payloadOf(OPS), finder(window, bucket))
    expect(request).toEqual({ notAfter: 1234, ops: OPS })
  })

  test('is not read while a limit is unknown, and is sent again with all limits as text', () => {
    expect(readBatch(payloadOf(OPS), finder(window))).toBeUndefined()
    const { fallback } = new BatchFrames().encode(OPS, { notAfter: 0, now: 0 })
    expect(JSON.parse(String(fallback.words()[2]))).toEqual(
      JSON.parse(JSON.stringify([window, bucket])),
    )
  })

  test('names each limit once, however often it is used', () => {
    const ops = Array.from(
      { length: 50 },
      (_, n): StoreOp => ({
        verb: 'take',
        states: false,
        groups: [[{ key: key(n), limit: window, amount: 1 }]],
      }),
    )
    expect(readBatch(payloadOf(ops), finder(window))?.ops).toEqual(ops)
  })

  test('of more numbers than a script takes one by one is read too', () => {
    const takes = Array.from({ length: 1500 }, (_, n) => ({
      key: key(n),
      limit: window,
      amount: 1,
    }))
    const ops: readonly StoreOp[] = [{ verb: 'take', states: false, groups: [takes] }]
    expect(readBatch(payloadOf(ops), finder(window))?.ops).toEqual(ops)
  })

  test.each([
    ['nothing', []],
    ['another version', [9, 0, 0, 0]],
    ['another operation', [1, 0, 0, 1, 9]],
    ['a limit that is not in its list', [1, 0, 0, 1, 3, 1, 1, 1, 0, 1, 0, 0]],
    ['numbers after its end', [1, 0, 0, 0, 5]],
  ])('with %s is refused', (_, bytes) => {
    expect(() => readBatch(Buffer.from(bytes), finder(window))).toThrow(/has/)
  })
})
