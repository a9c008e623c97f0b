import { describe, expect, test } from 'vitest'
import {
  type CounterKey,
  defineAdapterLimit,
  defineLimit,
  type Limit,
  type Take,
} from '@sluice/core'
import type { Groups } from '../../store.js'
import { PARTITION_TAGS } from '../request/partitions.js'
import { BatchCodec, type StoreOp } from './batch-request.js'
import { BATCH, settleOneScript, takeOneScript, takeTwoScript } from './batch-scripts.js'

const BUCKET = { algorithm: 'token-bucket', max: 10, windowMs: 1000 } as const
const bucket = defineLimit(BUCKET)
const log = defineLimit({ algorithm: 'sliding-window-log', max: 10, windowMs: 1000 })
const sliding = defineLimit({ algorithm: 'sliding-window-counter', max: 10, windowMs: 1000 })
const charging = defineLimit({ ...BUCKET, onRefusal: 'charge' })
const mark = defineAdapterLimit({
  algorithm: 'fixed-window',
  start: 'call',
  max: 1,
  windowMs: 30_000,
})
const key = (lo: number, partition = 0): CounterKey => ({ hi: 0, lo, partition })
const NO_TIMES = { notAfter: 0, now: 0 }

const codecOf = (layout: 'plain' | 'packed') =>
  new BatchCodec({ prefix: 'p', layout, tags: PARTITION_TAGS })
const take = (lo: number, limit = bucket): StoreOp => ({
  verb: 'take',
  groups: [[{ key: key(lo), limit, amount: 1 }]],
  states: false,
})

const one = { key: key(1), limit: bucket, amount: 1 }
const besideSliding = (more: Partial<Take>): StoreOp => ({
  verb: 'take',
  groups: [[{ ...one, ...more }], [{ ...one, key: key(2), limit: sliding }]],
  states: false,
})

function keysOf(layout: 'plain' | 'packed', ops: readonly StoreOp[]): readonly string[] {
  const words = codecOf(layout).encode(ops, NO_TIMES).command.words().map(String)
  return words.slice(3, 3 + Number(words[2]))
}

describe('the keys of a batch', () => {
  test('list its counters, each once: values first, then logs, then those that are only reset', () => {
    const ops: readonly StoreOp[] = [
      { verb: 'reset', key: key(1) },
      take(2, log),
      take(3),
      { verb: 'give', give: { key: key(2), limit: log, amount: 1 } },
      { verb: 'charge', charge: { key: key(4, 1), limit: bucket, amount: 1, at: 0, debt: 0 } },
      take(3),
    ]
    expect(keysOf('plain', ops)).toEqual([
      'p:{5n3}:0000000000000003',
      'p:{d5m}:0000000000000004',
      'p:{5n3}:0000000000000002',
      'p:{5n3}:0000000000000001',
    ])
  })

  test('list hashes, each once, and logs in the packed layout', () => {
    expect(keysOf('packed', [take(1), take(1025), take(2), take(3, log)])).toEqual([
      'p:{5n3}:p001',
      'p:{5n3}:p002',
      'p:{5n3}:0000000000000003',
    ])
    expect(keysOf('packed', [{ verb: 'reset', key: key(7) }])).toEqual([
      'p:{5n3}:p007',
      'p:{5n3}:0000000000000007',
    ])
  })

  test('have 16 digits whatever the signs of their hash', () => {
    const op: StoreOp = {
      verb: 'reset',
      key: { hi: -2, lo: 0x7fff_ffff, partition: 127 },
    }
    expect(keysOf('plain', [op])).toEqual([`p:{${PARTITION_TAGS[127]}}:fffffffe7fffffff`])
  })
})

