import { describe, expect, test } from 'vitest'
import { settled } from '../../scripted-store.test-helper.js'
import { takeAndWait, costing, outcomeOf, LeasingNode, takeOf } from './leases.test-helper.js'

const window = (max: number, length = '1h') => ({
  algorithm: 'fixed-window',
  max,
  window: length,
})
const perHour = takeOf(window(1000))

/** A node that has spent this many units of the counter and drawn a lease. */
async function leased(take = perHour, units = 10) {
  const node = new LeasingNode()
  node.spendByStore(take, units)
  const first = await node.take(take)
  return { node, first, take }
}

describe('size of a draw', () => {
  test('nothing is drawn while fewer than eight units are spent within a lease time', async () => {
    const node = new LeasingNode()
    expect(node.take(perHour)).toBeUndefined()
    node.spendByStore(perHour, 7)
    expect(node.take(perHour)).toBeUndefined()
    expect(node.leases.isReady(perHour)).toBe(false)
    node.spendByStore(perHour, 1)
    expect(node.leases.isReady(perHour)).toBe(true)
    expect(node.take(perHour)).toBeInstanceOf(Promise)
    expect(node.draws()).toMatchObject([
      { amount: 9, atLeast: 1, limit: perHour.compiled.immediate },
    ])
    expect(node.store.requests[0]?.options).toMatchObject({ deadlineMs: 20, states: true })
  })

  test('nothing is drawn for a caller so slow that its lease would be idle before two units were spent', async () => {
    const node = new LeasingNode()
    for (let call = 0; call < 20; call++) {
      const answer = node.take(perHour)
      expect(answer).toBeUndefined()
      node.spendByStore(perHour, 1)
      await node.pass(600)
    }
    expect(node.stats).toMatchObject({ draws: 0, givenBack: 0 })
  })

  test('a draw has the deadline of the call that sends it', () => {
    const node = new LeasingNode()
    node.spendByStore(perHour, 10)
    void node.take(perHour, 4.2)
    expect(node.store.requests[0]?.options?.deadlineMs).toBe(5)
  })

  test('a call that may not wait draws for others, and is decided by the store', async () => {
    const node = new LeasingNode()
    node.spendByStore(perHour, 10)
    expect(node.take(perHour, 0)).toBeUndefined()
    expect(node.draws()).toMatchObject([{ amount: 10, atLeast: 1 }])
    expect(node.store.requests[0]?.options?.deadlineMs).toBe(20)
    expect(node.take(perHour, 0)).toBeUndefined()
    expect(node.draws()).toHaveLength(1)
    await settled()
    expect(outcomeOf(node.take(perHour, 0))).toMatchObject({ granted: 1 })
    expect(node.stats).toMatchObject({ drawn: 10, spent: 1, held: 9 })
  })

  test('a call that may not wait draws nothing if fewer than two units could be held', async () => {
    const { node } = await leased(perHour, 10)
    expect(node.take(costing(perHour, 30), 0)).toBeUndefined()
    expect(node.draws()).toHaveLength(1)
  })

  test('units that the store refused do not count as spent', () => {
    const node = new LeasingNode()
    node.spendByStore(perHour, 1001)
    node.leases.learn(perHour, 'not-run')
    expect(node.take(perHour)).toBeUndefined()
  })

  test('a draw requests what was spent in the last lease lifetime, and no more', async () => {
    const node = new LeasingNode()
    node.spendByStore(perHour, 20)
    await node.pass(1000)
    node.spendByStore(perHour, 4)
    await node.pass(1500)
    // A quarter of the next period has passed, so three quarters of the 24 units still count.
    void node.take(perHour)
    expect(node.draws()).toMatchObject([{ amount: 1 + 18 }])
  })

  test('nothing is drawn once nothing was spent for two lease times', async () => {
    const node = new LeasingNode()
    node.spendByStore(perHour, 20)
    await node.pass(4000)
    expect(node.take(perHour)).toBeUndefined()
  })

  test.each([
    [1, 0.05, 50],
    [2, 0.05, 25],
    [3.7, 0.05, 16],
    [0, 0.05, 50],
    [10, 0.01, undefined],
    [Number.NaN, 0.05, undefined],
  ])('on %d nodes with maxStranded %d a draw requests at most %s', (fleet, maxStranded, most) => {
    const take = takeOf(window(1000), { maxStranded })
    const node = new LeasingNode()
    node.fleet = fleet
    node.spendByStore(take, 500)
    void node.take(take)
    expect(node.draws()[0]?.amount).toBe(most === undefined ? undefined : most + 1)
  })

  test('a draw is smaller when the fleet grows, and excess units are returned', async () => {
    const { node } = await leased(perHour, 100)
    expect(node.stats.held).toBe(50)
    node.fleet = 5
    outcomeOf(node.take(perHour))
    await node.pass(50)
    expect(node.stats).toMatchObject({ held: 10, givenBack: 39, spent: 2 })
    for (let i = 0; i < 10; i++) outcomeOf(node.take(perHour))
    void node.take(perHour)
    expect(node.draws().at(-1)?.amount).toBe(1 + 10)
  })

  test('a draw is smaller while units are being returned', async () => {
    const { node } = await leased(perHour, 100)
    node.store.give = () => new Promise(() => {})
    node.freeze(2000)
    void node.take(perHour)
    expect(node.draws().map(({ amount }) => amount)).toEqual([51, 1])
    expect(node.stats.held).toBe(50)
  })

  test('a cost above the lease size is drawn in addition, and waits for no other call', async () => {
    const { node } = await leased(perHour, 10)
    const large = await node.take(costing(perHour, 30))
    // What is held of the first draw counts: both together stay within `maxStranded`.
    expect(node.draws()[1]).toMatchObject({ amount: 30 + 11 - 10, atLeast: 30 })
    expect(large).toMatchObject({ granted: 30 })
    expect(node.stats).toMatchObject({ drawn: 11 + 31, spent: 31, held: 11 })
  })

  test('a cost of 0, or above the capacity, is decided by the store', async () => {
    const { node } = await leased()
    expect(node.take(costing(perHour, 0))).toBeUndefined()
    expect(node.take(costing(perHour, 1001))).toBeUndefined()
    expect(node.draws()).toHaveLength(1)
  })

  test('a limit too small for leases is exact', () => {
    const node = new LeasingNode()
    const pacing = takeOf({ algorithm: 'gcra', max: 1000, window: '1s' })
    for (let i = 0; i < 9; i++) {
      node.spendByStore(pacing, 1)
      node.freeze(1)
    }
    expect(node.take(pacing)).toBeUndefined()
  })

  test('units are drawn by the limit without delays, also for calls that may be delayed', async () => {
    const take = takeOf({ max: 1000, window: '1m', wait: '5s' })
    const node = new LeasingNode()
    node.spendByStore(take, 10)
    void node.take(take)
    expect(take.limit.maxWaitUs).toBe(5_000_000)
    expect(node.draws()[0]?.limit.maxWaitUs).toBe(0)
  })
})

