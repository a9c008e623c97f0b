import { describe, expect, test } from 'vitest'
import { settled } from '../../scripted-store.test-helper.js'
import type { Answer, Groups } from '../../store.js'
import {
  takeAndWait,
  costing,
  outcomeOf,
  isBalanced,
  LeasingNode,
  unansweredOf,
  takeOf,
} from './leases.test-helper.js'

const window = (max: number) => ({ algorithm: 'fixed-window', max, window: '1h' })
const perHour = takeOf(window(1000))

/** A node whose draws request eight units beyond what calls need, and are unanswered. */
function drawing(take = perHour, spent = 8) {
  const node = new LeasingNode()
  node.spendByStore(take, spent)
  node.store.isHeld = true
  return node
}

describe('calls that wait for a draw', () => {
  test('calls that wait for a draw share one draw, and are served in their order', async () => {
    const node = drawing()
    const order: number[] = []
    const costs = [1, 1, 2, 1]
    const calls = costs.map((cost, i) =>
      takeAndWait(node, costing(perHour, cost)).then((waited) => {
        order.push(i)
        return waited
      }),
    )
    node.store.release()
    const waited = await Promise.all(calls)
    expect(order).toEqual([0, 1, 2, 3])
    expect(waited).toMatchObject(costs.map((granted) => ({ granted })))
    expect(node.draws()).toMatchObject([{ amount: 1 + 8, atLeast: 1 }])
    expect(node.stats).toMatchObject({ drawn: 9, spent: 5, held: 4 })
  })

  test('calls that wait for a draw join one that covers them; the store decides others at once', async () => {
    const node = drawing()
    void node.take(perHour)
    const joined = node.take(costing(perHour, 5))
    expect(joined).toBeInstanceOf(Promise)
    // Three of eight are not promised yet.
    expect(node.take(costing(perHour, 4))).toBeUndefined()
    const last = node.take(costing(perHour, 3))
    expect(last).toBeInstanceOf(Promise)
    expect(node.take(perHour)).toBeUndefined()
    node.store.release()
    expect(await Promise.all([joined, last])).toMatchObject([{ granted: 5 }, { granted: 3 }])
    expect(node.draws()).toHaveLength(1)
  })

  test('calls that wait for a draw join none with a longer deadline than theirs', () => {
    const node = drawing()
    void node.take(perHour, 15)
    expect(node.take(perHour, 14)).toBeUndefined()
    expect(node.take(perHour, 0)).toBeUndefined()
    expect(node.take(perHour, 15)).toBeInstanceOf(Promise)
    expect(node.take(perHour, 40)).toBeInstanceOf(Promise)
  })

  test('calls that wait for a draw wait for one draw, never for a second', async () => {
    const take = takeOf(window(100))
    const node = drawing(take, 96)
    const calls = [1, 2, 3].map((cost) => takeAndWait(node, costing(take, cost)))
    node.store.release()
    const answers = await Promise.all(calls)
    expect(answers).toMatchObject([{ granted: 1 }, { granted: 2 }, { granted: 0 }])
    await settled()
    expect(node.draws()).toMatchObject([{ amount: 1 + 5 }])
  })

  test('calls that wait for a draw are refused if a short grant does not reach them', async () => {
    const take = takeOf(window(100))
    const node = drawing(take, 97)
    const calls = [1, 1, 3, 1].map((cost) => takeAndWait(node, costing(take, cost)))
    node.store.release()
    // The last one is small enough to be served, as the store would serve it.
    expect(await Promise.all(calls)).toMatchObject([
      { granted: 1 },
      { granted: 1 },
      { granted: 0, retryAfterMs: 3_600_000 },
      { granted: 1 },
    ])
    expect(node.stats).toMatchObject({ draws: 1, drawn: 3, spent: 3, held: 0 })
  })

  test('calls that wait for a draw leave no more units held than the draw requested to hold', async () => {
    const take = takeOf(window(100))
    const node = drawing(take, 85)
    const calls = [6, 2].map((cost) => takeAndWait(node, costing(take, cost)))
    node.store.release()
    expect(await Promise.all(calls)).toMatchObject([{ granted: 6 }, { granted: 2 }])
    expect(node.draws().map(({ amount }) => amount)).toEqual([6 + 5])
    expect(node.stats).toMatchObject({ drawn: 11, spent: 8, held: 3 })
  })
})

describe('calls that waited for an unanswered draw', () => {
  test.each([
    ['not-run', 'not-run'],
    ['ran', 'unknown'],
    ['lost', 'unknown'],
  ] as const)(
    'calls that waited for an unanswered draw learn its fate (%s), and the next call draws again',
    async (fate, silence) => {
      const node = new LeasingNode()
      node.spendByStore(perHour, 10)
      node.store.all(fate)
      expect(await Promise.all([1, 2].map(() => takeAndWait(node, perHour)))).toMatchObject([
        { silence },
        { silence },
      ])
      expect(node.storeAnswers).toBe(0)
      node.store.all('answer')
      expect(await node.take(perHour)).toMatchObject({ granted: 1 })
      expect(node.stats.draws).toBe(2)
      expect(node.storeAnswers).toBe(1)
    },
  )

  test('a failure of the store counts as a draw that may have run', async () => {
    const node = new LeasingNode()
    node.spendByStore(perHour, 10)
    node.store.script.error = new Error('misuse')
    expect(unansweredOf(await takeAndWait(node, perHour)).silence).toBe('unknown')
    node.store.take = () => {
      throw new Error('at once')
    }
    expect(unansweredOf(await takeAndWait(node, perHour)).silence).toBe('unknown')
    expect(isBalanced(node.stats)).toBe(true)
  })

  test.each([
    ['nothing', undefined],
    ['no group', []],
    ['no take', [[]]],
    ['null for a take', [[null]]],
  ])(
    'calls that waited for a draw are decided without it if the answer cannot be read: %s',
    async (_, answer) => {
      const node = new LeasingNode()
      node.spendByStore(perHour, 10)
      const take = node.store.take.bind(node.store)
      node.store.take = async () => answer as unknown as Groups<Answer>
      const calls = await Promise.all([1, 2].map(() => takeAndWait(node, perHour)))
      expect(calls).toMatchObject([{ silence: 'unknown' }, { silence: 'unknown' }])
      // The draw has ended: no call joins it, and closing does not wait for it.
      node.store.take = take
      expect(await takeAndWait(node, perHour)).toMatchObject({ granted: 1 })
      await node.leases.close()
      expect(node.stats).toMatchObject({ draws: 2, held: 0, counters: 0 })
    },
  )

  test('calls that were admitted without their draw have spent its units, should it have run', async () => {
    const node = new LeasingNode()
    node.spendByStore(perHour, 100)
    node.store.all('ran')
    const calls = await Promise.all(
      [1, 4, 2].map((cost) => takeAndWait(node, costing(perHour, cost))),
    )
    const [first, second, refused] = calls.map(unansweredOf)
    first?.onAdmitted()
    second?.onAdmitted()
    node.store.all('answer')
    node.store.comeLate()
    expect(refused?.silence).toBe('unknown')
    expect(node.stats).toMatchObject({ drawn: 51, spent: 5, held: 46 })
    expect(outcomeOf(node.take(costing(perHour, 46)))).toMatchObject({ granted: 46 })
    await node.leases.close()
    expect(node.used(perHour)).toBe(100 + 5 + 46)
  })
})
