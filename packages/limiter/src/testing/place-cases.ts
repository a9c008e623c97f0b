/** Conformance cases of concurrency: places that holders take, renew and give back. */
import assert from 'node:assert/strict'
import { defineLimit, type Outcome, type Take } from '@sluice/core'
import {
  fixedWindow,
  key,
  left,
  outcomesOf,
  type StoreCase,
  type StoreUnderTest,
} from './conformance-kit.js'

const LEASE_MS = 5000
const places = defineLimit({ algorithm: 'concurrency', max: 3, windowMs: 0, leaseMs: LEASE_MS })
const one = fixedWindow(1)

const [NODE, OTHER] = [7, 2 ** 52 - 1]

function placeTake(n: number, holder: number, amount = 1): Take {
  return { key: key(n), limit: places, amount, holder }
}

async function takePlaces(
  under: StoreUnderTest,
  holder: number,
  amount = 1,
): Promise<Outcome | undefined> {
  const [[outcome] = []] = await outcomesOf(under, [[placeTake(1, holder, amount)]])
  return outcome
}

export const placeCases: readonly StoreCase[] = [
  {
    name: 'places are taken until they are given back, by any holder',
    run: async (under) => {
      const { granted, remaining, resetAfterMs, at } = (await takePlaces(under, NODE, 2)) ?? {}
      assert.deepEqual([granted, remaining, resetAfterMs, at], [2, 1, LEASE_MS, NODE])
      assert.equal((await takePlaces(under, OTHER))?.at, OTHER)
      assert.equal((await takePlaces(under, OTHER))?.retryAfterMs, 1000)
      await under.store.give({ key: key(1), limit: places, amount: 1, at: NODE })
      assert.equal(await left(under, 1, places), 1)
      await under.store.give({ key: key(1), limit: places, amount: 1, at: OTHER })
      await under.store.give({ key: key(1), limit: places, amount: 9, at: OTHER })
      assert.equal(await left(under, 1, places), 2)
    },
  },
  {
    name: 'places of a holder that does not renew them are free after the lease',
    run: async (under) => {
      await takePlaces(under, NODE, 2)
      await takePlaces(under, OTHER)
      under.clock.advance(LEASE_MS - 1)
      await under.store.charge({ key: key(1), limit: places, amount: 1, at: OTHER, debt: 0 })
      assert.equal(await left(under, 1, places), 0)
      under.clock.advance(1)
      assert.equal(await left(under, 1, places), 2)
      under.clock.advance(LEASE_MS - 1)
      assert.equal(await left(under, 1, places), 3)
    },
  },
  {
    name: 'a charge raises the places of a holder, and with a debt sets them',
    run: async (under) => {
      const charge = (amount: number, debt: number) =>
        under.store.charge({ key: key(1), limit: places, amount, at: NODE, debt })
      await charge(0, 0)
      assert.equal(await left(under, 1, places), 3)
      await charge(2, 0)
      await charge(1, 0)
      assert.equal(await left(under, 1, places), 1)
      await charge(1, 1)
      assert.equal(await left(under, 1, places), 2)
      await charge(0, 1)
      assert.equal(await left(under, 1, places), 3)
    },
  },
  {
    name: 'a group that is refused takes no places',
    run: async (under) => {
      const rate = { key: key(2), limit: one, amount: 1 }
      const [passed = []] = await outcomesOf(under, [[placeTake(1, NODE), rate]])
      assert.deepEqual(
        passed.map(({ granted }) => granted),
        [1, 1],
      )
      const [refused = []] = await outcomesOf(under, [[placeTake(1, NODE), rate]])
      assert.deepEqual(
        refused.map(({ granted }) => granted),
        [0, 0],
      )
      assert.equal(await left(under, 1, places), 2)
    },
  },
  {
    name: 'a group that is opened takes places, and one that is not takes none',
    run: async (under) => {
      const rate = { key: key(2), limit: one, amount: 1 }
      const groups = [[rate], [placeTake(1, NODE)], [placeTake(3, NODE, 4)]]
      const opened = await outcomesOf(under, groups)
      assert.deepEqual(
        opened.map(([outcome]) => outcome?.granted),
        [1, 1, 0],
      )
      const closed = await outcomesOf(under, groups)
      assert.deepEqual(
        closed.map(([outcome]) => outcome?.granted),
        [0, 0, 0],
      )
      assert.deepEqual([await left(under, 1, places), await left(under, 3, places)], [2, 3])
    },
  },
  {
    name: 'a state of places has three numbers for each holder',
    run: async (under) => {
      await takePlaces(under, NODE, 2)
      await takePlaces(under, OTHER)
      const [[peeked] = []] = await under.store.peek([[placeTake(1, NODE)]], { states: true })
      const expires = under.clock.now() + LEASE_MS * 1000
      assert.deepEqual(peeked?.state, [NODE, 2, expires, OTHER, 1, expires])
    },
  },
]
