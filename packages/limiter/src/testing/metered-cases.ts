/** Conformance cases of takes that gate, overdraw or give back. */
import assert from 'node:assert/strict'
import { defineLimit, type LimitSpec, type Outcome, type Take } from '@sluice/core'
import {
  fixedWindow,
  left,
  outcomesOf,
  type StoreCase,
  type StoreUnderTest,
  take,
  takes,
  tokenBucket,
} from './conformance-kit.js'

const ten = fixedWindow(10)
const one = fixedWindow(1)
const charging = fixedWindow(10, { onRefusal: 'charge' })
const owing = fixedWindow(10, { debt: 5 })
const owingBucket = tokenBucket(10, { debt: 20 })
const waitingBucket = tokenBucket(60, { burst: 2, waitMs: 10_000, debt: 5 })
const leaky = defineLimit({ algorithm: 'leaky-bucket', max: 10, windowMs: 10_000, queue: 2 })

/** One limit of each algorithm, for three units. */
const SPECS: readonly LimitSpec[] = [
  { algorithm: 'token-bucket', max: 3, windowMs: 60_000 },
  { algorithm: 'gcra', max: 3, windowMs: 60_000, burst: 3 },
  { algorithm: 'fixed-window', max: 3, windowMs: 60_000 },
  { algorithm: 'fixed-window', start: 'call', max: 3, windowMs: 60_000 },
  { algorithm: 'sliding-window-counter', max: 3, windowMs: 60_000 },
  { algorithm: 'sliding-window-log', max: 3, windowMs: 60_000 },
]

const gate = (n: number, limit = ten): Take => ({ ...take(n, limit, 0), gate: true })
const overdraw = (n: number, limit = owing, amount = 1): Take => ({
  ...take(n, limit, amount),
  overdraw: true,
})

async function outcomeOf(under: StoreUnderTest, item: Take): Promise<Outcome> {
  const [[outcome] = []] = await outcomesOf(under, [[item]])
  if (outcome === undefined) assert.fail('The store returned no outcome')
  return outcome
}

const numbersOf = ({ granted, remaining, retryAfterMs }: Outcome) => [
  granted,
  remaining,
  retryAfterMs,
]

