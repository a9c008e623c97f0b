import { describe, expect, test } from 'vitest'
import { settled } from '../scripted-store.test-helper.js'
import { ask, costing, decided, isBalanced, LeasingNode, takeOf } from './leases.test-helper.js'

const window = (max: number, length = '1h') => ({
  algorithm: 'fixed-window',
  max,
  window: length,
})
const perHour = takeOf(window(1000))

describe('calls that wait', () => {
  test('share one draw, are served in their order, and more are drawn for at once', async () => {
    const node = new LeasingNode()
    node.spendByStore(perHour, 2)
    node.store.isHeld = true
    const order: number[] = []
    const costs = [1, 1, 2, 1]
    const calls = costs.map((cost, i) =>
      ask(node, costing(perHour, cost)).then((waited) => {
        order.push(i)
        return waited
      }),
    )
    expect(node.draws()).toHaveLength(1)
    node.store.release()
    const waited = await Promise.all(calls)
    expect(order).toEqual([0, 1, 2, 3])
    expect(waited).toMatchObject(costs.map((granted) => ({ granted })))
    // Of three units two were served, one is held, and does not do for the third call.
    expect(node.draws()).toMatchObject([
      { amount: 1 + 2, atLeast: 1 },
      { amount: 3 + 3, atLeast: 2 },
    ])
    expect(isBalanced(node.stats)).toBe(true)
  })

  test('for a second draw have that much less time', async () => {
    const node = new LeasingNode()
    node.spendByStore(perHour, 2)
    node.store.isHeld = true
    void node.leases.take(perHour)
    void node.leases.take(costing(perHour, 5))
    node.freeze(12)
    node.store.release()
    await settled()
    expect(node.store.asked.map(({ options }) => options?.deadlineMs)).toEqual([20, 8])
  })

  test('are refused if a short grant does not reach them', async () => {
    const take = takeOf(window(100))
    const node = new LeasingNode()
    node.spendByStore(take, 97)
    node.store.isHeld = true
    const calls = [1, 1, 5, 1].map((cost) => ask(node, costing(take, cost)))
    node.store.release()
    const waited = await Promise.all(calls)
    // The last is small enough to be served, and in the store it would be.
    expect(waited).toMatchObject([
      { granted: 1 },
      { granted: 1 },
      { granted: 0, retryAfterMs: 3_600_000 },
      { granted: 1 },
    ])
    expect(node.draws()).toMatchObject([{ amount: 6 }])
    expect(node.stats).toMatchObject({ drawn: 3, spent: 3, held: 0 })
  })

  test('leave no more behind than was asked to be held, or the store would lack it', async () => {
    const take = takeOf(window(100))
    const node = new LeasingNode()
    node.spendByStore(take, 85)
    node.store.isHeld = true
    const calls = [1, 6, 30].map((cost) => ask(node, costing(take, cost)))
    node.store.release()
    expect(await Promise.all(calls)).toMatchObject([{ granted: 1 }, { granted: 6 }, { granted: 0 }])
    // Nine of 36 were granted to the second draw, and nothing was to be held of it.
    expect(node.draws().map(({ amount }) => amount)).toEqual([6, 36])
    expect(node.given()).toEqual([3])
    expect(node.stats).toMatchObject({ drawn: 15, spent: 7, givenBack: 3, held: 5 })
  })

  test('pass no larger call that the next draw will serve', async () => {
    const node = new LeasingNode()
    node.spendByStore(perHour, 2)
    node.store.isHeld = true
    const calls = [1, 9, 1].map((cost) => ask(node, costing(perHour, cost)))
    node.store.release()
    await Promise.all(calls)
    expect(node.draws()[1]).toMatchObject({ amount: 10 + 3 - 2, atLeast: 9 })
  })

  test.each(['not-run', 'ran', 'lost'] as const)(
    'hear of the store’s silence (%s), and the next one draws again',
    async (fate) => {
      const node = new LeasingNode()
      node.spendByStore(perHour, 10)
      node.store.all(fate)
      expect(await Promise.all([1, 2].map(() => ask(node, perHour)))).toEqual(['silent', 'silent'])
      node.store.all('answer')
      expect(await node.leases.take(perHour)).toMatchObject({ granted: 1 })
      expect(node.stats.draws).toBe(2)
    },
  )

  test('take any failure of the store for silence', async () => {
    const node = new LeasingNode()
    node.spendByStore(perHour, 10)
    node.store.script.error = new Error('misuse')
    expect(await node.leases.take(perHour)).toBe('silent')
    node.store.take = () => {
      throw new Error('at once')
    }
    expect(await node.leases.take(perHour)).toBe('silent')
    expect(isBalanced(node.stats)).toBe(true)
  })
})

