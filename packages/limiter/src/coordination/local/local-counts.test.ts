import { describe, expect, test } from 'vitest'
import {
  compiled,
  START_US,
  settled,
  startLocal as start,
  takeOf,
  window100,
} from '../fleet.test-helper.js'
import { LOCAL_COUNTERS_MAX } from './local-counts.js'

describe('LocalCounts', () => {
  test('a local counter that is unknown is left to the store, whose answer makes it known', () => {
    const { local, of, fleet, take } = start()
    expect(local.take(takeOf(of))).toBeUndefined()
    fleet.call(0, takeOf(of, 30))
    expect(take(20)).toMatchObject({ granted: 20, remaining: 50, retryAfterMs: 0, delayMs: 0 })
  })

  test('a local counter is not learned from a missing answer, nor from an answer without a state', () => {
    const { local, of } = start()
    local.learn(takeOf(of), 'unknown', 0)
    local.learn(takeOf(of), 'not-run', 0)
    const outcome = {
      granted: 1,
      remaining: 9,
      resetAfterMs: 1,
      retryAfterMs: 0,
      delayMs: 0,
      at: 0,
    }
    local.learn(takeOf(of), outcome, 0)
    expect(local.take(takeOf(of))).toBeUndefined()
  })

  test('a local counter without a state in the store is known as unused', () => {
    const { fleet, of, local, take } = start()
    fleet.call(0, takeOf(of, 0))
    expect(local.peek(takeOf(of))).toMatchObject({ remaining: 100, state: undefined })
    expect(take(100).granted).toBe(100)
  })

  test('a local counter is not overwritten by a late answer', () => {
    const { fleet, of, local, store, take } = start()
    const straggler = store.takeNow([[takeOf(of)]], true)[0]?.[0]
    fleet.call(0, takeOf(of, 10))
    take(50)
    if (straggler !== undefined) local.learn(takeOf(of), straggler, 0)
    expect(local.peek(takeOf(of))).toMatchObject({ remaining: 39 })
  })

  test('a local counter counts what other first calls took whose answers come later', () => {
    const { of, local, store, take } = start()
    const answers = [10, 20, 30].map((amount) => store.takeNow([[takeOf(of, amount)]], true))
    const [first, ...more] = answers.map(([row]) => row?.[0])
    const learn = (answer = first) => answer !== undefined && local.learn(takeOf(of), answer, 0)
    learn(first)
    take(5)
    for (const answer of more.toReversed()) learn(answer)
    expect(take(0)).toMatchObject({ remaining: 100 - 60 - 5 })
  })

  test('a local counter counts late first answers while its usage is being reported, and nothing twice', async () => {
    const { of, fleet, local, store, time, take } = start()
    fleet.call(0, takeOf(of, 10))
    take(50)
    const answer = store.takeNow([[takeOf(of, 20)]], true)[0]?.[0]
    store.delayMs = 10
    await time.advance(65)
    if (answer === undefined) throw new Error('no answer')
    local.learn(takeOf(of), answer, 0)
    expect(take(0)).toMatchObject({ remaining: 100 - 10 - 50 - 20 })
    local.learn(takeOf(of), answer, 0)
    expect(take(0)).toMatchObject({ remaining: 100 - 10 - 50 - 20 })
    await time.advance(10)
    expect(take(0)).toMatchObject({ remaining: 100 - 10 - 50 - 20 })
    local.learn(takeOf(of), answer, 0)
    expect(take(0)).toMatchObject({ remaining: 100 - 10 - 50 - 20 })
  })

  test('a local counter counts a running report once if late first answers include it', async () => {
    const { of, fleet, local, store, time, take } = start()
    fleet.call(0, takeOf(of, 10))
    take(50)
    store.delayMs = 10
    await time.advance(65)
    // The report has reached the store, and is not answered yet.
    const answer = store.takeNow([[takeOf(of, 20)]], true)[0]?.[0]
    if (answer === undefined) throw new Error('no answer')
    local.learn(takeOf(of), answer, 0)
    expect(take(0)).toMatchObject({ remaining: 100 - 10 - 50 - 20 })
  })

  test('a local counter ignores late first answers once a round has read it', async () => {
    const { of, fleet, local, store, time, take } = start()
    fleet.call(0, takeOf(of, 10))
    take(0)
    const answer = store.takeNow([[takeOf(of, 20)]], true)[0]?.[0]
    fleet.shared.sync.give({ ...takeOf(of, 20), at: START_US })
    await time.advance(50)
    if (answer !== undefined) local.learn(takeOf(of), answer, 0)
    expect(take(0)).toMatchObject({ remaining: 90 })
  })

  test('a local counter refuses what does not fit, and a refusal takes nothing', async () => {
    const { take, learn, time, store } = start()
    learn()
    expect(take(100)).toMatchObject({ granted: 0, remaining: 99, retryAfterMs: 60_000 })
    expect(take(101).retryAfterMs).toBeNull()
    expect(take(99).granted).toBe(99)
    await time.advance(100)
    expect(store.charges.map(({ amount }) => amount)).toEqual([99])
  })

  test('a local counter decides an amount of 0 on this node, and changes nothing', async () => {
    const { take, learn, time, store } = start()
    learn(1, 100)
    expect(take(0)).toMatchObject({ granted: 0, remaining: 0, retryAfterMs: 0 })
    await time.advance(100)
    expect(store.charges).toEqual([])
  })

  test('a local counter reports the age of its state', async () => {
    const { take, learn, time, store } = start()
    learn()
    await time.advance(40)
    expect(take().staleMs).toBe(40)
    store.delayMs = 10
    await time.advance(25)
    // The round of 50 is in flight.
    expect(take().staleMs).toBe(65)
    await time.advance(15)
    expect(take().staleMs).toBe(30)
  })

  test('calls that can wait and calls that cannot share a local counter', () => {
    const { local, of, fleet, take } = start({ max: 10, window: '1s', wait: '150ms' })
    fleet.call(0, takeOf(of, 10))
    expect(take(1)).toMatchObject({ granted: 1, delayMs: 100 })
    const immediate = { ...takeOf(of), limit: of.immediate }
    expect(local.take(immediate)).toMatchObject({ granted: 0, retryAfterMs: 200 })
    expect(take(1)).toMatchObject({ granted: 0, retryAfterMs: 50 })
  })

  test('a local counter goes on under another limit of the same algorithm and window', () => {
    const { local, take, learn } = start()
    learn(1, 60)
    take(10)
    const larger = compiled({ ...window100, max: 200 })
    expect(local.take(takeOf(larger))).toMatchObject({ granted: 1, remaining: 129 })
  })

  test('a local counter of a calendar window in another zone is reported and left to the store', async () => {
    const day = { algorithm: 'fixed-window', max: 100, window: 'day', name: 'daily' } as const
    const { local, take, learn, count } = start(day)
    learn(1, 60)
    take(10)
    const elsewhere = compiled({ ...day, zone: 'Europe/Berlin' })
    expect(local.take(takeOf(elsewhere))).toBeUndefined()
    await settled()
    expect(count()).toMatchObject({ count: 70 })
  })

  test('a local counter of another algorithm is reported and left to the store', async () => {
    const { local, take, learn, count } = start()
    learn(1, 60)
    take(10)
    expect(local.take(takeOf(compiled('100/second')))).toBeUndefined()
    await settled()
    expect(count()).toMatchObject({ count: 70 })
  })

  test('the number of local counters is bounded: others are left to the store', () => {
    const { local, of, fleet } = start()
    const answer = fleet.at(0).store.takeNow([[takeOf(of)]], true)[0]?.[0]
    if (answer === undefined) throw new Error('no answer')
    for (let i = 0; i <= LOCAL_COUNTERS_MAX; i++) local.learn(takeOf(of, 1, i), answer, 0)
    expect(local.take(takeOf(of, 1, LOCAL_COUNTERS_MAX - 1))).toBeDefined()
    expect(local.take(takeOf(of, 1, LOCAL_COUNTERS_MAX))).toBeUndefined()
    expect(local.stats.get('r')?.counters).toBe(LOCAL_COUNTERS_MAX)
  })

  test('a local counter of a sliding window counts a full window for one that was more than full', async () => {
    const sliding = { algorithm: 'sliding-window-counter', max: 100, window: '10s' } as const
    const { fleet, of, learn, time, take, local } = start(sliding, { size: 3 })
    learn()
    take(0)
    fleet.shared.sync.charge({ ...takeOf(of), amount: 250, at: START_US, debt: 300 })
    await time.advance(100)
    expect(local.peek(takeOf(of))).toMatchObject({ remaining: 0, state: { curr: 251, prev: 0 } })
    while (time.nowMs < 15_000) {
      take(0)
      await time.advance(150)
    }
    // Half of 100, not half of 251; less what has faded since.
    expect(local.peek(takeOf(of))?.remaining).toBe(51)
  })
})

