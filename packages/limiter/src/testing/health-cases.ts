/** The optional parts of the store contract: a store without one of them passes its cases. */
import assert from 'node:assert/strict'
import { fixedWindow, type StoreCase, takes } from './conformance-kit.js'

const ten = fixedWindow(10)
const STATES = ['starting', 'ready', 'refused', 'unfit']

export const healthCases: readonly StoreCase[] = [
  {
    name: 'health reports remote servers exactly where the counters are not in this process',
    run: async (under) => {
      await takes(under, 1, ten)
      const health = under.store.health?.()
      if (health === undefined) return
      assert.equal(health.remote === undefined, under.store.sync !== undefined)
    },
  },
  {
    name: 'health of a store that has just answered is ready, with a node that answers',
    run: async (under) => {
      await takes(under, 1, ten)
      const remote = under.store.health?.().remote
      if (remote === undefined) return
      assert.ok(STATES.includes(remote.state))
      assert.equal(remote.state, 'ready')
      const answering = remote.nodes.filter(({ isAnswering }) => isAnswering)
      assert.ok(answering.length > 0)
      assert.ok(answering.every(({ address, isBreakerOpen }) => address !== '' && !isBreakerOpen))
      assert.ok(remote.fleet.size >= 1)
    },
  },
  {
    name: 'health measures memory in counts that are never negative',
    run: async (under) => {
      await takes(under, 1, ten)
      const memory = under.store.health?.().memory
      if (memory === undefined) return
      for (const figure of [memory.usedBytes, memory.maxBytes, memory.counters ?? 0]) {
        assert.ok(Number.isSafeInteger(figure) && figure >= 0)
      }
      assert.ok(memory.evictedBlocked >= 0 && memory.evictedBlocked <= memory.evicted)
      if (under.store.sync !== undefined) assert.equal(memory.counters, 1)
    },
  },
  {
    name: 'reading health changes no counter',
    run: async (under) => {
      await takes(under, 1, ten, 4)
      const groups = [[{ key: { hi: 1, lo: 1, partition: 5 }, limit: ten, amount: 1 }]]
      const before = await under.store.peek(groups)
      under.store.health?.()
      assert.deepEqual(await under.store.peek(groups), before)
    },
  },
  {
    name: 'a text that a node posts to the exchange is read back, and replaced by the next',
    run: async ({ store }) => {
      const { exchange } = store
      if (exchange === undefined) return
      await exchange.post('first of this node')
      assert.ok((await exchange.read()).includes('first of this node'))
      await exchange.post('second of this node')
      const texts = await exchange.read()
      assert.ok(texts.includes('second of this node') && !texts.includes('first of this node'))
    },
  },
]