describe('a command', () => {
  const codec = codecOf('plain')

  test('keeps its bytes while others are encoded', () => {
    const first = codec.encode([take(1), take(2)], NO_TIMES)
    const bytes = Buffer.from(first.command.bytes())
    for (let n = 0; n < 10; n++) codec.encode([take(n), take(n + 5, log)], NO_TIMES)
    expect(Buffer.from(first.command.bytes())).toEqual(bytes)
  })

  test('has the same arguments as its bytes', () => {
    const { command } = codec.encode([take(1), take(2)], NO_TIMES)
    const words = command.words()
    const head = `*${words.length}\r\n`
    const spelled = words.map((word) => `$${word.length}\r\n${word.toString('latin1')}\r\n`)
    expect(Buffer.from(command.bytes()).toString('latin1')).toBe(head + spelled.join(''))
  })

  test('has a fallback that differs in how it names the script', () => {
    const { command, fallback } = codec.encode([take(1), take(2)], NO_TIMES)
    const [evalsha, sha, ...rest] = command.words().map(String)
    expect([evalsha, sha?.length]).toEqual(['EVALSHA', 40])
    expect(fallback.words().map(String)).toEqual(['EVAL', BATCH.source, ...rest])
    expect(fallback.bytes().length).toBeGreaterThan(BATCH.source.length)
  })

  test.each([
    ['a take alone', [take(1)], takeOneScript(bucket)],
    ['two takes', [take(1), take(2)], BATCH],
    ['a log', [take(1, log)], BATCH],
    ['a limit that charges on refusal', [take(1, charging)], BATCH],
    ['a take with its state', [{ ...take(1), states: true }], BATCH],
    ['a take of less', [{ ...take(1), groups: withAtLeast(1) }], BATCH],
    ['a gate', [{ ...take(1), groups: [[{ ...one, amount: 0, gate: true }]] }], BATCH],
    ['an overdraw', [{ ...take(1), groups: [[{ ...one, overdraw: true }]] }], BATCH],
    ['a take that gives back', [{ ...take(1), groups: [[{ ...one, amount: -1 }]] }], BATCH],
    ['an overdraw beside a sliding window', [besideSliding({ overdraw: true })], BATCH],
    ['two takes in two groups', [besideSliding({})], takeTwoScript(bucket, sliding)],
    ['a settle', [settle(bucket)], settleOneScript(mark, bucket)],
    ['a settle of a limit without a fast path', [settle(sliding)], BATCH],
    ['two settles', [settle(bucket), settle(bucket)], BATCH],
    ['a reset', [{ verb: 'reset', key: key(1) }], BATCH],
    ['nothing', [], BATCH],
  ] as const)('runs the script for %s', (_, ops, script) => {
    const [, source] = codec.encode(ops, NO_TIMES).fallback.words()
    expect(String(source)).toBe(script?.source)
  })
})

function settle(limit: Limit): StoreOp {
  const change = { key: key(2), limit, amount: -1, at: 1 }
  return {
    verb: 'take',
    groups: [[{ key: key(1), limit: mark, amount: 1 }], [change]],
    states: false,
  }
}

function withAtLeast(atLeast: number): Groups<{
  readonly key: CounterKey
  readonly limit: typeof bucket
  readonly amount: number
  readonly atLeast: number
}> {
  return [[{ key: key(1), limit: bucket, amount: 1, atLeast }]]
}

describe('an invalid number is refused before anything is sent', () => {
  const codec = codecOf('plain')
  const give = { key: key(1), limit: bucket, amount: 1 }
  const charge = { ...give, at: 0, debt: 0 }
  test.each([-1, 1.5, Number.NaN, Infinity, 2 ** 53, '1' as unknown as number])('%s', (bad) => {
    const amounts: readonly StoreOp[] = [
      { verb: 'give', give: { ...give, amount: bad } },
      { verb: 'charge', charge: { ...charge, amount: bad } },
      // A take of an amount below 0 gives back.
      ...(bad === -1 ? [] : [{ ...take(1), groups: [[{ ...give, amount: bad }]] } as StoreOp]),
    ]
    for (const op of amounts) {
      expect(() => codec.encode([op], NO_TIMES)).toThrow(/^amount: found .*; accepted: a whole/)
    }
    const ops: readonly StoreOp[] = [
      { verb: 'take', groups: [[{ ...give, amount: -1, at: bad }]], states: false },
      { verb: 'take', groups: withAtLeast(bad), states: false },
      { verb: 'give', give: { ...give, at: bad } },
      { verb: 'charge', charge: { ...charge, at: bad } },
      { verb: 'charge', charge: { ...charge, debt: bad } },
      take(1, { ...bucket, q: bad }),
      take(1, { ...bucket, debt: bad }),
      { verb: 'reset', key: key(1, bad) },
    ]
    for (const op of ops) {
      expect(() => codec.encode([op], NO_TIMES)).toThrow(
        expect.objectContaining({ code: 'OPTION_INVALID' }),
      )
    }
    expect(() => codec.encode([take(1)], { notAfter: bad, now: 0 })).toThrow(/^notAfter: found/)
    expect(() => codec.encode([take(1)], { notAfter: 0, now: bad })).toThrow(/^now: found/)
  })

  test('more counters than a script can have are refused', () => {
    const takes = Array.from({ length: 5000 }, (_, n) => take(n))
    expect(() => codec.encode(takes, NO_TIMES)).toThrow(/^counters of one batch: .* 4096 at most$/)
    expect(keysOf('plain', [take(1), take(2)])).toHaveLength(2)
  })
})
