/** Calls refused on this node because a counter could not grant a whole draw. */
import { describe, expect, test } from 'vitest'
import { settled } from '../../scripted-store.test-helper.js'
import { takeAndWait, costing, outcomeOf, LeasingNode, takeOf } from './leases.test-helper.js'

const window = (max: number, length = '1h') => ({
  algorithm: 'fixed-window',
  max,
  window: length,
})
const bucket = takeOf({ max: 1000, window: '1s' })

/** A node whose draw found the counter empty. */
async function exhausted(take = bucket) {
  const node = new LeasingNode()
  node.spendByStore(take, take.limit.capacity)
  const first = await node.take(take)
  return { node, first }
}

/** A node whose draw got the last twenty units, fewer than it requested. */
async function nearlyExhausted() {
  const take = takeOf(window(1000))
  const node = new LeasingNode()
  node.spendByStore(take, 980)
  expect(await node.take(take)).toMatchObject({ granted: 1 })
  return { node, take }
}

describe('exhausted counters', () => {
  test('an exhausted counter still grants a smaller call than the refused one', async () => {
    const take = takeOf(window(100))
    const node = new LeasingNode()
    node.spendByStore(take, 80)
    expect(await node.take(costing(take, 30))).toMatchObject({
      granted: 0,
      retryAfterMs: 3_600_000,
    })
    expect(await node.take(take)).toMatchObject({ granted: 1 })
  })

  test('an exhausted counter refuses on this node, until maxStranded units are available again', async () => {
    const { node, first } = await exhausted()
    expect(first).toMatchObject({ granted: 0, retryAfterMs: 50 })
    const refusal = outcomeOf(node.take(bucket))
    expect(refusal).toMatchObject({ granted: 0, remaining: 0, retryAfterMs: 50, staleMs: 0 })
    await node.pass(20)
    const later = outcomeOf(node.take(bucket))
    // Twenty units are back, but a draw is not worth it yet.
    expect(later).toMatchObject({ granted: 0, remaining: 0, retryAfterMs: 30, staleMs: 20 })
    expect(outcomeOf(node.take(costing(bucket, 90))).retryAfterMs).toBe(70)
    await node.pass(29)
    expect(outcomeOf(node.take(bucket)).retryAfterMs).toBe(1)
    expect(node.draws()).toHaveLength(1)
    await node.pass(1)
    expect(await node.take(bucket)).toMatchObject({ granted: 1 })
    expect(node.stats).toMatchObject({ drawn: 50, spent: 1, held: 49 })
  })

  test('an exhausted counter is drawn from again at once if other calls only hold its units', async () => {
    const take = takeOf(window(1000))
    const node = new LeasingNode()
    node.spendByStore(take, 1000)
    const store = node.store
    const takeByStore = store.take.bind(store)
    store.take = async (groups, options) => {
      const answers = await takeByStore(groups, options)
      const [[answer] = []] = answers
      if (typeof answer !== 'object') return answers
      return [[{ ...answer, retryAfterMs: 20, held: true }]]
    }
    expect(await node.take(take)).toMatchObject({ granted: 0, retryAfterMs: 20 })
    store.take = takeByStore
    store.inner.sync.give({ key: take.key, limit: take.limit, amount: 100 })
    expect(await node.take(take)).toMatchObject({ granted: 1 })
  })

  test('an exhausted counter is drawn from again after a lease time, or a second, whatever its state says', async () => {
    const short = takeOf(window(1000, '2s'))
    const long = takeOf(window(1000))
    for (const [take, ms] of [
      [short, 500],
      [long, 1000],
    ] as const) {
      const { node } = await exhausted(take)
      await node.pass(ms - 1)
      expect(outcomeOf(node.take(take)).retryAfterMs).toBe(take.limit.windowMs - ms + 1)
      await node.pass(1)
      expect(node.take(take)).toBeInstanceOf(Promise)
    }
  })

  test('an exhausted counter serves what its lease still holds', async () => {
    const { node, take } = await nearlyExhausted()
    expect(outcomeOf(node.take(costing(take, 25)))).toMatchObject({ granted: 0 })
    expect(outcomeOf(node.take(costing(take, 15)))).toMatchObject({ granted: 15 })
  })

  test('an exhausted counter is drawn from for a call that may be delayed', async () => {
    const waiting = takeOf({ max: 1000, window: '1s', wait: '2s' })
    const { node } = await exhausted(waiting)
    expect(node.take(waiting)).toBeUndefined()
    const { immediate } = waiting.compiled
    expect(outcomeOf(node.take({ ...waiting, limit: immediate })).granted).toBe(0)
  })

  test('the store decides an exhausted counter that is hardly used any more', async () => {
    const take = takeOf(window(1000, '250ms'))
    const { node } = await exhausted(take)
    await node.pass(130)
    expect(node.take(take)).toBeUndefined()
  })
})

