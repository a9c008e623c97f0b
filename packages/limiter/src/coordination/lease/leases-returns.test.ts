/** Units that could not be returned at once. */
import { SluiceError } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { isBalanced, LeasingNode, takeOf } from './leases.test-helper.js'

const window = (max: number, length = '1h') => ({ algorithm: 'fixed-window', max, window: length })
const WAIT_MS = 20

const failing = (silence: 'not-run' | 'unknown') =>
  Object.assign(new SluiceError('STORE_FAILED', 'silent'), { silence })

async function leased(take = takeOf(window(1000))) {
  const node = new LeasingNode()
  node.spendByStore(take, 10)
  await node.leases.take(take, WAIT_MS)
  return { node, take }
}

describe('LeaseReturns', () => {
  test('unspent units wait until the store answers', async () => {
    const { node, take } = await leased()
    node.isAnswering = false
    await node.pass(3000)
    expect(node.given()).toEqual([])
    expect(node.stats).toMatchObject({ held: 10, lost: 0 })
    node.isAnswering = true
    await node.pass(100)
    expect(node.given()).toEqual([10])
    expect(node.stats).toMatchObject({ held: 0, givenBack: 10, lost: 0 })
    expect(node.used(take)).toBe(11)
    expect(isBalanced(node.stats)).toBe(true)
  })

  test('unspent units whose return certainly did not run are returned again', async () => {
    const { node, take } = await leased()
    node.store.script.verbError = failing('not-run')
    await node.pass(1000)
    expect(node.stats).toMatchObject({ held: 10, lost: 0 })
    node.store.script.verbError = undefined
    await node.pass(100)
    expect(node.stats).toMatchObject({ held: 0, givenBack: 10 })
    expect(node.used(take)).toBe(11)
    expect(node.timers).toBe(0)
  })

  test('unspent units whose return may have run are not returned again', async () => {
    const { node } = await leased()
    node.store.script.verbError = failing('unknown')
    await node.pass(1000)
    node.store.script.verbError = undefined
    await node.pass(1000)
    expect(node.given()).toEqual([10])
    expect(node.stats).toMatchObject({ held: 0, lost: 10 })
  })

  test('unspent units of a window that is over are not returned', async () => {
    const { node } = await leased(takeOf(window(1000, '4s')))
    node.isAnswering = false
    await node.pass(5000)
    node.isAnswering = true
    await node.pass(100)
    expect(node.given()).toEqual([])
    expect(node.stats).toMatchObject({ held: 0, lost: 0, givenBack: 10 })
  })

  test('unspent units of a window that is over are dropped without the store', async () => {
    const { node } = await leased(takeOf(window(1000, '4s')))
    node.isAnswering = false
    await node.pass(5000)
    expect(node.stats).toMatchObject({ held: 0, lost: 0, givenBack: 10 })
    expect(node.timers).toBe(0)
  })

  test('unspent units of a counter that is reset meanwhile are forgotten', async () => {
    const { node, take } = await leased()
    node.isAnswering = false
    await node.pass(1000)
    node.leases.forget(take.key)
    node.isAnswering = true
    await node.pass(1000)
    expect(node.given()).toEqual([])
    expect(node.stats).toMatchObject({ held: 0, lost: 10 })
  })

  test('unspent units whose return did not run are forgotten too if the counter was reset meanwhile', async () => {
    const { node, take } = await leased()
    let fail = () => {}
    node.store.give = () =>
      new Promise((_, reject) => {
        fail = () => reject(failing('not-run'))
      })
    await node.pass(600)
    node.leases.forget(take.key)
    fail()
    await node.pass(1000)
    expect(node.stats).toMatchObject({ held: 0, lost: 10 })
    expect(node.timers).toBe(0)
  })

  test('unspent units count against what may be held until the store has them back', async () => {
    const { node, take } = await leased(takeOf(window(200)))
    expect(node.stats.held).toBe(10)
    node.isAnswering = false
    await node.pass(600)
    node.spendByStore(take, 20)
    await node.leases.take(take, WAIT_MS)
    expect(node.draws().at(-1)).toMatchObject({ amount: 1 })
  })

  test('the return of unspent units is tried once more on close', async () => {
    const { node } = await leased()
    node.isAnswering = false
    await node.pass(1000)
    await node.leases.close()
    expect(node.given()).toEqual([10])
    expect(node.stats).toMatchObject({ held: 0, givenBack: 10 })
  })

  test('unspent units that cannot be returned on close are lost, and close does not wait for them', async () => {
    const { node } = await leased()
    node.store.script.verbError = failing('not-run')
    await node.leases.close()
    expect(node.given()).toEqual([10])
    expect(node.stats).toMatchObject({ held: 0, lost: 10, counters: 0 })
    expect(node.timers).toBe(0)
  })
})

test('leases of many counters are returned in chunks, so that no sweep floods the store', async () => {
  const take = takeOf(window(1000))
  const node = new LeasingNode()
  for (let lo = 0; lo < 1200; lo++) {
    const each = { ...take, key: { hi: lo, lo, partition: 0 } }
    node.spendByStore(each, 8)
    await node.leases.take(each, WAIT_MS)
  }
  expect(node.stats).toMatchObject({ counters: 1200, held: 9600 })
  // The process did not run, so all leases expire at once.
  node.freeze(2000)
  const givenBack: number[] = []
  for (const ms of [0, 50, 50]) {
    await node.pass(ms)
    givenBack.push(node.given().length)
  }
  expect(givenBack).toEqual([512, 1024, 1200])
  expect(node.stats).toMatchObject({ counters: 0, held: 0, givenBack: 9600 })
})