describe('spending from a lease', () => {
  test('a call served from a lease does not reach the store, and reports the outcome of the draw', async () => {
    const { node, first } = await leased()
    const { at, resetAfterMs } = node.store.inner.sync.peek([[perHour]])[0]?.[0] ?? {}
    expect(first).toMatchObject({ granted: 1, remaining: 989, retryAfterMs: 0, delayMs: 0 })
    await node.pass(30)
    const second = outcomeOf(node.take(costing(perHour, 3)))
    expect({ ...second }).toEqual({
      granted: 3,
      remaining: 986,
      resetAfterMs: (resetAfterMs ?? 0) - 30,
      retryAfterMs: 0,
      delayMs: 0,
      at,
      staleMs: 30,
    })
    expect(node.draws()).toHaveLength(1)
    expect(node.stats).toMatchObject({ draws: 1, drawn: 11, spent: 4, held: 7, counters: 1 })
  })

  test('a call served from a lease reports no reset in the past', async () => {
    const take = takeOf({ max: 1000, window: '1s' })
    const { node } = await leased(take)
    await node.pass(60)
    expect(outcomeOf(node.take(take)).resetAfterMs).toBe(0)
  })

  test('a call of another counter, or by another limit of the same, is not served from a lease', async () => {
    const { node } = await leased()
    expect(node.take(takeOf(window(1000), { user: 'u2' }))).toBeUndefined()
    // The same counter, as a caller of another tier has it.
    expect(node.take(takeOf(window(500)))).toBeUndefined()
    expect(node.leases.isReady(takeOf(window(500)))).toBe(false)
    expect(node.stats.spent).toBe(1)
  })

  test('a call by another limit is served from a lease once nothing of the first is held', async () => {
    const { node } = await leased()
    const lower = takeOf(window(100))
    await node.pass(700)
    expect(node.given()).toEqual([10])
    const outcome = await node.take(lower)
    expect(outcome).toMatchObject({ granted: 1 })
    expect(node.draws()[1]).toMatchObject({ limit: { max: 100 }, amount: 1 + 5 })
  })

  test('a call served from a lease never meets a counter whose key has the same lower half', async () => {
    const { node } = await leased()
    const { hi, lo, partition } = perHour.key
    const other = { ...perHour, key: { hi: hi ^ 1, lo, partition } }
    expect(node.take(other)).toBeUndefined()
    node.spendByStore(other, 8)
    expect(await node.take(other)).toMatchObject({ granted: 1 })
    expect(node.draws()[1]?.key.hi).toBe(hi ^ 1)
    outcomeOf(node.take(perHour))
    outcomeOf(node.take(other))
  })
})

