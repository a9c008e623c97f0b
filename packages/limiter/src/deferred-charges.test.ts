import { type CounterKey, defineLimit } from '@sluice/core'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { memoryStore } from './index.js'
import { perUser, user } from './limiter.test-helper.js'
import { DeferredCharges } from './deferred-charges.js'
import type { Scheduler } from './periodic.js'
import { scripted, settled } from './scripted-store.test-helper.js'
import type { Charge, Store } from './store.js'
import { manualClock } from './testing/index.js'

const limit = defineLimit({ algorithm: 'fixed-window', max: 100, windowMs: 60_000 })
const keyOf = (n: number): CounterKey => ({ hi: n, lo: -n, partition: 1 })

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

function start(scheduler?: Scheduler) {
  const clock = manualClock()
  const charges: Charge[] = []
  const errors: unknown[] = []
  let atOnce = 0
  let mostAtOnce = 0
  const store: Store = {
    ...memoryStore({ clock }),
    charge: async (charge) => {
      atOnce += 1
      mostAtOnce = Math.max(mostAtOnce, atOnce)
      await Promise.resolve()
      atOnce -= 1
      const error = errors.shift()
      if (error !== undefined) throw error
      charges.push(charge)
    },
  }
  const reports = new DeferredCharges(store, () => clock.now(), scheduler)
  return { clock, charges, errors, reports, most: () => mostAtOnce }
}

/** Long enough for all charges to be sent. */
async function flushed(): Promise<void> {
  for (let i = 0; i < 100; i++) await settled()
}

describe('DeferredCharges', () => {
  test('deferred charges of a counter that is reset while they run are not retried when they fail', async () => {
    const { clock, charges, errors, reports } = start()
    reports.add(keyOf(1), limit, 2, clock.now())
    reports.add(keyOf(2), limit, 3, clock.now())
    errors.push(new Error('gone'), new Error('gone'))
    reports.flush()
    reports.forget(keyOf(1))
    await flushed()
    expect(reports.waiting).toBe(1)
    reports.isStoreAnswering = true
    reports.flush()
    await flushed()
    expect(charges.map(({ key }) => key)).toEqual([keyOf(2)])
  })

  test('deferred charges of one counter and window become one charge, at the time of the last', async () => {
    const { clock, charges, reports } = start()
    const at = clock.now()
    reports.add(keyOf(1), limit, 2, at)
    reports.add(keyOf(1), limit, 3, at + 5)
    reports.add(keyOf(2), limit, 1, at)
    reports.flush()
    await flushed()
    expect(charges).toEqual([
      { key: keyOf(1), limit, amount: 5, at: at + 5, debt: 0 },
      { key: keyOf(2), limit, amount: 1, at, debt: 0 },
    ])
    expect(reports.waiting).toBe(0)
  })

  test('deferred charges are split where the window changed, and only this and the last one are kept', async () => {
    const { clock, charges, reports } = start()
    for (const amount of [1, 2, 4, 8]) {
      reports.add(keyOf(1), limit, amount, clock.now())
      reports.add(keyOf(1), limit, amount, clock.now())
      clock.advance(60_000)
    }
    clock.advance(-60_000)
    reports.flush()
    await flushed()
    expect(charges.map(({ amount }) => amount)).toEqual([8, 16])
    reports.add(keyOf(2), limit, 1, clock.now())
    clock.advance(120_000)
    reports.flush()
    await flushed()
    expect(charges).toHaveLength(2)
    expect([reports.waiting, reports.dropped]).toEqual([0, 0])
  })

  test('deferred charges of a calendar window are split at local midnight, also of a short day', async () => {
    const { clock, charges, reports } = start()
    const daily = defineLimit({
      algorithm: 'fixed-window',
      max: 100,
      windowMs: 86_400_000,
      window: 'day',
      zone: 'Europe/Berlin',
    })
    // The day of 23 hours lies between the two.
    const times = [
      Date.UTC(2026, 2, 28, 22, 59),
      Date.UTC(2026, 2, 28, 23),
      Date.UTC(2026, 2, 29, 22),
    ]
    for (const [day, ms] of times.entries()) {
      clock.set(ms * 1000)
      reports.add(keyOf(1), daily, 1 + day, clock.now())
    }
    reports.flush()
    await flushed()
    expect(charges.map(({ amount }) => amount)).toEqual([2, 3])
  })

  test('late deferred charges go to the window in which the units were spent', async () => {
    const { clock, charges, reports } = start()
    const earlier = clock.now()
    reports.add(keyOf(1), limit, 1, earlier)
    reports.add(keyOf(2), limit, 1, earlier)
    clock.advance(60_000)
    const now = clock.now()
    reports.add(keyOf(1), limit, 4, now)
    reports.add(keyOf(3), limit, 4, now)
    for (const key of [1, 3]) {
      reports.add(keyOf(key), limit, 2, earlier + 5)
      // Usage of the window before that one no longer counts.
      reports.add(keyOf(key), limit, 8, earlier - 60_000_000)
    }
    reports.flush()
    await flushed()
    const charged = (n: number) =>
      charges.filter(({ key }) => key.hi === n).map(({ amount, at }) => [amount, at])
    expect(charged(1)).toEqual([
      [3, earlier + 5],
      [4, now],
    ])
    expect(charged(2)).toEqual([[1, earlier]])
    expect(charged(3)).toEqual([
      [2, earlier + 5],
      [4, now],
    ])
  })

  test('deferred charges that fail stop the others, and are retried when the store answers', async () => {
    const { clock, charges, errors, reports, most } = start()
    for (let n = 0; n < 200; n++) reports.add(keyOf(n), limit, 1, clock.now())
    errors.push(new Error('gone again'))
    reports.flush()
    await flushed()
    expect(charges).toHaveLength(63)
    expect(reports.waiting).toBe(137)
    reports.add(keyOf(0), limit, 4, clock.now())
    await vi.advanceTimersByTimeAsync(1000)
    expect(charges).toHaveLength(63)
    reports.isStoreAnswering = true
    await vi.advanceTimersByTimeAsync(250)
    await flushed()
    expect(charges).toHaveLength(200)
    expect(charges.find(({ key }) => key.hi === 0)?.amount).toBe(5)
    expect(most()).toBe(64)
  })

  test('deferred charges go in the order in which they came', async () => {
    const { clock, charges, reports } = start()
    for (let n = 0; n < 150; n++) reports.add(keyOf(n), limit, 1, clock.now())
    reports.flush()
    reports.flush()
    await flushed()
    expect(charges.map(({ key }) => key.hi)).toEqual(Array.from({ length: 150 }, (_, n) => n))
  })

  test('a deferred charge that may have run is not repeated, but counted', async () => {
    const { clock, charges, errors, reports } = start()
    reports.add(keyOf(1), limit, 3, clock.now())
    clock.advance(60_000)
    reports.add(keyOf(1), limit, 4, clock.now())
    errors.push(Object.assign(new Error('cut'), { silence: 'unknown' }))
    reports.flush()
    await flushed()
    expect([reports.waiting, reports.dropped]).toEqual([1, 3])
    reports.isStoreAnswering = true
    await vi.advanceTimersByTimeAsync(250)
    await flushed()
    expect(charges.map(({ amount }) => amount)).toEqual([4])
  })

  test('deferred charges beyond their bound are dropped and counted', () => {
    const { clock, reports } = start()
    for (let n = 0; n < 100_002; n++) reports.add(keyOf(n), limit, 2, clock.now())
    reports.add(keyOf(5), limit, 2, clock.now())
    expect([reports.waiting, reports.dropped]).toEqual([100_000, 4])
    reports.close()
  })

  test('deferred charges use the given scheduler', async () => {
    const waiting = new Map<() => void, number>()
    const scheduler: Scheduler = {
      after: (ms, run) => {
        waiting.set(run, ms)
        return () => waiting.delete(run)
      },
    }
    const { clock, charges, reports } = start(scheduler)
    reports.add(keyOf(1), limit, 1, clock.now())
    await vi.advanceTimersByTimeAsync(1000)
    expect([charges.length, [...waiting.values()]]).toEqual([0, [250]])
    for (const run of waiting.keys()) run()
    await flushed()
    expect(charges).toHaveLength(1)
    waiting.clear()
    reports.add(keyOf(1), limit, 1, clock.now())
    expect(waiting.size).toBe(1)
    reports.close()
    expect(waiting.size).toBe(0)
  })

  test('deferred charges end when the limiter is closed', async () => {
    const { clock, charges, reports } = start()
    reports.add(keyOf(1), limit, 1, clock.now())
    reports.close()
    reports.flush()
    await vi.advanceTimersByTimeAsync(1000)
    await flushed()
    expect(charges).toEqual([])
  })
})

