/** Conformance cases of groups: charged whole or not at all, and opened by the first. */
import assert from 'node:assert/strict'
import { defineBlock } from '@sluice/core'
import {
  fixedWindow,
  left,
  outcomesOf,
  type StoreCase,
  type StoreUnderTest,
  take,
  takes,
} from './conformance-kit.js'

const ten = fixedWindow(10)
const one = fixedWindow(1)
const block = defineBlock('block', {
  firstMs: 60_000,
  factor: 2,
  maxMs: 600_000,
  forgetMs: 3_600_000,
})
const charging = fixedWindow(10, { onRefusal: 'charge' })

/** The waits of a limit of one call and of the block beside it. */
async function waits(under: StoreUnderTest): Promise<readonly (number | null)[]> {
  const [outcomes = []] = await outcomesOf(under, [[take(1, one), take(2, block)]])
  return outcomes.map(({ retryAfterMs }) => retryAfterMs)
}

export const groupCases: readonly StoreCase[] = [
  {
    name: 'a block begins when the take before it is refused, lasts, and grows',
    run: async (under) => {
      assert.deepEqual(await waits(under), [0, 0])
      assert.deepEqual(await waits(under), [60_000, 60_000])
      under.clock.advance(1000)
      assert.deepEqual(await waits(under), [59_000, 59_000])
      under.clock.advance(59_000)
      assert.deepEqual(await waits(under), [0, 0])
      assert.deepEqual(await waits(under), [60_000, 120_000])
      under.clock.advance(60_000)
      assert.deepEqual(await waits(under), [0, 60_000])
      await under.store.reset(take(2, block).key)
      assert.deepEqual(await waits(under), [0, 0])
    },
  },
  {
    name: 'a block does not begin when a take that is not before it is refused',
    run: async (under) => {
      await takes(under, 3, one)
      const call = [take(1, ten), take(2, block), take(3, one)]
      const [outcomes = []] = await outcomesOf(under, [call])
      assert.deepEqual(
        outcomes.map(({ retryAfterMs }) => retryAfterMs === 0),
        [true, true, false],
      )
      const [over = []] = await outcomesOf(under, [[take(1, ten, 11), take(2, block)]])
      assert.deepEqual(
        over.map(({ retryAfterMs }) => retryAfterMs),
        [null, 0],
      )
    },
  },
  {
    name: 'a group with room in all its limits is charged in all of them',
    run: async (under) => {
      const [outcomes = []] = await outcomesOf(under, [[take(1, ten, 2), take(2, ten, 3)]])
      assert.deepEqual(
        outcomes.map(({ granted, remaining, retryAfterMs }) => [granted, remaining, retryAfterMs]),
        [
          [2, 8, 0],
          [3, 7, 0],
        ],
      )
      assert.deepEqual([await left(under, 1, ten), await left(under, 2, ten)], [8, 7])
    },
  },
  {
    name: 'a group in which one limit refuses is charged in none of them',
    run: async (under) => {
      await takes(under, 2, one)
      const [outcomes = []] = await outcomesOf(under, [[take(1, ten), take(2, one), take(3, ten)]])
      assert.deepEqual(
        outcomes.map(({ granted }) => granted),
        [0, 0, 0],
      )
      assert.deepEqual(
        outcomes.map(({ retryAfterMs }) => retryAfterMs === 0),
        [true, false, true],
      )
      assert.deepEqual([await left(under, 1, ten), await left(under, 3, ten)], [10, 10])
    },
  },
  {
    name: 'a refused group reports what is left now',
    run: async (under) => {
      await takes(under, 2, one)
      const [outcomes = []] = await outcomesOf(under, [[take(1, ten, 4), take(2, one)]])
      assert.equal(outcomes[0]?.remaining, 10)
    },
  },
  {
    name: 'the first group opens the others: refused, it leaves them uncharged',
    run: async (under) => {
      await takes(under, 1, one)
      const [, shadow = []] = await outcomesOf(under, [[take(1, one)], [take(2, ten)]])
      assert.equal(shadow[0]?.granted, 0)
      assert.equal(await left(under, 2, ten), 10)
    },
  },
  {
    name: 'an empty first group opens the others',
    run: async (under) => {
      const answers = await outcomesOf(under, [[], [take(2, ten)]])
      assert.deepEqual(answers[0], [])
      assert.equal(answers[1]?.[0]?.granted, 1)
    },
  },
  {
    name: 'a call without takes is answered with an empty list for each of its groups',
    run: async (under) => {
      assert.deepEqual(await under.store.take([[]]), [[]])
      assert.deepEqual(await under.store.take([[], []]), [[], []])
      assert.deepEqual(await under.store.take([]), [[]])
      assert.deepEqual(await under.store.peek([[]]), [[]])
      assert.deepEqual(await under.store.peek([[], []]), [[], []])
      assert.deepEqual(await under.store.peek([]), [])
    },
  },
  {
    name: 'further groups are independent of each other and of the first',
    run: async (under) => {
      await takes(under, 2, one)
      const answers = await outcomesOf(under, [[take(1, ten)], [take(2, one)], [take(3, ten)]])
      assert.deepEqual(
        answers.map(([outcome]) => outcome?.granted),
        [1, 0, 1],
      )
    },
  },
  {
    name: 'a limit that charges on refusal is charged, the others of its group are not',
    run: async (under) => {
      await takes(under, 2, one)
      await under.store.take([[take(1, charging, 3), take(2, one), take(3, ten)]])
      assert.deepEqual([await left(under, 1, charging), await left(under, 3, ten)], [7, 10])
    },
  },
  {
    name: 'a further group that refuses charges such a limit too, unless the first group kept it closed',
    run: async (under) => {
      await takes(under, 2, one)
      await under.store.take([[take(1, ten)], [take(3, charging, 3), take(2, one)]])
      assert.equal(await left(under, 3, charging), 7)
      await under.store.take([[take(2, one)], [take(3, charging, 3)]])
      assert.equal(await left(under, 3, charging), 7)
    },
  },
  {
    name: 'a limit that charges on refusal goes down to empty, never below',
    run: async (under) => {
      assert.equal(await takes(under, 1, charging, 8), true)
      assert.equal(await takes(under, 1, charging, 5), false)
      assert.equal(await left(under, 1, charging), 0)
      under.clock.advance(60_000)
      assert.equal(await left(under, 1, charging), 10)
    },
  },
  {
    name: 'an amount of 0 passes in a full counter and writes nothing',
    run: async (under) => {
      await takes(under, 1, one)
      const [outcomes = []] = await outcomesOf(under, [[take(1, one, 0), take(2, ten, 0)]])
      assert.deepEqual(
        outcomes.map(({ granted, retryAfterMs }) => [granted, retryAfterMs]),
        [
          [0, 0],
          [0, 0],
        ],
      )
    },
  },
  {
    name: 'concurrent takes never admit more than the limit',
    run: async (under) => {
      const wishes = Array.from({ length: 200 }, () => takes(under, 1, ten))
      const admitted = (await Promise.all(wishes)).filter(Boolean)
      assert.equal(admitted.length, 10)
    },
  },
]
