/** Conformance cases of the single verbs, and of states that a store must keep apart. */
import assert from 'node:assert/strict'
import { defineLimit } from '@sluice/core'
import {
  fixedWindow,
  key,
  left,
  outcomesOf,
  type StoreCase,
  take,
  takes,
  tokenBucket,
} from './conformance-kit.js'

const ten = fixedWindow(10)
const daily = fixedWindow(10, { windowMs: 86_400_000, window: 'day', zone: 'Europe/Berlin' })
const bucket = tokenBucket(10)
const lent = tokenBucket(10, { debt: 5 })
const log = defineLimit({ algorithm: 'sliding-window-log', max: 3, windowMs: 60_000 })
const leaky = defineLimit({ algorithm: 'leaky-bucket', max: 10, windowMs: 10_000, queue: 2 })

export const verbCases: readonly StoreCase[] = [
  {
    name: 'counters of different keys are separate, whichever half of the key differs',
    run: async (under) => {
      const keys = [key(1), { ...key(1), hi: key(1).hi ^ 1 }, { ...key(1), lo: key(1).lo ^ 1 }]
      for (const each of keys) {
        const [[outcome] = []] = await outcomesOf(under, [[{ key: each, limit: ten, amount: 1 }]])
        assert.equal(outcome?.remaining, 9)
      }
    },
  },
  {
    name: 'a counter follows the store’s clock',
    run: async (under) => {
      assert.equal(await takes(under, 1, ten, 10), true)
      under.clock.advance(59_999)
      assert.equal(await takes(under, 1, ten), false)
      under.clock.advance(1)
      assert.equal(await takes(under, 1, ten), true)
    },
  },
  {
    name: 'a calendar window ends at local midnight, also on a day of 23 and one of 25 hours',
    run: async (under) => {
      // The starts of the days in Berlin on which summer begins and ends, and of the next ones.
      const days = [
        [Date.UTC(2026, 2, 28, 23), Date.UTC(2026, 2, 29, 22)],
        [Date.UTC(2026, 9, 24, 22), Date.UTC(2026, 9, 25, 23)],
      ] as const
      for (const [start, end] of days) {
        under.clock.set((start - 1) * 1000)
        assert.equal(await takes(under, 1, daily, 10), true)
        assert.equal(await takes(under, 1, daily), false)
        under.clock.set(start * 1000)
        assert.equal(await takes(under, 1, daily, 10), true)
        under.clock.set((end - 1) * 1000)
        const [[outcome] = []] = await outcomesOf(under, [[take(1, daily)]])
        assert.deepEqual([outcome?.granted, outcome?.retryAfterMs], [0, 1])
        under.clock.set(end * 1000)
        assert.equal(await takes(under, 1, daily), true)
        assert.equal(await left(under, 1, daily), 9)
      }
    },
  },
  {
    name: 'an outcome has the store’s time, and a call passes after retryAfterMs',
    run: async (under) => {
      await takes(under, 1, bucket, 10)
      const [[outcome] = []] = await outcomesOf(under, [[take(1, bucket, 2)]])
      assert.equal(outcome?.at, under.clock.now())
      assert.equal(outcome?.retryAfterMs, 12_000)
      under.clock.advance(11_999)
      assert.equal(await takes(under, 1, bucket, 2), false)
      under.clock.advance(1)
      assert.equal(await takes(under, 1, bucket, 2), true)
    },
  },
  {
    name: 'peek changes nothing, and returns states with `states`',
    run: async (under) => {
      await takes(under, 1, ten, 4)
      for (const amount of [6, 7]) {
        const groups = [[take(1, ten, amount)]]
        const before = await under.store.peek(groups, { states: true })
        const again = await under.store.peek(groups, { states: true })
        assert.deepEqual(again, before)
        assert.notEqual(before[0]?.[0]?.state, undefined)
        const [[plain] = []] = await under.store.peek(groups)
        assert.equal(plain?.retryAfterMs === 0, amount === 6)
      }
      const [[absent] = []] = await under.store.peek([[take(99, ten)]], { states: true })
      assert.equal(absent?.state, undefined)
    },
  },
  {
    name: 'atLeast takes what is there, if that is enough',
    run: async (under) => {
      await takes(under, 1, ten, 7)
      const draw = { ...take(1, ten, 8), atLeast: 4 }
      const [[refused] = []] = await outcomesOf(under, [[draw]])
      assert.equal(refused?.granted, 0)
      const [[granted] = []] = await outcomesOf(under, [[{ ...draw, atLeast: 3 }]])
      assert.deepEqual([granted?.granted, granted?.remaining], [3, 0])
    },
  },
  {
    name: 'a give returns units into the window they came from, never above full',
    run: async (under) => {
      const at = under.clock.now()
      await takes(under, 1, ten, 6)
      await under.store.give({ key: key(1), limit: ten, amount: 4, at })
      assert.equal(await left(under, 1, ten), 8)
      await under.store.give({ key: key(1), limit: ten, amount: 9, at })
      assert.equal(await left(under, 1, ten), 10)
      under.clock.advance(60_000)
      await takes(under, 1, ten, 6)
      await under.store.give({ key: key(1), limit: ten, amount: 4, at })
      assert.equal(await left(under, 1, ten), 4)
    },
  },
  {
    name: 'a give to a missing counter creates none',
    run: async (under) => {
      await under.store.give({ key: key(1), limit: ten, amount: 4 })
      const [[outcome] = []] = await under.store.peek([[take(1, ten)]], { states: true })
      assert.equal(outcome?.state, undefined)
    },
  },
  {
    name: 'a log gives back the entry of its time, or the oldest ones',
    run: async (under) => {
      const first = under.clock.now()
      await takes(under, 1, log)
      under.clock.advance(10_000)
      await takes(under, 1, log, 2)
      await under.store.give({ key: key(1), limit: log, amount: 1, at: first })
      assert.equal(await left(under, 1, log), 1)
      await under.store.give({ key: key(1), limit: log, amount: 1 })
      assert.equal(await left(under, 1, log), 2)
    },
  },
  {
    name: 'a charge cannot be refused and goes down to empty, or into the debt the limit allows',
    run: async (under) => {
      const at = under.clock.now()
      await takes(under, 1, bucket, 8)
      await under.store.charge({ key: key(1), limit: bucket, amount: 50, at, debt: 0 })
      assert.equal(await left(under, 1, bucket), 0)
      under.clock.advance(6000)
      assert.equal(await left(under, 1, bucket), 1)
      await under.store.charge({ key: key(2), limit: lent, amount: 15, at, debt: 5 })
      under.clock.advance(30_000)
      assert.equal(await left(under, 2, lent), 0)
      under.clock.advance(6000)
      assert.equal(await left(under, 2, lent), 1)
    },
  },
  {
    name: 'a reset forgets one counter and no other',
    run: async (under) => {
      await takes(under, 1, ten, 10)
      await takes(under, 2, ten, 10)
      await under.store.reset(key(1))
      assert.deepEqual([await left(under, 1, ten), await left(under, 2, ten)], [10, 0])
    },
  },
  {
    name: 'a changed limit keeps what was used',
    run: async (under) => {
      await takes(under, 1, bucket, 10)
      assert.equal(await left(under, 1, tokenBucket(100)), 90)
      await takes(under, 2, ten, 8)
      assert.equal(await left(under, 2, fixedWindow(5)), 0)
    },
  },
  {
    name: 'another algorithm starts empty',
    run: async (under) => {
      await takes(under, 1, ten, 10)
      assert.equal(await left(under, 1, bucket), 10)
      assert.equal(await takes(under, 1, bucket, 10), true)
      await under.store.give({ key: key(1), limit: ten, amount: 5 })
      assert.equal(await left(under, 1, bucket), 0)
    },
  },
  {
    name: 'a state far ahead of the clock is rebased to it, even if the call is refused',
    run: async (under) => {
      await takes(under, 1, ten, 10)
      under.clock.advance(-3_600_000)
      assert.equal(await takes(under, 1, ten), false)
      under.clock.advance(60_000)
      assert.equal(await takes(under, 1, ten), true)
    },
  },
  {
    name: 'a leaky bucket spaces calls, bounds its queue, and takes back a place',
    run: async (under) => {
      const delays: number[] = []
      for (let n = 0; n < 3; n++) {
        const [[outcome] = []] = await outcomesOf(under, [[take(1, leaky)]])
        delays.push(outcome?.delayMs ?? -1)
      }
      assert.deepEqual(delays, [0, 1000, 2000])
      assert.equal(await takes(under, 1, leaky), false)
      const slot = under.clock.now() + 1_000_000
      await under.store.give({ key: key(1), limit: leaky, amount: 1, at: slot })
      const [[joined] = []] = await outcomesOf(under, [[take(1, leaky)]])
      assert.deepEqual([joined?.granted, joined?.delayMs], [1, 3000])
    },
  },
  {
    name: 'a leaky bucket takes back a slot that has begun if its call was never admitted',
    run: async (under) => {
      const delay = async () => (await outcomesOf(under, [[take(1, leaky)]]))[0]?.[0]?.delayMs
      const at = under.clock.now()
      const give = { key: key(1), limit: leaky, amount: 1, at }
      assert.equal(await delay(), 0)
      under.clock.advance(10)
      await under.store.give(give)
      assert.equal(await delay(), 990)
      await under.store.give({ ...give, at: at + 1_000_000, undone: true })
      await under.store.give({ ...give, undone: true })
      assert.equal(await delay(), 0)
    },
  },
]