describe('expiry of a lease', () => {
  const ends = (node: LeasingNode) => {
    const answer = node.take(perHour)
    expect(answer).toBeInstanceOf(Promise)
    return answer
  }

  test('a lease ends two seconds after its draw was sent, by the monotonic clock', async () => {
    const { node } = await leased()
    node.wallAheadMs = -60_000
    node.freeze(1999)
    outcomeOf(node.take(perHour))
    node.freeze(1)
    await ends(node)
    expect(node.given()).toEqual([9])
  })

  test('a lease ends as early by the wall clock if the monotonic clock stands still', async () => {
    const { node } = await leased()
    node.suspend(1999)
    outcomeOf(node.take(perHour))
    node.suspend(1)
    await ends(node)
    expect(node.given()).toEqual([9])
  })

  test('a wall clock that steps back does not prolong a lease', async () => {
    const { node } = await leased()
    node.wallAheadMs = -3_600_000
    node.freeze(2000)
    await ends(node)
  })

  test('a wall clock that steps ahead ends a lease at once', async () => {
    const { node } = await leased()
    node.wallAheadMs = 2000
    await ends(node)
    expect(node.given()).toEqual([10])
  })

  test('the lifetime of a lease counts from the sending, not from the answer', async () => {
    const node = new LeasingNode()
    node.spendByStore(perHour, 10)
    node.store.isHeld = true
    const first = node.take(perHour)
    node.freeze(15)
    node.store.release()
    expect(await first).toMatchObject({ granted: 1, staleMs: 15 })
    node.freeze(1984)
    outcomeOf(node.take(perHour))
    node.freeze(1)
    await ends(node)
  })

  test('the lifetime of a lease of a short window is a quarter of the window', async () => {
    const take = takeOf({ max: 1000, window: '1s' })
    const { node } = await leased(take)
    node.freeze(249)
    outcomeOf(node.take(take))
    node.freeze(1)
    expect(node.take(take)).not.toMatchObject({ granted: 1 })
  })

  test.each(['fixed-window', 'sliding-window-counter'])(
    'a lease of a %s ends with its window, counted from the sending',
    async (algorithm) => {
      const take = takeOf({ algorithm, max: 1000, window: '10s' })
      const node = new LeasingNode()
      await node.pass(9500)
      node.spendByStore(take, 10)
      node.store.isHeld = true
      const first = node.take(take)
      node.freeze(10)
      node.store.release()
      await first
      // Drawn at 9.51 s, so 490 ms from the window's end, counted from 9.5 s on.
      node.freeze(479)
      outcomeOf(node.take(take))
      node.freeze(1)
      expect(node.take(take)).toBeInstanceOf(Promise)
    },
  )

  test('a lease of a calendar window ends at local midnight', async () => {
    const take = takeOf({ ...window(1000, 'day'), zone: 'Europe/Berlin' })
    const node = new LeasingNode()
    // 23:59:59 in Berlin, which is an hour ahead.
    await node.pass(23 * 3_600_000 - 1000)
    node.spendByStore(take, 10)
    await node.take(take)
    node.freeze(999)
    outcomeOf(node.take(take))
    node.freeze(1)
    expect(node.take(take)).toBeInstanceOf(Promise)
  })

  test('a sweep notices the end of a lease if no call comes', async () => {
    const { node } = await leased()
    for (let i = 0; i < 10; i++) {
      await node.pass(199)
      outcomeOf(node.take(perHour))
    }
    const more = node.draws().length
    await node.pass(60)
    expect(node.stats.held).toBe(0)
    expect(node.draws()).toHaveLength(more)
  })

  test('a lease that ended before its answer came is returned whole, and the store decides waiting calls', async () => {
    const node = new LeasingNode()
    node.spendByStore(perHour, 10)
    node.store.isHeld = true
    const calls = [takeAndWait(node, perHour), takeAndWait(node, perHour)]
    node.freeze(2000)
    node.store.release()
    expect(await Promise.all(calls)).toEqual(['store', 'store'])
    await settled()
    expect(node.stats).toMatchObject({ drawn: 11, spent: 0, givenBack: 11, held: 0 })
    expect(node.used(perHour)).toBe(10)
  })

  test('a node that was paused beyond the end of a lease has nothing to spend', async () => {
    const { node } = await leased()
    node.freeze(5000)
    expect(node.take(perHour)).toBeUndefined()
    await settled()
    expect(node.stats).toMatchObject({ spent: 1, givenBack: 10, held: 0 })
  })
})

