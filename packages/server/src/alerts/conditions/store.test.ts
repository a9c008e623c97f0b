import { describe, expect, test } from 'vitest'
import { StoreSilence } from './breaker.js'
import { ClockOffsets, ClockSpread } from './clocks.js'
import { nodeWith } from './conditions.test-helper.js'
import { findStaleRules } from './rules-stale.js'
import { StoreEvictions, StoreMemory } from './store-room.js'

const subjectsOf = (findings: readonly { readonly subject: string }[]) =>
  findings.map(({ subject }) => subject)

test('each node whose breaker is open is found', () => {
  const open = { isBreakerOpen: true, breakerOpened: 3 }
  const nodes = [nodeWith({ address: 'a' }), nodeWith({ address: 'b', ...open })]
  const stats = { state: 'ready', fleet: { size: 1, ageMs: 0 }, memory: undefined } as const
  expect(new StoreSilence().look({ ...stats, nodes })).toMatchObject([
    { subject: 'b', details: { store: 'b', opened: 3 } },
  ])
})

describe('a clock', () => {
  const clockAt = (offsetSeconds: number, errorSeconds = 0, address = 'a') =>
    nodeWith({ address, clock: { offsetSeconds, errorSeconds } })

  test('that is more than 20 ms off for three looks is found, either way', () => {
    const offsets = new ClockOffsets()
    for (let i = 0; i < 5; i++) expect(offsets.look([clockAt(0.02)])).toEqual([])
    for (let i = 0; i < 2; i++) expect(offsets.look([clockAt(-0.021)])).toEqual([])
    expect(offsets.look([clockAt(-0.021)])).toMatchObject([
      { subject: 'a', details: { offsetMs: -21 } },
    ])
    expect(offsets.look([clockAt(0.0301)])[0]?.summary).toBe(
      'The clock of Redis at a is 30.1 ms ahead of that of this node; they must agree within 20 ms.',
    )
    expect(offsets.look([clockAt(0)])).toEqual([])
    expect(offsets.look([clockAt(0.03)])).toEqual([])
  })

  test('is off only beyond what is uncertain of it', () => {
    const offsets = new ClockOffsets()
    for (let i = 0; i < 5; i++) expect(offsets.look([clockAt(0.05, 0.031)])).toEqual([])
    for (let i = 0; i < 3; i++) offsets.look([clockAt(0.05, 0.029)])
    expect(offsets.look([clockAt(0.05, 0.029)])).toHaveLength(1)
  })

  test('of a node that does not answer, or has told none, is nothing to judge by', () => {
    const offsets = new ClockOffsets()
    const nodes = [{ ...clockAt(1), isAnswering: false }, nodeWith({ clock: undefined })]
    for (let i = 0; i < 5; i++) expect(offsets.look(nodes)).toEqual([])
  })

  test('two that are more than 20 ms from each other are found, whatever ours says', () => {
    const spread = new ClockSpread()
    const nodes = [clockAt(0.105, 0.001, 'a'), clockAt(0.12, 0, 'b'), clockAt(0.09, 0.001, 'c')]
    expect([0, 1, 2].map(() => spread.look(nodes).length)).toEqual([0, 0, 1])
    expect(spread.look(nodes)).toEqual([
      {
        subject: '',
        summary:
          'The clock of Redis at b is 30 ms ahead of that at c; they must agree within 20 ms.',
        past: 'The clock of Redis at b was 30 ms ahead of that at c; they must agree within 20 ms.',
        details: { spreadMs: 30, stores: ['b', 'c'] },
      },
    ])
    expect(spread.look([clockAt(0.105, 0, 'a'), clockAt(0.12, 0, 'b')])).toEqual([])
    expect(spread.look([clockAt(5, 0, 'a')])).toEqual([])
    expect(spread.look([])).toEqual([])
  })

  test('two are from each other only beyond what is uncertain of both', () => {
    const spread = new ClockSpread()
    const nodes = [clockAt(0.03, 0.006, 'a'), clockAt(0, 0.005, 'b')]
    for (let i = 0; i < 5; i++) expect(spread.look(nodes)).toEqual([])
  })
})