export const meteredCases: readonly StoreCase[] = [
  {
    name: 'a gate passes while one unit is left, takes nothing, and is refused until one is there',
    run: async (under) => {
      for (const [n, spec] of SPECS.entries()) {
        const limit = defineLimit(spec)
        assert.deepEqual(numbersOf(await outcomeOf(under, gate(n, limit))), [0, 3, 0])
        await takes(under, n, limit, 2)
        assert.deepEqual(numbersOf(await outcomeOf(under, gate(n, limit))), [0, 1, 0])
        await takes(under, n, limit, 1)
        const refused = await outcomeOf(under, gate(n, limit))
        const ordinary = await outcomeOf(under, take(n, limit))
        assert.deepEqual(numbersOf(refused), numbersOf(ordinary), spec.algorithm)
        assert.notEqual(refused.retryAfterMs, 0)
      }
    },
  },
  {
    name: 'a gate of a bucket that makes calls wait is refused while they would wait',
    run: async (under) => {
      await takes(under, 1, waitingBucket, 2)
      assert.deepEqual(numbersOf(await outcomeOf(under, gate(1, waitingBucket))), [0, 0, 1000])
      const waiting = await outcomeOf(under, take(1, waitingBucket))
      assert.deepEqual([waiting.granted, waiting.delayMs], [1, 1000])
    },
  },
  {
    name: 'a gate of a leaky bucket passes while a call could join its queue',
    run: async (under) => {
      for (let n = 0; n < 3; n++) {
        assert.equal((await outcomeOf(under, gate(1, leaky))).retryAfterMs, 0)
        assert.equal(await takes(under, 1, leaky), true)
      }
      assert.deepEqual(numbersOf(await outcomeOf(under, gate(1, leaky))), [0, 0, 1000])
    },
  },
  {
    name: 'a gate that refuses refuses its group, and one in a refused group changes nothing',
    run: async (under) => {
      await takes(under, 1, one)
      const [outcomes = []] = await outcomesOf(under, [[gate(1, one), take(2, ten, 4)]])
      assert.deepEqual(outcomes.map(numbersOf), [
        [0, 0, 60_000],
        [0, 10, 0],
      ])
      await outcomesOf(under, [[take(1, one), gate(3, charging), gate(4, ten)]])
      assert.equal(await left(under, 3, charging), 10)
      const shadows = await outcomesOf(under, [[gate(1, one)], [take(2, ten)]])
      assert.equal(shadows[1]?.[0]?.granted, 0)
    },
  },
  {
    name: 'a gate that is refused rebases a state of another clock',
    run: async (under) => {
      await takes(under, 1, one)
      under.clock.advance(-3_600_000)
      assert.deepEqual(numbersOf(await outcomeOf(under, gate(1, one))), [0, 0, 60_000])
      under.clock.advance(60_000)
      assert.equal((await outcomeOf(under, gate(1, one))).retryAfterMs, 0)
    },
  },
  {
    name: 'a peek of a gate says what the gate would',
    run: async (under) => {
      await takes(under, 1, one)
      const [peeked = []] = await under.store.peek([[gate(1, one), gate(2, ten)]])
      assert.deepEqual(peeked.map(numbersOf), [
        [0, 0, 60_000],
        [0, 10, 0],
      ])
    },
  },
  {
    name: 'an overdraw that fits is an ordinary take',
    run: async (under) => {
      assert.deepEqual(numbersOf(await outcomeOf(under, overdraw(1, owing, 10))), [10, 0, 0])
    },
  },
  {
    name: 'an overdraw that does not fit is charged into debt, and what exceeds the debt is dropped',
    run: async (under) => {
      await takes(under, 1, owing, 8)
      const owed = await outcomeOf(under, overdraw(1, owing, 4))
      assert.deepEqual(numbersOf(owed), [4, 0, 60_000])
      const dropped = await outcomeOf(under, overdraw(1, owing, 100))
      assert.deepEqual(numbersOf(dropped), [3, 0, 60_000])
      const none = await outcomeOf(under, overdraw(1, owing))
      assert.deepEqual(numbersOf(none), [0, 0, 60_000])
      under.clock.advance(60_000)
      assert.equal(await left(under, 1, owing), 10)
    },
  },
  {
    name: 'an overdraw owes in every algorithm that can owe, and its retry time is when it fits',
    run: async (under) => {
      for (const [n, spec] of SPECS.entries()) {
        const limit = defineLimit({ ...spec, debt: 4 })
        await takes(under, n, limit, 2)
        const { granted, retryAfterMs } = await outcomeOf(under, overdraw(n, limit, 3))
        assert.equal(granted, 3, spec.algorithm)
        under.clock.advance((retryAfterMs ?? 0) - 1)
        assert.notEqual((await outcomeOf(under, gate(n, limit))).remaining, 3)
        under.clock.advance(1)
        assert.equal(await takes(under, n, limit, 3), true, spec.algorithm)
      }
    },
  },
  {
    name: 'an overdraw above what the limit can hold waits until nothing is in use',
    run: async (under) => {
      const { granted, retryAfterMs } = await outcomeOf(under, overdraw(1, owingBucket, 25))
      assert.deepEqual([granted, retryAfterMs], [25, 150_000])
      under.clock.advance(90_000)
      assert.equal(await left(under, 1, owingBucket), 0)
      under.clock.advance(60_000)
      assert.equal(await left(under, 1, owingBucket), 10)
    },
  },
  {
    name: 'an overdraw is charged when its group is refused, unless the first group kept it closed',
    run: async (under) => {
      await takes(under, 2, one)
      const [outcomes = []] = await outcomesOf(under, [
        [overdraw(1, owing, 4), take(2, one), take(3, ten)],
      ])
      assert.deepEqual(outcomes.map(numbersOf), [
        [4, 6, 0],
        [0, 0, 60_000],
        [0, 10, 0],
      ])
      await outcomesOf(under, [[take(2, one)], [overdraw(1, owing, 4)]])
      assert.equal(await left(under, 1, owing), 6)
      await outcomesOf(under, [[take(3, ten)], [overdraw(1, owing, 20)], [take(4, ten)]])
      assert.deepEqual([await left(under, 1, owing), await left(under, 4, ten)], [0, 9])
    },
  },
  {
    name: 'an overdraw that would have waited is not lent more than its debt by a refused group',
    run: async (under) => {
      await takes(under, 2, one)
      await takes(under, 1, waitingBucket, 2)
      const call = [overdraw(1, waitingBucket, 2), take(2, one)]
      const [[owed] = []] = await outcomesOf(under, [call])
      assert.deepEqual([owed?.granted, owed?.delayMs, owed?.retryAfterMs], [2, 0, 0])
    },
  },
  {
    name: 'an overdraw of a leaky bucket takes the whole amount or nothing',
    run: async (under) => {
      assert.equal((await outcomeOf(under, overdraw(1, leaky, 2))).granted, 2)
      assert.deepEqual(numbersOf(await outcomeOf(under, overdraw(1, leaky, 3))), [0, 1, 2000])
      assert.deepEqual(numbersOf(await outcomeOf(under, overdraw(2, leaky, 9))), [0, 2, null])
    },
  },
  {
    name: 'an amount below 0 gives back into the window of its time, never above full',
    run: async (under) => {
      const at = under.clock.now()
      await takes(under, 1, ten, 6)
      assert.deepEqual(numbersOf(await outcomeOf(under, { ...take(1, ten, -4), at })), [-4, 8, 0])
      assert.deepEqual(numbersOf(await outcomeOf(under, take(1, ten, -9))), [-9, 10, 0])
      under.clock.advance(60_000)
      await takes(under, 1, ten, 6)
      assert.deepEqual(numbersOf(await outcomeOf(under, { ...take(1, ten, -4), at })), [0, 4, 0])
      assert.deepEqual(numbersOf(await outcomeOf(under, take(2, ten, -4))), [0, 10, 0])
    },
  },
  {
    name: 'an amount below 0 pays what is owed',
    run: async (under) => {
      await outcomeOf(under, overdraw(1, owing, 14))
      assert.deepEqual(numbersOf(await outcomeOf(under, take(1, owing, -3))), [-3, 0, 0])
      assert.deepEqual(numbersOf(await outcomeOf(under, take(1, owing, -3))), [-3, 2, 0])
    },
  },
  {
    name: 'an amount below 0 gives nothing back in a refused group, or one that was kept closed',
    run: async (under) => {
      await takes(under, 1, ten, 6)
      await takes(under, 2, one)
      const [outcomes = []] = await outcomesOf(under, [[take(1, ten, -4), take(2, one)]])
      assert.deepEqual(outcomes.map(numbersOf), [
        [0, 4, 0],
        [0, 0, 60_000],
      ])
      const closed = await outcomesOf(under, [[take(2, one)], [take(1, ten, -4)]])
      assert.deepEqual(closed[1]?.map(numbersOf), [[0, 4, 0]])
      const opened = await outcomesOf(under, [[take(3, one)], [take(1, ten, -4)]])
      assert.deepEqual(opened[1]?.map(numbersOf), [[-4, 8, 0]])
    },
  },
]
