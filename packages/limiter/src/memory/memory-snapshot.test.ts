import { defineLimit, type Limit, MODULE_CHOICES, RATE_MODULE_NAMES } from '@sluice/core'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createLimiter } from '../index.js'
import { manualClock } from '../testing/index.js'
import { readSnapshot, writeSnapshot } from './memory-snapshot.js'
import { memoryStore } from './memory-store.js'

const hourly = defineLimit({ algorithm: 'fixed-window', max: 5, windowMs: 3_600_000 })
const keyOf = (n: number) => ({ hi: Math.imul(n, 0x9e3779b1) | 0, lo: n | 0, partition: 3 })
const take = (n: number, limit: Limit, amount = 1, durable = true) => [
  [{ key: keyOf(n), limit, amount, durable }],
]

function stores() {
  const clock = manualClock()
  return { clock, before: memoryStore({ clock }), after: memoryStore({ clock }) }
}

test('a limiter with the same secret continues the counters of its durable rules', () => {
  const { clock, before, after } = stores()
  const limits = [{ algorithm: 'fixed-window', max: 5, window: '1h' }]
  const rules = [
    { id: 'kept', by: ['user'], limits, durable: true },
    { id: 'lost', by: ['user'], limits },
  ]
  const secret = new Uint8Array(16)
  const limiter = createLimiter({ rules, clock, store: before, secret })
  expect(limiter.hasDurable).toBe(true)
  limiter.checkSync({ attributes: { user: 'u1' }, cost: 3 })
  expect(after.restore(before.snapshot())).toBe(1)
  const next = createLimiter({ rules, clock, store: after, secret })
  const remaining = next.checkSync({ attributes: { user: 'u1' } }).policies()
  expect(remaining.map((policy) => policy.remaining)).toEqual([1, 4])
  next.setRules(rules.slice(1))
  expect(next.hasDurable).toBe(false)
})

describe('a snapshot', () => {
  test('restores every state of every algorithm exactly in another store', () => {
    const rates = RATE_MODULE_NAMES.map((name) =>
      defineLimit({ ...MODULE_CHOICES[name], max: 7, windowMs: 61_000 }),
    )
    const limits = [...rates, defineLimit({ algorithm: 'concurrency', max: 7, windowMs: 0 })]
    const { clock, before, after } = stores()
    for (let n = 0; n < 60; n++) {
      for (const [i, limit] of limits.entries()) before.sync.take(take(n * 10 + i, limit))
      clock.advance(137)
    }
    const restored = after.restore(before.snapshot())
    expect(restored).toBe(before.stats().counters)
    for (let n = 0; n < 60; n++) {
      for (const [i, limit] of limits.entries()) {
        const asked = take(n * 10 + i, limit)
        expect(after.sync.peek(asked)).toEqual(before.sync.peek(asked))
      }
    }
    expect(after.snapshot()).toEqual(before.snapshot())
  })

  test('contains only durable counters, whichever take of a group created them', () => {
    const { before, after } = stores()
    before.sync.take(take(1, hourly, 1, false))
    before.sync.take([...take(2, hourly), ...take(3, hourly)])
    before.sync.take([[...(take(4, hourly)[0] ?? []), ...(take(5, hourly, 1, false)[0] ?? [])]])
    expect(after.restore(before.snapshot())).toBe(3)
    const used = [1, 2, 3, 4, 5].map((n) => after.sync.peek(take(n, hourly))[0]?.[0]?.state)
    expect(used.map((state) => state !== undefined)).toEqual([false, true, true, true, false])
  })

  test('keeps a counter durable when its limit changes', () => {
    const { before, after } = stores()
    const bucket = (max: number) =>
      defineLimit({ algorithm: 'token-bucket', max, windowMs: 60_000 })
    before.sync.take(take(1, bucket(10)))
    before.sync.take(take(1, bucket(20)))
    before.sync.take(take(2, hourly))
    before.sync.take(take(2, bucket(10)))
    expect(after.restore(before.snapshot())).toBe(2)
  })

  test('omits expired counters, when it is written and when it is read', () => {
    const { clock, before, after } = stores()
    before.sync.take(take(1, hourly))
    clock.advance(3_600_000)
    before.sync.take(take(2, hourly))
    const snapshot = before.snapshot()
    expect(memoryStore({ clock }).restore(snapshot)).toBe(1)
    clock.advance(3_600_000)
    expect(after.restore(snapshot)).toBe(0)
    expect(after.stats().counters).toBe(0)
  })

  test('replaces no existing counter', () => {
    const { before, after } = stores()
    before.sync.take(take(1, hourly, 1))
    after.sync.take(take(1, hourly, 4))
    expect(after.restore(before.snapshot())).toBe(0)
    expect(after.sync.peek(take(1, hourly, 0))[0]?.[0]?.remaining).toBe(1)
  })

  test('of an empty store is valid', () => {
    const { before, after } = stores()
    expect(after.restore(before.snapshot())).toBe(0)
  })

  test.each([
    ['nothing', new Uint8Array(0), /too few bytes/],
    ['text', new TextEncoder().encode('{"counters":[]}, and so on'), /something else/],
    ['no bytes at all', 'sluice' as never, /too few bytes/],
  ])('is refused for %s', (_, bytes, message) => {
    expect(() => memoryStore().restore(bytes)).toThrow(message)
  })

  test('with any byte changed, removed or added is refused and restores nothing', () => {
    const { before, after } = stores()
    const log = defineLimit({ algorithm: 'sliding-window-log', max: 9, windowMs: 60_000 })
    for (let n = 0; n < 20; n++) before.sync.take(take(n, n % 2 === 0 ? hourly : log))
    const whole = before.snapshot()
    const damage = fc.record({
      at: fc.nat({ max: whole.length - 1 }),
      by: fc.integer({ min: 1, max: 255 }),
      cut: fc.option(fc.nat({ max: whole.length - 1 })),
    })
    fc.assert(
      fc.property(damage, ({ at, by, cut }) => {
        const bytes = cut === null ? whole.slice() : whole.slice(0, cut)
        if (cut === null) bytes[at] = (bytes[at] ?? 0) ^ by
        expect(() => after.restore(bytes)).toThrow(/snapshot: found .*; accepted: the bytes/)
      }),
      { numRuns: 500 },
    )
    const longer = new Uint8Array(whole.length + 8)
    longer.set(whole)
    expect(() => after.restore(longer)).toThrow(/damaged/)
    expect(after.stats().counters).toBe(0)
  })
})

test('a snapshot keeps the partition of a counter, and the stored name `lent` of `borrowable`', () => {
  const limit = defineLimit({ algorithm: 'token-bucket', max: 10, windowMs: 1000, waitMs: 500 })
  const state = { at: 1, used: 2, part: 3 }
  const stored = { key: { hi: 1, lo: -2, partition: 127 }, limit, state, isDurable: false }
  const bytes = writeSnapshot([stored, { ...stored, isDurable: true }])
  expect(new TextDecoder().decode(bytes)).toContain('"maxWaitUs":500000,"lent":5,"scale":1')
  const [read, durable] = readSnapshot(bytes)
  expect(read).toEqual(stored)
  expect(durable).toEqual({ ...stored, isDurable: true })
  expect(JSON.stringify(read?.limit)).toBe(JSON.stringify(limit))
})