describe('memory of Redis', () => {
  const using = (usedBytes: number, address = 'a', maxBytes = 100) =>
    nodeWith({ address, memory: { usedBytes, maxBytes, evictedKeys: 0 } })

  test('above 80 % is found, and until it is at 75 %', () => {
    const memory = new StoreMemory()
    const found = [80, 81, 76, 75, 80].map((used) => memory.look([using(used)]).length)
    expect(found).toEqual([0, 1, 1, 0, 0])
  })

  test('one full primary of three is enough', () => {
    const nodes = [using(10, 'a'), using(95, 'b'), using(10, 'c')]
    expect(new StoreMemory().look(nodes)).toEqual([
      {
        subject: 'b',
        summary:
          'Redis at b uses 95 % of its maxmemory; at 100 % it takes no writes, and rules answer by posture.',
        past: 'Redis at b used 95 % of its maxmemory; at 100 % it takes no writes, and rules answer by posture.',
        details: { store: 'b', usedBytes: 95, maxBytes: 100 },
      },
    ])
  })

  test('without a bound, or not told of, is never full', () => {
    expect(new StoreMemory().look([using(1e9, 'a', 0), nodeWith()])).toEqual([])
  })
})

describe('evictions', () => {
  const evicted = (evictedKeys: number, address = 'a') =>
    nodeWith({ address, memory: { usedBytes: 0, maxBytes: 0, evictedKeys } })

  test('before the first look are nobody’s news; each one after is', () => {
    const evictions = new StoreEvictions()
    expect(evictions.lookAtRedis([nodeWith()])).toEqual([])
    expect(evictions.lookAtRedis([evicted(1000)])).toEqual([])
    expect(evictions.lookAtRedis([evicted(1000)])).toEqual([])
    expect(evictions.lookAtRedis([evicted(1001)])).toMatchObject([
      { subject: 'a', details: { evicted: 1 } },
    ])
    expect(evictions.lookAtRedis([evicted(1001)])).toEqual([])
  })

  test('of a server that was started anew count from 0', () => {
    const evictions = new StoreEvictions()
    evictions.lookAtRedis([evicted(1000)])
    expect(evictions.lookAtRedis([evicted(3)])).toMatchObject([{ details: { evicted: 3 } }])
  })

  test('are told by node', () => {
    const evictions = new StoreEvictions()
    evictions.lookAtRedis([evicted(0, 'a'), evicted(0, 'b')])
    expect(subjectsOf(evictions.lookAtRedis([evicted(1, 'a'), evicted(0, 'b')]))).toEqual(['a'])
  })

  test('in the memory store are those of blocked callers', () => {
    const evictions = new StoreEvictions()
    const stats = { counters: 1000, bytes: 48_000, evicted: 500, unstored: 0 }
    expect(evictions.lookAtMemory({ ...stats, evictedBlocked: 0 })).toEqual([])
    expect(evictions.lookAtMemory({ ...stats, evictedBlocked: 2 })).toMatchObject([
      { subject: 'memory', details: { evicted: 2, counters: 1000 } },
    ])
    expect(evictions.lookAtMemory({ ...stats, evictedBlocked: 2 })).toEqual([])
  })
})

test('rules are stale when they have not been confirmed for longer than is allowed', () => {
  const look = (rulesAgeSeconds: number, rulesProblem?: string) =>
    findStaleRules({ rulesAgeSeconds, rulesProblem }, 60_000)
  expect(look(60)).toEqual([])
  expect(look(61.4)).toEqual([
    {
      subject: '',
      summary:
        'The rules in force have not been confirmed for 61 s. Changes do not reach this node.',
      past: 'The rules in force were not confirmed for 61 s. Changes did not reach this node.',
      details: { ageSeconds: 61 },
    },
  ])
  expect(look(61.4, 'Postgres does not answer')).toMatchObject([
    { details: { ageSeconds: 61, problem: 'Postgres does not answer' } },
  ])
})