describe('return of unspent units', () => {
  test('an unspent unit is returned after a quarter of the lease time without use, under its draw time', async () => {
    const { node } = await leased()
    await node.pass(450)
    const { at } = outcomeOf(node.take(perHour))
    await node.pass(499)
    expect(node.given()).toEqual([])
    await node.pass(51)
    expect(node.store.gives).toMatchObject([{ amount: 9, at, limit: perHour.compiled.immediate }])
    expect(node.used(perHour)).toBe(12)
    expect(node.stats).toMatchObject({ spent: 2, givenBack: 9, held: 0, counters: 0 })
  })

  test('a unit that is not spent leaves no timer behind once it is back', async () => {
    const { node } = await leased()
    expect(node.timers).toBe(1)
    await node.pass(600)
    expect(node.timers).toBe(0)
  })

  test('a return is announced before and after, so that no refusal of the counter is remembered', async () => {
    const { node } = await leased()
    await node.pass(600)
    expect(node.invalidated).toEqual([perHour.key.lo, perHour.key.lo])
  })

  test('an unspent unit is returned once: what the store does not confirm is lost', async () => {
    const { node } = await leased()
    node.store.script.verbError = Object.assign(new Error('cut'), { silence: 'unknown' })
    await node.pass(5000)
    expect(node.given()).toEqual([10])
    expect(node.stats).toMatchObject({ givenBack: 0, lost: 10, held: 0 })
    expect(node.invalidated).toHaveLength(2)
  })
})