describe('a counter that could not give all', () => {
  const bucket = takeOf({ max: 1000, window: '1s' })

  /** The bucket is empty, and says so to a draw. */
  async function dry(take = bucket) {
    const node = new LeasingNode()
    node.spendByStore(take, take.limit.capacity)
    const first = await node.leases.take(take)
    return { node, first }
  }

  test('still has what only a larger call was refused', async () => {
    const take = takeOf(window(100))
    const node = new LeasingNode()
    node.spendByStore(take, 80)
    expect(await node.leases.take(costing(take, 30))).toMatchObject({
      granted: 0,
      retryAfterMs: 3_600_000,
    })
    expect(await node.leases.take(take)).toMatchObject({ granted: 1 })
  })

  test('refuses here, until the units that may lie stranded are there again', async () => {
    const { node, first } = await dry()
    expect(first).toMatchObject({ granted: 0, retryAfterMs: 50 })
    const refusal = decided(node.leases.take(bucket))
    expect(refusal).toMatchObject({ granted: 0, remaining: 0, retryAfterMs: 50, staleMs: 0 })
    await node.pass(20)
    const later = decided(node.leases.take(bucket))
    // Twenty units are back, but a draw is not worth it yet.
    expect(later).toMatchObject({ granted: 0, remaining: 0, retryAfterMs: 30, staleMs: 20 })
    expect(decided(node.leases.take(costing(bucket, 90))).retryAfterMs).toBe(70)
    await node.pass(29)
    expect(decided(node.leases.take(bucket)).retryAfterMs).toBe(1)
    expect(node.draws()).toHaveLength(1)
    await node.pass(1)
    expect(await node.leases.take(bucket)).toMatchObject({ granted: 1 })
    expect(node.stats).toMatchObject({ drawn: 50, spent: 1, held: 49 })
  })

  test('is asked again after a lease time, or a second, whatever its state says', async () => {
    const short = takeOf(window(1000, '2s'))
    const long = takeOf(window(1000))
    for (const [take, ms] of [
      [short, 500],
      [long, 1000],
    ] as const) {
      const { node } = await dry(take)
      await node.pass(ms - 1)
      expect(decided(node.leases.take(take)).retryAfterMs).toBe(take.limit.windowMs - ms + 1)
      await node.pass(1)
      expect(node.leases.take(take)).toBeInstanceOf(Promise)
    }
  })

  test('serves what its lease still holds', async () => {
    const take = takeOf(window(1000))
    const node = new LeasingNode()
    node.spendByStore(take, 980)
    expect(await node.leases.take(take)).toMatchObject({ granted: 1 })
    expect(decided(node.leases.take(costing(take, 25)))).toMatchObject({ granted: 0 })
    expect(decided(node.leases.take(costing(take, 15)))).toMatchObject({ granted: 15 })
  })

  test('is asked for a call that may be made to wait', async () => {
    const waiting = takeOf({ max: 1000, window: '1s', wait: '2s' })
    const { node } = await dry(waiting)
    expect(node.leases.take(waiting)).toBeUndefined()
    const { immediate } = waiting.of
    expect(decided(node.leases.take({ ...waiting, limit: immediate })).granted).toBe(0)
  })

  test('that is hardly spent any more is asked as by an exact rule', async () => {
    const take = takeOf(window(1000, '250ms'))
    const { node } = await dry(take)
    await node.pass(130)
    expect(node.leases.take(take)).toBeUndefined()
  })
})
