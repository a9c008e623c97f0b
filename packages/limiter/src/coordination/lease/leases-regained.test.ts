/** Units that a bucket has refilled by itself are not returned again. */
import { describe, expect, test } from 'vitest'
import { outcomeOf, isBalanced, LeasingNode, takeOf } from './leases.test-helper.js'

// 100 units a second: what is used up is regained within a second, and a lease lasts a quarter.
const perSecond = takeOf('100/second')

async function leased(used: number) {
  const node = new LeasingNode()
  node.spendByStore(perSecond, used)
  const outcome = outcomeOf(await node.take(perSecond))
  return { node, outcome }
}

describe('unspent units of a bucket', () => {
  test('unspent units of a bucket are given back while it cannot have been full since they were drawn', async () => {
    const { node } = await leased(60)
    await node.pass(300)
    expect(node.given()).toEqual([5])
    expect(isBalanced(node.stats)).toBe(true)
  })

  test('unspent units of a bucket are not returned once it may have been full: they would be spent twice', async () => {
    // 8 + 6 units are regained within 140 ms, and the lease is in use for that long.
    const { node } = await leased(8)
    for (let i = 0; i < 3; i++) {
      await node.pass(45)
      outcomeOf(node.take(perSecond))
    }
    await node.pass(165)
    expect(node.given()).toEqual([])
    expect(node.stats).toMatchObject({ held: 0, givenBack: 2, lost: 0 })
    expect(isBalanced(node.stats)).toBe(true)
  })

  test('unspent units of a bucket are not returned after a sleep that only the wall clock noticed', async () => {
    const { node } = await leased(60)
    node.suspend(1000)
    await node.pass(50)
    expect(node.given()).toEqual([])
    expect(node.stats).toMatchObject({ held: 0, givenBack: 5, lost: 0 })
  })

  test('cycles of draw and refill admit no more than the bucket alone does', async () => {
    const node = new LeasingNode()
    let admitted = 0
    for (let cycle = 0; cycle < 20; cycle++) {
      node.spendByStore(perSecond, 8)
      await node.take(perSecond)
      admitted += 9
      // The bucket is full again when others take all of it, and the lease is still held.
      for (let i = 0; i < 3; i++) {
        await node.pass(50)
        admitted += outcomeOf(node.take(perSecond)).granted
      }
      const all = { ...perSecond, amount: 100, atLeast: 1 }
      admitted += node.store.inner.sync.take([[all]])[0]?.[0]?.granted ?? 0
      await node.pass(850)
      admitted += node.store.inner.sync.take([[all]])[0]?.[0]?.granted ?? 0
      await node.pass(1000)
    }
    expect(admitted).toBeLessThanOrEqual(100 + 40 * 100 + 5)
  })
})