describe('charges after an outage', () => {
  const rules = perUser([{ algorithm: 'fixed-window', max: 5, window: '1h' }])

  test('usage decided by fallback that the store certainly did not charge is charged when it answers again', async () => {
    const { limiter, store } = await scripted(rules)
    store.nodes = 2
    store.all('not-run')
    for (let i = 0; i < 5; i++) await limiter.check(user('u1'))
    expect(limiter.stats?.reportsWaiting).toBe(1)
    store.recover()
    await flushed()
    expect(store.charges).toMatchObject([{ amount: 3, debt: 0, limit: { max: 5 } }])
    expect((await limiter.peek(user('u1'))).remaining).toBe(2)
    expect(limiter.stats).toMatchObject({ reportsWaiting: 0, reportsDropped: 0 })
  })

  test('usage decided by fallback is charged soon after the store answered a call, even without an event', async () => {
    const { limiter, store } = await scripted(rules)
    store.all('not-run')
    await limiter.check(user('u1'))
    await vi.advanceTimersByTimeAsync(1000)
    expect(store.charges).toEqual([])
    store.all('answer')
    await limiter.check(user('u2'))
    await vi.advanceTimersByTimeAsync(250)
    expect(store.charges).toHaveLength(1)
  })

  test('usage decided by fallback is charged down to empty, never below', async () => {
    const { limiter, store, clock } = await scripted(rules)
    await limiter.check(user('u1', 4))
    store.all('not-run')
    await limiter.check(user('u1', 3))
    store.recover()
    await flushed()
    expect((await limiter.peek(user('u1'))).remaining).toBe(0)
    clock.advance(3_600_000)
    expect((await limiter.peek(user('u1'))).remaining).toBe(5)
  })

  test('usage admitted by a rule that fails open is not charged', async () => {
    const { limiter, store } = await scripted([{ ...rules[0], posture: 'open' }])
    store.all('not-run')
    await limiter.check(user('u1'))
    expect(limiter.stats?.reportsWaiting).toBe(0)
  })
})
