import { describe, expect, test } from 'vitest'
import { StoreOutage } from './breaker-open.js'
import { nodeWith } from './conditions.test-helper.js'
import { findStaleRules } from './rules-stale.js'
import { StoreEvictions, StoreMemory } from './store-memory.js'

const subjectsOf = (findings: readonly { readonly subject: string }[]) =>
  findings.map(({ subject }) => subject)

test('each node whose breaker is open is found', () => {
  const open = { isBreakerOpen: true, breakerOpened: 3 }
  const nodes = [nodeWith({ address: 'a' }), nodeWith({ address: 'b', ...open })]
  const stats = { state: 'ready', fleet: { size: 1, ageMs: 0 }, memory: undefined } as const
  expect(new StoreOutage().evaluate({ ...stats, nodes })).toMatchObject([
    { subject: 'b', details: { store: 'b', opened: 3 } },
  ])
})

describe('memory of Redis', () => {
  const using = (usedBytes: number, address = 'a', maxBytes = 100) =>
    nodeWith({ address, memory: { usedBytes, maxBytes, evictedKeys: 0 } })

  test('is found above 80 %, until it is at 75 %', () => {
    const memory = new StoreMemory()
    const found = [80, 81, 76, 75, 80].map((used) => memory.evaluate([using(used)]).length)
    expect(found).toEqual([0, 1, 1, 0, 0])
  })

  test('is found if one of three primaries is full', () => {
    const nodes = [using(10, 'a'), using(95, 'b'), using(10, 'c')]
    expect(new StoreMemory().evaluate(nodes)).toEqual([
      {
        subject: 'b',
        summary:
          'Redis at b uses 95 % of its maxmemory; at 100 % it rejects writes, and rules decide by posture.',
        past: 'Redis at b used 95 % of its maxmemory; at 100 % it rejects writes, and rules decide by posture.',
        details: { store: 'b', usedBytes: 95, maxBytes: 100 },
      },
    ])
  })

  test('is never full without maxmemory, or if it is unknown', () => {
    expect(new StoreMemory().evaluate([using(1e9, 'a', 0), nodeWith()])).toEqual([])
  })
})

describe('evictions', () => {
  const evicted = (evictedKeys: number, address = 'a') =>
    nodeWith({ address, memory: { usedBytes: 0, maxBytes: 0, evictedKeys } })

  test('before the first tick are ignored, and later ones reported', () => {
    const evictions = new StoreEvictions()
    expect(evictions.evaluateRedis([nodeWith()])).toEqual([])
    expect(evictions.evaluateRedis([evicted(1000)])).toEqual([])
    expect(evictions.evaluateRedis([evicted(1000)])).toEqual([])
    expect(evictions.evaluateRedis([evicted(1001)])).toMatchObject([
      { subject: 'a', details: { evicted: 1 } },
    ])
    expect(evictions.evaluateRedis([evicted(1001)])).toEqual([])
  })

  test('of a restarted server count from 0', () => {
    const evictions = new StoreEvictions()
    evictions.evaluateRedis([evicted(1000)])
    expect(evictions.evaluateRedis([evicted(3)])).toMatchObject([{ details: { evicted: 3 } }])
  })

  test('are reported by node', () => {
    const evictions = new StoreEvictions()
    evictions.evaluateRedis([evicted(0, 'a'), evicted(0, 'b')])
    expect(subjectsOf(evictions.evaluateRedis([evicted(1, 'a'), evicted(0, 'b')]))).toEqual(['a'])
  })

  test('of the memory store are those of blocked callers', () => {
    const evictions = new StoreEvictions()
    const stats = { counters: 1000, bytes: 48_000, evicted: 500, unstored: 0 }
    expect(evictions.evaluateMemory({ ...stats, evictedBlocked: 0 })).toEqual([])
    expect(evictions.evaluateMemory({ ...stats, evictedBlocked: 2 })).toMatchObject([
      { subject: 'memory', details: { evicted: 2, counters: 1000 } },
    ])
    expect(evictions.evaluateMemory({ ...stats, evictedBlocked: 2 })).toEqual([])
  })
})

test('rules are stale when they are unconfirmed for longer than configured', () => {
  const evaluate = (rulesAgeSeconds: number, rulesProblem?: string) =>
    findStaleRules({ rulesAgeSeconds, rulesProblem }, 60_000)
  expect(evaluate(60)).toEqual([])
  expect(evaluate(61.4)).toEqual([
    {
      subject: '',
      summary: 'The active rules have not been confirmed for 61 s. Changes do not reach this node.',
      past: 'The active rules were not confirmed for 61 s. Changes did not reach this node.',
      details: { ageSeconds: 61 },
    },
  ])
  expect(evaluate(61.4, 'Postgres does not answer')).toMatchObject([
    { details: { ageSeconds: 61, problem: 'Postgres does not answer' } },
  ])
})
