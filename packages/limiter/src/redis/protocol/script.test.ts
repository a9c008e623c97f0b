/** What the scripts do apart from counting: lateness, TTLs, damaged values, extreme numbers. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { defineLimit, layoutOf, type Limit, type LimitSpec, MODULE_CHOICES } from '@sluice/core'
import { scanWithoutTtl } from '../../../../../tools/redis/server.mjs'
import { memoryStore } from '../../memory/memory-store.js'
import { manualClock } from '../../testing/index.js'
import { PARTITION_TAGS } from '../request/partitions.js'
import {
  type BatchRedis,
  fieldOf,
  keyOf,
  LAYOUTS,
  type Layout,
  outcomesOf,
  peekOf,
  placeOf,
  PREFIX,
  send,
  startBatchRedis,
  takeOf,
} from './redis.test-helper.js'
import { decodeBatch } from './batch-reply.js'
import { BatchCodec, type StoreOp } from './batch-request.js'
import { Dice } from '../../dice.test-helper.js'

const NOW = 1_767_225_600_000_000
const AT_NOW = { notAfter: 0, now: NOW }
const MAX_UNITS = 999_999_999_999_999
const YEAR_MS = 366 * 86_400_000

const limitOf = (algorithm: LimitSpec['algorithm'], max = 10, windowMs = 60_000): Limit =>
  defineLimit({ algorithm, max, windowMs })
const window = limitOf('fixed-window')
const bucket = limitOf('token-bucket')
const log = limitOf('sliding-window-log')

let redis: BatchRedis
beforeAll(async () => {
  redis = await startBatchRedis()
})
beforeEach(() => redis.client.flushall())
afterAll(() => redis.stop())

const runOne = async (layout: Layout, ops: readonly StoreOp[], times = AT_NOW) => {
  const [reply] = await redis.run(layout, [{ ops, times }])
  if (reply === undefined) throw new Error('no reply')
  return reply
}

test('a Redis without the script replies NOSCRIPT and learns it from the fallback', async () => {
  const codec = new BatchCodec({ prefix: PREFIX, layout: 'plain', tags: PARTITION_TAGS })
  for (const ops of [
    [takeOf(keyOf(1), bucket)],
    [takeOf(keyOf(1), bucket), takeOf(keyOf(2), log)],
  ]) {
    await redis.client.script('FLUSH')
    const { command, fallback } = codec.encode(ops, AT_NOW)
    await expect(send(redis.client, command.words())).rejects.toThrow(/^NOSCRIPT/)
    expect(decodeBatch(ops, await send(redis.client, fallback.words())).answers).toHaveLength(
      ops.length,
    )
    expect(decodeBatch(ops, await send(redis.client, command.words())).late).toBe(false)
  }
  const [reply] = outcomesOf(await runOne('plain', [peekOf(keyOf(1), bucket)]))
  expect(reply?.remaining).toBe(6)
  await redis.load()
})

describe.each([
  ['a take alone', [takeOf(keyOf(1), window)]],
  ['a batch', [takeOf(keyOf(1), window), takeOf(keyOf(2), log), takeOf(keyOf(3), window)]],
] as const)('%s', (_, ops) => {
  test('does nothing after its deadline, and returns the time', async () => {
    const late = await runOne('plain', ops, { notAfter: NOW - 1, now: NOW })
    expect(late).toEqual({ late: true, storeTime: NOW, answers: [] })
    expect(await redis.client.dbsize()).toBe(0)
    const inTime = await runOne('plain', ops, { notAfter: NOW, now: NOW })
    expect(inTime.late).toBe(false)
    expect(await redis.client.dbsize()).toBe(ops.length)
  })

  test('uses the time of Redis if no other is given', async () => {
    const timeOf = async () => {
      const [seconds = 0, us = 0] = (await redis.client.time()).map(Number)
      return seconds * 1_000_000 + us
    }
    const before = await timeOf()
    const { storeTime } = await runOne('plain', ops, { notAfter: before + 60_000_000, now: 0 })
    expect(storeTime).toBeGreaterThanOrEqual(before)
    expect(storeTime).toBeLessThanOrEqual(await timeOf())
  })

  test('writes nothing at all if Redis is out of memory', async () => {
    await redis.client.config('SET', 'maxmemory', '1')
    try {
      await expect(runOne('plain', ops)).rejects.toThrow(/^OOM/)
    } finally {
      await redis.client.config('SET', 'maxmemory', '0')
    }
    expect(await redis.client.dbsize()).toBe(0)
  })
})

test.each(LAYOUTS)('%s: a key lives twice as long as its state has a meaning', async (layout) => {
  const slow = defineLimit({ algorithm: 'token-bucket', max: 100, windowMs: 100_000 })
  await runOne(layout, [takeOf(keyOf(1), slow, 50), takeOf(keyOf(2), log)])
  const [hash] = fieldOf(keyOf(1))
  const ttl = await redis.client.pttl(layout === 'plain' ? placeOf(keyOf(1)) : hash)
  expect(ttl).toBeGreaterThan(95_000)
  expect(ttl).toBeLessThanOrEqual(110_000)
  expect(await redis.client.pttl(placeOf(keyOf(2)))).toBeGreaterThan(115_000)
})

describe.each(LAYOUTS)('%s: a bucket that fills up', (layout) => {
  const slow = defineLimit({ algorithm: 'token-bucket', max: 100, windowMs: 100_000 })
  const take = takeOf(keyOf(1), slow)
  const [hash] = fieldOf(keyOf(1))
  const place = layout === 'plain' ? placeOf(keyOf(1)) : hash

  test.each<[string, readonly StoreOp[]]>([
    ['alone in a batch', [take]],
    ['with others in a batch', [take, takeOf(keyOf(2), window)]],
    [
      'with its state',
      [{ verb: 'take', groups: [[{ key: keyOf(1), limit: slow, amount: 1 }]], states: true }],
    ],
  ])('lives, after every take %s, for twice as long as its state has a meaning', async (_, ops) => {
    const startedMs = Date.now()
    for (let taken = 1; taken <= 60; taken++) {
      const reply = await runOne(layout, ops)
      const ttlMs = await redis.client.pttl(place)
      expect(outcomesOf(reply)[0]?.resetAfterMs).toBe(taken * 1000)
      // However long this loop takes; Redis counts from the start of a script.
      const passedMs = Date.now() - startedMs + 10
      expect(ttlMs + passedMs).toBeGreaterThanOrEqual(2 * taken * 1000)
      expect(ttlMs).toBeLessThanOrEqual(2 * Math.max(taken * 1000, 4195) + 3 * 4195)
    }
  })
})

test('a key that lives long enough keeps its TTL', async () => {
  const place = placeOf(keyOf(1))
  await runOne('plain', [takeOf(keyOf(1), window)])
  await redis.client.pexpire(place, 99_999_999)
  for (const ops of [
    [takeOf(keyOf(1), window)],
    [takeOf(keyOf(1), window), takeOf(keyOf(2), log)],
  ]) {
    await runOne('plain', ops)
    expect(await redis.client.pttl(place)).toBeGreaterThan(99_000_000)
  }
  await runOne('plain', [takeOf(keyOf(1), window)], { notAfter: 0, now: NOW + 300_000_000 })
  expect(await redis.client.pttl(place)).toBeLessThan(130_000)
})

describe.each(LAYOUTS)('%s: a foreign value', (layout) => {
  const values = Object.values(MODULE_CHOICES).map((choice) =>
    defineLimit({
      ...choice,
      max: 10,
      windowMs: choice.algorithm === 'concurrency' ? 0 : 60_000,
    }),
  )

  async function damage(n: number, limit: Limit, bytes: Buffer): Promise<void> {
    const [hash, field] = fieldOf(keyOf(n))
    const isList = layoutOf(limit) === undefined
    if (layout === 'plain' || isList) await redis.client.set(placeOf(keyOf(n)), bytes, 'PX', 60_000)
    else await redis.client.multi().hset(hash, field, bytes).pexpire(hash, 60_000).exec()
  }

  test('counts as absent, whatever it contains, and is overwritten', async () => {
    const dice = new Dice(3)
    const sizes = [0, 1, 4, 5, 16, 19, 20, 26, 27, 28, 36, 100, 2068, 3000]
    for (let round = 0; round < 60; round++) {
      await Promise.all(
        values.map((limit, n) => {
          const bytes = Array.from({ length: dice.pick(sizes) }, () => dice.below(256))
          // Half of them begin like a value of the right kind.
          return damage(n, limit, Buffer.from(dice.oneIn(2) ? bytes : [limit.format, ...bytes]))
        }),
      )
      const whole = values.length
      const ops = [
        ...values.map((limit, n) => takeOf(keyOf(n), limit)),
        takeOf(keyOf(whole), window, 3),
        ...values.map((limit, n) => peekOf(keyOf(n), limit)),
      ]
      const outcomes = outcomesOf(await runOne(layout, ops))
      expect(outcomes[whole]?.granted).toBe(3)
      for (const outcome of outcomes) expect(outcome?.remaining).toBeGreaterThanOrEqual(0)
      for (const [n, limit] of values.entries()) {
        await runOne(layout, [takeOf(keyOf(n), limit), { verb: 'reset', key: keyOf(n) }])
      }
      await runOne(layout, [{ verb: 'reset', key: keyOf(whole) }])
    }
    expect(await scanWithoutTtl(redis.server)).toEqual([])
  })

  test('spoils only the op that needs it if it has another type', async () => {
    const [hash] = fieldOf(keyOf(1))
    const isPlain = layout === 'plain'
    await redis.client.set(hash, 'text', 'PX', 60_000)
    await redis.client.lpush(placeOf(keyOf(2)), 'list')
    const both = [
      [
        { key: keyOf(3), limit: window, amount: 1 },
        { key: keyOf(1), limit: window, amount: 1 },
      ],
    ]
    const charge = { key: keyOf(2), limit: log, amount: 1, at: NOW, debt: 0 }
    const { answers } = await runOne(layout, [
      takeOf(keyOf(1), window),
      takeOf(keyOf(3), window),
      { verb: 'take', groups: both, states: false },
      takeOf(keyOf(2), log),
      { verb: 'give', give: { key: keyOf(2), limit: log, amount: 1 } },
      { verb: 'charge', charge },
      { verb: 'charge', charge: { ...charge, key: keyOf(4) } },
      { verb: 'reset', key: keyOf(1) },
      peekOf(keyOf(3), window),
    ])
    const spoiled = answers.map((answer) => answer === 'spoiled')
    expect(spoiled).toEqual([!isPlain, false, !isPlain, true, true, true, false, !isPlain, false])
    const [[left] = []] = answers.at(-1) as readonly (readonly { readonly remaining: number }[])[]
    expect(left?.remaining).toBe(isPlain ? 8 : 9)
    expect(await redis.client.lrange(placeOf(keyOf(2)), 0, -1)).toEqual(['list'])
    expect(await redis.client.get(hash)).toBe('text')
  })
})

test('a plain counter whose key has another type starts again', async () => {
  for (const more of [[], [takeOf(keyOf(9), window)]]) {
    await redis.client.del(placeOf(keyOf(1)))
    await redis.client.lpush(placeOf(keyOf(1)), 'list')
    const [outcome] = outcomesOf(await runOne('plain', [takeOf(keyOf(1), window, 4), ...more]))
    expect(outcome?.remaining).toBe(6)
    expect(await redis.client.type(placeOf(keyOf(1)))).toBe('string')
  }
})

describe.each(LAYOUTS)('%s: extreme numbers', (layout) => {
  const edges = [1, MAX_UNITS, Number.MAX_SAFE_INTEGER]
  const limits = Object.values(MODULE_CHOICES).flatMap((choice) =>
    [0, 1000, YEAR_MS].flatMap((windowMs) =>
      [0, 1, 10_000, 1_000_000_000, MAX_UNITS].flatMap((max) => {
        try {
          return defineLimit({ ...choice, max, windowMs, name: 'edge' })
        } catch {
          return []
        }
      }),
    ),
  )

  test('give the same result in the script as in the memory store', async () => {
    const clock = manualClock(NOW)
    const { sync } = memoryStore({ clock })
    const ops: StoreOp[] = []
    const expected: unknown[] = []
    for (const [n, limit] of limits.entries()) {
      const key = keyOf(n)
      for (const amount of edges) {
        const charge = { key, limit, amount, at: NOW, debt: amount === 1 ? 0 : MAX_UNITS }
        const give = { key, limit, amount, at: NOW }
        const groups = [[{ key, limit, amount }]]
        ops.push({ verb: 'take', groups, states: false }, { verb: 'peek', groups, states: true })
        expected.push(sync.take(groups), sync.peek(groups))
        ops.push({ verb: 'charge', charge }, { verb: 'peek', groups, states: true })
        sync.charge(charge)
        expected.push(undefined, sync.peek(groups))
        ops.push({ verb: 'give', give }, { verb: 'peek', groups, states: true })
        sync.give(give)
        expected.push(undefined, sync.peek(groups))
      }
    }
    const { answers } = await runOne(layout, ops)
    for (const [index, answer] of answers.entries()) {
      const place = JSON.stringify(ops[index])
      if (answer === undefined || answer === 'spoiled') expect(answer, place).toBe(expected[index])
      else expect(expected[index], place).toMatchObject(withoutStates(answer, ops[index]))
    }
  })

  test('a call may have 64 limits, and a batch more numbers than Lua passes at once', async () => {
    const takes = Array.from({ length: 64 }, (_, n) => ({
      key: keyOf(n),
      limit: defineLimit({ algorithm: 'token-bucket', max: 100 + n, windowMs: 60_000 }),
      amount: 1,
    }))
    const call: StoreOp = { verb: 'take', groups: [takes], states: false }
    const { answers } = await runOne(
      layout,
      Array.from({ length: 60 }, () => call),
    )
    const [last = []] = answers.at(-1) as readonly (readonly { readonly remaining: number }[])[]
    expect(last.map(({ remaining }) => remaining)).toEqual(takes.map((_, n) => 40 + n))
  })
})

/** A refused take includes its state, which the memory store does not return. */
function withoutStates(answer: readonly (readonly unknown[])[], op?: StoreOp): object[][] {
  return answer.map((group) =>
    group.map((outcome) => {
      const { state, ...numbers } = outcome as { readonly state?: unknown }
      const isEmptyLog = state === undefined
      return op?.verb === 'peek' && !isEmptyLog ? { ...numbers, state } : numbers
    }),
  )
}