describe('LocalSync', () => {
  test('a round charges what was spent, for the window and with the debt of the fleet, and reads', async () => {
    const { fleet, of, learn, take, time, store, count } = start(window100, { size: 3 })
    learn()
    take(5)
    await time.advance(40)
    take(6)
    await time.advance(60)
    expect(store.charges).toEqual([
      { key: takeOf(of).key, limit: of.limit, amount: 11, at: START_US + 40_000, debt: 300 },
    ])
    expect(store.reads.at(-1)).toEqual([[{ key: takeOf(of).key, limit: of.limit, amount: 0 }]])
    expect(count()).toMatchObject({ count: 12 })
    fleet.shared.sync.charge({ ...takeOf(of), amount: 20, at: START_US, debt: 0 })
    await time.advance(100)
    expect(take(0).remaining).toBe(68)
  })

  test('a round charges each window for itself', async () => {
    const { learn, take, time, store } = start({ ...window100, window: '1s' })
    await time.advance(970)
    learn()
    take(2)
    await time.advance(40)
    take(3)
    await time.advance(10)
    expect(store.charges.map(({ amount, at }) => [amount, at - START_US])).toEqual([
      [2, 970_000],
      [3, 1_010_000],
    ])
    expect(store.reads.length).toBe(1)
  })

  test('a round charges each day of a zone for itself, and the next one starts unused', async () => {
    const day = { algorithm: 'fixed-window', max: 100, window: 'day', zone: 'Europe/Berlin' }
    const { learn, take, time, store, count } = start(day)
    const midnightMs = 23 * 3_600_000
    await time.advance(midnightMs - 30)
    learn()
    take(2)
    await time.advance(40)
    expect(take(3)).toMatchObject({ granted: 3, remaining: 97 })
    await time.advance(10)
    expect(store.charges.map(({ amount, at }) => [amount, (at - START_US) / 1000])).toEqual([
      [2, midnightMs - 30],
      [3, midnightMs + 10],
    ])
    expect(count()).toEqual({ start: START_US + (midnightMs + 10) * 1000, count: 3 })
  })

  test('a round adds usage since the report to the state that it read', async () => {
    const { fleet, of, learn, take, time, store } = start()
    learn()
    take(10)
    store.delayMs = 20
    await time.advance(60)
    take(7)
    fleet.shared.sync.charge({ ...takeOf(of), amount: 30, at: START_US, debt: 0 })
    await time.advance(35)
    expect(take(0).remaining).toBe(100 - 1 - 10 - 7 - 30)
    await time.advance(100)
    expect(store.charges.map(({ amount }) => amount)).toEqual([10, 7])
  })

  test('a round whose read is not answered keeps the known state, and still reports', async () => {
    const { fleet, of, learn, take, time, count } = start()
    learn()
    const { store } = fleet.at(0)
    const read = store.take.bind(store)
    store.take = async (groups) => groups.map((row) => row.map(() => 'unknown' as const))
    take(10)
    await time.advance(100)
    expect(count()).toMatchObject({ count: 11 })
    expect(take(0)).toMatchObject({ remaining: 89, staleMs: 100 })
    store.take = () => Promise.reject(new Error('gone'))
    await time.advance(100)
    expect(take(0)).toMatchObject({ remaining: 89, staleMs: 200 })
    store.take = read
    fleet.shared.sync.charge({ ...takeOf(of), amount: 30, at: START_US, debt: 0 })
    await time.advance(100)
    expect(take(0)).toMatchObject({ remaining: 59, staleMs: 0 })
  })

  test('a round reports again what did not run, and not what may have run', async () => {
    const { learn, take, time, store, count, stats } = start()
    learn()
    store.chargeFault = 'not-run'
    take(10)
    await time.advance(50)
    expect(take(0).remaining).toBe(89)
    take(5)
    store.chargeFault = 'lost'
    await time.advance(50)
    expect(store.charges.map(({ amount }) => amount)).toEqual([10, 15])
    store.chargeFault = undefined
    take(2)
    await time.advance(100)
    expect(count()).toMatchObject({ count: 3 })
    expect(stats()).toMatchObject({ reported: 2, unreported: 15 })
  })

  test('a round drops what is older than the last window', async () => {
    const { learn, take, time, store, stats } = start({ ...window100, window: '1s' })
    learn()
    store.fault = 'not-run'
    take(7)
    await time.advance(1950)
    store.fault = undefined
    await time.advance(200)
    expect(store.ran).toEqual([])
    expect(stats()).toMatchObject({ reported: 0, unreported: 7 })
  })

  test('a round reads in chunks, and every counter', async () => {
    const { of, fleet, time, store, take } = start()
    for (let i = 0; i < 700; i++) fleet.call(0, takeOf(of, 1, i))
    for (let i = 0; i < 700; i++) take(i % 7 === 0 ? 3 : 0, i)
    await time.advance(50)
    expect(store.reads.map(([row]) => row?.length)).toEqual([...Array<number>(10).fill(64), 60])
    expect(store.charges.length).toBe(100)
    expect(take(0, 693)).toMatchObject({ remaining: 96, staleMs: 0 })
  })

  test('each rule has two rounds per sync interval', async () => {
    const { fleet, local, readsOf, time } = start()
    const rules = [compiled(window100, 100), compiled(window100, 300)]
    const callAll = () => {
      for (const [i, of] of rules.entries()) fleet.call(0, takeOf(of, 1, i))
    }
    callAll()
    while (time.nowMs < 300) {
      callAll()
      await time.advance(50)
    }
    expect([readsOf(0), readsOf(1)]).toEqual([6, 2])
    expect(local.stats.get('r')?.counters).toBe(2)
  })

  test('a round measures what it reported to a full counter', async () => {
    const { fleet, of, learn, take, time, stats } = start(window100, { size: 2 })
    learn()
    take(60)
    fleet.shared.sync.charge({ ...takeOf(of), amount: 70, at: START_US, debt: 200 })
    await time.advance(100)
    expect(stats()).toMatchObject({ reported: 60, overAdmitted: 31 })
    await time.advance(500)
    expect(stats()).toMatchObject({ overAdmitted: 31 })
  })

  test('a round measures over-admission of a bucket', async () => {
    const { fleet, of, learn, take, time, stats, local } = start('100/minute', { size: 2 })
    learn()
    take(60)
    const limit = local.storeLimit(takeOf(of))
    fleet.shared.sync.charge({ ...takeOf(of), limit, amount: 70, at: START_US, debt: 200 })
    await time.advance(100)
    expect(stats()).toMatchObject({ reported: 60, overAdmitted: 29 })
    expect(take(1).granted).toBe(0)
  })
})
