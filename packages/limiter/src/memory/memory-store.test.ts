import { describe, expect, test } from 'vitest'
import { defineLimit } from '@sluice/core'
import { manualClock, storeConformance } from '../testing/index.js'
import { MEMORY_COUNTERS_MAX, memoryStore, placedStore } from './memory-store.js'

describe('the memory store passes the test suite of all stores', () => {
  const cases = storeConformance(() => {
    const clock = manualClock()
    return { clock, store: memoryStore({ clock }) }
  })
  for (const { name, run } of cases) test(name, run)
})

describe('creating a memory store throws', () => {
  test.each([0, -1, 1.5, Number.NaN, 1e9])('for %s counters', (maxCounters) => {
    expect(() => memoryStore({ maxCounters })).toThrow(
      /maxCounters: found .*; accepted: a whole number/,
    )
  })
})

test('a memory store of the largest size works, and one counter more is refused', () => {
  const store = memoryStore({ clock: manualClock(), maxCounters: MEMORY_COUNTERS_MAX })
  expect(store.sync.take(take(1))[0]?.[0]?.remaining).toBe(1)
  expect(store.stats().counters).toBe(1)
  expect(() => memoryStore({ maxCounters: MEMORY_COUNTERS_MAX + 1 })).toThrow(
    `maxCounters: found ${MEMORY_COUNTERS_MAX + 1}; accepted: a whole number from 1 to 67108862`,
  )
})

const hourly = defineLimit({ algorithm: 'fixed-window', max: 2, windowMs: 3_600_000 })
const keyOf = (n: number) => ({
  hi: Math.imul(n, 0x9e3779b1) | 0,
  lo: Math.imul(n, 0x85ebca6b) | 0,
  partition: 0,
})
const take = (n: number, amount = 1, limit = hourly) => [[{ key: keyOf(n), limit, amount }]]

describe('a full memory store', () => {
  function full(capacity: number, blocked: number) {
    const clock = manualClock()
    const store = memoryStore({ clock, maxCounters: capacity })
    for (let n = 0; n < capacity; n++) store.sync.take(take(n, n < blocked ? 2 : 1))
    const isBlocked = (n: number) => store.sync.peek(take(n))[0]?.[0]?.retryAfterMs !== 0
    return { clock, store, isBlocked }
  }

  test('evicts unblocked counters and no blocked one', () => {
    const { store, isBlocked } = full(1000, 100)
    for (let n = 10_000; n < 60_000; n++) store.sync.take(take(n))
    for (let n = 0; n < 100; n++) expect(isBlocked(n)).toBe(true)
    expect(store.stats()).toMatchObject({ counters: 1000, evicted: 50_000, evictedBlocked: 0 })
  })

  test('reuses a single unblocked record rather than freeing a blocked caller', () => {
    const { store, isBlocked } = full(1000, 999)
    for (let n = 10_000; n < 15_000; n++) store.sync.take(take(n))
    for (let n = 0; n < 999; n++) expect(isBlocked(n)).toBe(true)
    expect(store.stats().evictedBlocked).toBe(0)
    expect(store.stats().unstored).toBeGreaterThan(0)
  })

  test('of blocked callers alone evicts the one that is free soonest, and counts it', () => {
    const { store } = full(1000, 1000)
    for (let n = 10_000; n < 11_000; n++) store.sync.take(take(n, 2))
    const { counters, evictedBlocked } = store.stats()
    expect(counters).toBe(1000)
    expect(evictedBlocked).toBeGreaterThan(0)
  })

  test('reuses the records of expired counters', () => {
    const { clock, store } = full(1000, 1000)
    clock.advance(3_600_000)
    for (let n = 10_000; n < 11_000; n++) store.sync.take(take(n))
    expect(store.stats()).toMatchObject({ counters: 1000, evicted: 0, unstored: 0 })
  })
})

