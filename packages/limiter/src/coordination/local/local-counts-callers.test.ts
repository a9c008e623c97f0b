import { describe, expect, test } from 'vitest'
import { START_US, settled, startLocal as start, takeOf, window100 } from '../fleet.test-helper.js'
import { LOCAL_COUNTERS_MAX } from './local-counts.js'

describe('callers of a local rule', () => {
  test('a caller that comes once costs one take and no read', async () => {
    const { local, of, learn, readsOf, time, store, stats } = start()
    const once = Array.from({ length: 20 }, (_, i) => i + 1)
    learn(0)
    for (const name of once) {
      local.take(takeOf(of, 1, 0))
      learn(name)
      await time.advance(33)
    }
    expect(once.map(readsOf)).toEqual(once.map(() => 0))
    expect(readsOf(0)).toBe(Math.floor((20 * 33) / 50))
    expect(store.charges.every(({ key }) => key.hi === 0)).toBe(true)
    // Each is kept as long as an idle counter, no longer.
    expect(stats()?.counters).toBeLessThanOrEqual(1 + Math.ceil((200 + 50) / 33))
    await time.advance(300)
    expect(stats()).toMatchObject({ counters: 0, reported: 20 })
    expect(time.waiting).toBe(0)
  })

  test('a caller that comes again before a round is decided on this node at once', async () => {
    const { learn, take, readsOf, time } = start()
    learn(1, 30)
    await time.advance(49)
    expect(take(20)).toMatchObject({ granted: 20, remaining: 50, staleMs: 49 })
    await time.advance(1)
    expect(readsOf(1)).toBe(1)
  })

  test('a caller that comes again after a round calls the store again, and is read from then on', async () => {
    const { fleet, local, of, learn, take, readsOf, time, stats } = start(window100, { size: 2 })
    learn(1, 30)
    fleet.shared.sync.charge({ ...takeOf(of), amount: 60, at: START_US, debt: 100 })
    await time.advance(50)
    expect(local.peek(takeOf(of))).toBeUndefined()
    expect(local.take(takeOf(of, 20))).toBeUndefined()
    expect(fleet.call(0, takeOf(of, 20))).toMatchObject({ granted: 0, remaining: 10 })
    expect(readsOf(1)).toBe(0)
    expect(stats()?.counters).toBe(1)
    await time.advance(50)
    expect(readsOf(1)).toBe(1)
    expect(take(10)).toMatchObject({ granted: 10, staleMs: 0 })
  })

  test.each([
    [60, 'alone on its node'],
    [60, 'among others'],
    [199, 'alone on its node'],
    [199, 'among others'],
  ] as const)('a caller that calls every %d ms, %s, stays known', async (everyMs, company) => {
    const { fleet, of, local, learn, time } = start({ ...window100, max: 1000 })
    const reads: number[] = []
    let callMs = 7
    learn(2)
    for (let i = 0; i < 2000; i++) {
      await time.advance(1)
      if (company === 'among others') fleet.call(0, takeOf(of, 0, 2))
      if (time.nowMs !== callMs) continue
      callMs += everyMs
      if (local.peek(takeOf(of)) === undefined) reads.push(time.nowMs)
      fleet.call(0, takeOf(of))
    }
    expect(reads).toEqual([7, 7 + everyMs])
  })

  test('a caller whose second call the store does not answer is still not decided by old counts', async () => {
    const { fleet, local, of, learn, time, store } = start()
    learn()
    await time.advance(60)
    store.fault = 'lost'
    expect(fleet.call(0, takeOf(of))).toBeUndefined()
    expect(local.take(takeOf(of))).toBeUndefined()
    await time.advance(200)
    expect(time.waiting).toBe(0)
  })

  test('a caller that no round has read is known again although the node is full', async () => {
    const { local, of, fleet, time, store } = start()
    const answer = store.takeNow([[takeOf(of)]], true)[0]?.[0]
    if (answer === undefined) throw new Error('no answer')
    for (let i = 0; i < LOCAL_COUNTERS_MAX; i++) local.learn(takeOf(of, 1, i), answer, 0)
    await time.advance(60)
    fleet.call(0, takeOf(of, 1, 5))
    expect(local.take(takeOf(of, 1, 5))).toBeDefined()
    expect(local.stats.get('r')?.counters).toBe(LOCAL_COUNTERS_MAX)
  })

  test('a caller gets a refund in the store while no round has read its counter', async () => {
    const { local, of, learn, time, count } = start()
    const { key, limit } = takeOf(of)
    learn(1, 30)
    await time.advance(60)
    expect(local.refund({ key, limit, amount: 10, at: START_US })).toBe(true)
    await settled()
    expect(count()).toMatchObject({ count: 20 })
  })
})