describe('end of an exhaustion', () => {
  test('an exhaustion ends as soon as this node returns units to the counter', async () => {
    const { node, take } = await nearlyExhausted()
    const large = costing(take, 25)
    await node.pass(450)
    expect(outcomeOf(node.take(large)).granted).toBe(0)
    node.leases.putBack(take, outcomeOf(node.take(take)))
    // No call for half a second, so that the units are returned within the second.
    await node.pass(549)
    expect(node.given()).toEqual([19])
    expect(node.leases.peek(large)).toBeUndefined()
    expect(node.take(take)).toBeInstanceOf(Promise)
  })

  test('an exhaustion ends when the store has confirmed a return, whatever it answered in between', async () => {
    const { node, take } = await nearlyExhausted()
    let arrive = () => {}
    const give = node.store.give.bind(node.store)
    node.store.give = async (what) => {
      await new Promise<void>((resolve) => {
        arrive = resolve
      })
      await give(what)
    }
    await node.pass(550)
    // All units are being returned, so the store decides; it has no room for this call yet.
    expect(await takeAndWait(node, take)).toMatchObject({ granted: 0 })
    expect(node.draws()).toHaveLength(2)
    expect(outcomeOf(node.take(take)).granted).toBe(0)
    arrive()
    await settled()
    expect(await takeAndWait(node, take)).toMatchObject({ granted: 1 })
  })

  test('an exhaustion ends with a refund by receipt, or a reset', async () => {
    for (const end of ['invalidate', 'forget'] as const) {
      const { node } = await exhausted()
      expect(outcomeOf(node.take(bucket)).granted).toBe(0)
      node.leases[end](bucket.key)
      expect(node.leases.peek(bucket)).toBeUndefined()
      expect(node.take(bucket)).toBeInstanceOf(Promise)
    }
  })

  test('an exhaustion does not refuse calls of another limit', async () => {
    const { node } = await exhausted()
    await node.pass(20)
    const other = takeOf({ max: 900, window: '1s' })
    expect(node.leases.peek(other)).toBeUndefined()
    expect(node.take(other)).toBeInstanceOf(Promise)
  })
})

describe('late short grants', () => {
  const slow = takeOf({ max: 1000, window: '100s' })

  /** Two calls that wait for one draw, which is answered after this time and grants nothing. */
  async function answersAfter(ms: number, costs: readonly number[]) {
    const node = new LeasingNode()
    node.spendByStore(slow, 980)
    node.store.isHeld = true
    const calls = costs.map((cost) => takeAndWait(node, costing(slow, cost)))
    node.freeze(ms)
    node.store.release()
    return Promise.all(calls)
  }

  test('a call that learned late of a short grant goes to the store if that may have room by now', async () => {
    expect(await answersAfter(1100, [600, 10])).toMatchObject([{ granted: 0 }, 'store'])
  })

  test('a call that learned late of a short grant is refused before, with a wait of at least a millisecond', async () => {
    const answers = await answersAfter(999.5, [600, 10])
    expect(answers).toMatchObject([{ granted: 0 }, { granted: 0, retryAfterMs: 1 }])
  })
})

describe('peeking at an exhausted counter', () => {
  test('the peek of an exhausted counter returns the refusal of a call, with its state', async () => {
    const { node } = await exhausted()
    await node.pass(20)
    const peeked = node.leases.peek(bucket)
    expect(peeked).toMatchObject(outcomeOf(node.take(bucket)))
    expect(peeked).toHaveProperty('state')
    await node.pass(30)
    expect(node.leases.peek(bucket)).toBeUndefined()
  })

  test('an exhausted counter has no peek if the store would decide the call, or a lease serves it', async () => {
    const { node, take } = await nearlyExhausted()
    expect(node.leases.peek(costing(take, 19))).toBeUndefined()
    expect(node.leases.peek(costing(take, 20))).toMatchObject({ granted: 0 })
    // A cost of 0 takes no units, and one above the capacity never fits.
    for (const cost of [0, 1001]) expect(node.leases.peek(costing(take, cost))).toBeUndefined()
    const other = takeOf(window(1000), { user: 'u2' })
    expect(node.leases.peek(other)).toBeUndefined()
  })

  test('an exhausted counter has no peek once it is hardly used: the store decides, as for an exact rule', async () => {
    const take = takeOf(window(100, '4s'))
    const node = new LeasingNode()
    await node.pass(2000)
    for (let i = 0; i < 10; i++) node.spendByStore(take, 10)
    await node.pass(990)
    await node.take(take)
    expect(node.leases.peek(take)).toMatchObject({ granted: 0 })
    await node.pass(950)
    expect(node.take(take)).toBeUndefined()
    expect(node.leases.peek(take)).toBeUndefined()
  })
})