describe('a memory store that is not full', () => {
  test('drops expired counters while new ones are added', () => {
    const clock = manualClock()
    const store = memoryStore({ clock })
    for (let n = 0; n < 5000; n++) store.sync.take(take(n))
    clock.advance(3_600_000)
    for (let n = 5000; n < 10_000; n++) store.sync.take(take(n))
    expect(store.stats().counters).toBe(5000)
  })

  test('keeps expired counters for one more window if calls may be placed in it', () => {
    const clock = manualClock()
    const store = placedStore({ clock })
    const untilEdgeMs = hourly.windowMs - ((clock.now() / 1000) % hourly.windowMs)
    store.sync.take(take(0, 2))
    clock.advance(untilEdgeMs + 1)
    for (let n = 1; n < 100; n++) store.sync.take(take(n))
    clock.advance(-2)
    expect(store.sync.take(take(0))[0]?.[0]?.granted).toBe(0)
    clock.advance(2 * hourly.windowMs + 1)
    for (let n = 100; n < 300; n++) store.sync.take(take(n))
    expect(store.stats().counters).toBe(200)
  })

  test('needs at most 48 bytes per counter, and slightly more only while it grows', () => {
    const store = memoryStore({ clock: manualClock() })
    let within = 0
    for (let n = 1; n <= 400_000; n++) {
      store.sync.take(take(n))
      if (n < 100_000 || n % 1000 !== 0) continue
      const bytes = store.stats().bytes / n
      expect(bytes).toBeLessThan(58)
      if (bytes <= 48) within += 1
    }
    expect(within).toBeGreaterThan(200)
  })

  test('finds every counter while it grows, except those that were reset', () => {
    const store = memoryStore({ clock: manualClock() })
    const wide = defineLimit({ algorithm: 'fixed-window', max: 1_000_000, windowMs: 3_600_000 })
    const counts = new Map<number, number>()
    let seed = 42
    for (let i = 0; i < 300_000; i++) {
      seed = (Math.imul(seed, 1103515245) + 12345) >>> 0
      const n = (seed >>> 8) % 60_000
      if (seed % 5 === 0) {
        store.sync.reset(keyOf(n))
        counts.delete(n)
        continue
      }
      const count = (counts.get(n) ?? 0) + 1
      counts.set(n, count)
      const remaining = store.sync.take(take(n, 1, wide))[0]?.[0]?.remaining
      // An expectation takes longer than a call, so it is made only where it fails.
      if (remaining !== 1_000_000 - count) expect(remaining).toBe(1_000_000 - count)
    }
    expect(store.stats().counters).toBe(counts.size)
  })

  test('frees the entries of a log when another algorithm replaces it', () => {
    const store = memoryStore({ clock: manualClock() })
    const log = defineLimit({ algorithm: 'sliding-window-log', max: 100, windowMs: 60_000 })
    for (let n = 0; n < 50; n++) store.sync.take(take(1, 1, log))
    const withLog = store.stats().bytes
    store.sync.take(take(1))
    expect(store.stats().bytes).toBeLessThan(withLog)
  })
})

describe('a counter whose limit changes', () => {
  const bucket = (max: number, more: object = {}) =>
    defineLimit({ algorithm: 'token-bucket', max, windowMs: 60_000, burst: 100, ...more })
  const left = (store: ReturnType<typeof memoryStore>, limit = hourly) =>
    store.sync.peek(take(1, 0, limit))[0]?.[0]?.remaining

  test('is kept until it expires under the tightened limit', () => {
    const clock = manualClock()
    const store = memoryStore({ clock })
    store.sync.take(take(1, 100, bucket(100)))
    store.sync.take(take(1, 1, bucket(1)))
    clock.advance(61_000)
    for (let n = 100; n < 200; n++) store.sync.take(take(n, 1, bucket(1)))
    expect(left(store, bucket(1))).toBe(1)
  })

  test('is kept for the longest window of the tiers that share it', () => {
    const clock = manualClock()
    const store = memoryStore({ clock })
    const window = (windowMs: number) =>
      defineLimit({ algorithm: 'fixed-window', max: 5, windowMs, name: 'quota' })
    store.sync.take(take(1, 4, window(3_600_000)))
    store.sync.take(take(1, 1, window(60_000)))
    clock.advance(60_000)
    for (let n = 100; n < 200; n++) store.sync.take(take(n, 1))
    expect(left(store, window(3_600_000))).toBe(0)
  })

  test('to another algorithm is not misread by a refusal', () => {
    const store = memoryStore({ clock: manualClock() })
    store.sync.take(take(1, 2))
    const none = defineLimit({ algorithm: 'token-bucket', max: 0, windowMs: 60_000 })
    store.sync.take(take(1, 1, none))
    expect(left(store)).toBe(0)
  })
})
