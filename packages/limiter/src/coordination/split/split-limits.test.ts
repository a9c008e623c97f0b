import type { CompiledLimit, PlannedTake } from '@sluice/core'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { SplitLimits, nodeUnits } from './split-limits.js'
import { compiled, Fleet, takeOf } from '../fleet.test-helper.js'

const MINUTE_US = 60_000_000

/** The split limits of every node of a fleet, over a store that must never be called. */
function splitFleet(size: number) {
  const fleet = new Fleet(size)
  const places = Array.from({ length: size }, (_, place) => place)
  const nodes = fleet.nodes.map(({ deps: parts }, i) => {
    return new SplitLimits({ ...parts, fleetPlace: () => places[i] ?? 0 })
  })
  const at = (place: number): SplitLimits => {
    const node = nodes[place]
    if (node === undefined) throw new Error(`no node ${place}`)
    return node
  }
  return { fleet, places, at, nodes }
}

const grantedOf = (node: SplitLimits, take: PlannedTake): number => node.take(take)?.granted ?? -1

/** How many single units a node grants at once. */
function drain(node: SplitLimits, of: CompiledLimit): number {
  let granted = 0
  while (grantedOf(node, takeOf(of)) === 1) granted += 1
  return granted
}

describe('nodeUnits', () => {
  test.each([
    [10, 1, [10]],
    [10, 3, [3, 3, 4]],
    [3, 4, [0, 1, 1, 1]],
    [1, 4, [0, 0, 0, 1]],
    [0, 2, [0, 0]],
    [999_999_999_999_999, 2, [499_999_999_999_999, 500_000_000_000_000]],
  ])('the part of a node of %d on %d nodes is one of %j', (units, nodes, parts) => {
    expect(parts.map((_, place) => nodeUnits(units, nodes, place))).toEqual(parts)
  })

  test('the part of a node is at most one unit more or less than any other, and all sum to the limit', () => {
    const units = fc.integer({ min: 0, max: 999_999_999_999_999 })
    fc.assert(
      fc.property(units, fc.integer({ min: 1, max: 200 }), (whole, nodes) => {
        const parts = Array.from({ length: nodes }, (_, place) => nodeUnits(whole, nodes, place))
        expect(parts.reduce((sum, part) => sum + part, 0)).toBe(whole)
        expect(Math.max(...parts) - Math.min(...parts)).toBeLessThanOrEqual(1)
      }),
    )
  })
})

describe('SplitLimits', () => {
  test.each([
    ['100/second'],
    [{ algorithm: 'fixed-window', max: 100, window: '1m' }],
    [{ algorithm: 'fixed-window', max: 100, window: 'month', zone: 'Europe/Berlin' }],
    [{ algorithm: 'sliding-window-counter', max: 100, window: '1m' }],
    [{ algorithm: 'sliding-window-log', max: 100, window: '1m' }],
    [{ max: 60, window: '1m', burst: 100 }],
  ])('a split limit %j is granted by all nodes together exactly, without the store', (limit) => {
    const { nodes, fleet } = splitFleet(7)
    const of = compiled(limit)
    expect(nodes.reduce((sum, node) => sum + drain(node, of), 0)).toBe(100)
    expect(fleet.nodes.every(({ store }) => store.reads.length === 0)).toBe(true)
    expect(fleet.shared.stats().counters).toBe(0)
  })

  test('a split limit splits the rate of a bucket as well', async () => {
    const { at, fleet } = splitFleet(4)
    const of = compiled('100/second')
    expect(drain(at(0), of)).toBe(25)
    await fleet.time.advance(200)
    expect(drain(at(0), of)).toBe(5)
  })

  test('a split limit whose burst is smaller than the fleet still admits its rate', async () => {
    const { nodes, fleet } = splitFleet(4)
    const of = compiled({ algorithm: 'gcra', max: 100, window: '1s' })
    const granted = () => nodes.map((node) => drain(node, of))
    expect(granted()).toEqual([1, 1, 1, 1])
    await fleet.time.advance(40)
    expect(granted()).toEqual([1, 1, 1, 1])
  })

  test('a split limit goes on with the same counter when the fleet changes', () => {
    const { at, fleet, places } = splitFleet(4)
    const of = compiled({ algorithm: 'fixed-window', max: 10, window: '1m' })
    expect(drain(at(0), of)).toBe(2)
    fleet.size = 2
    expect(drain(at(0), of)).toBe(3)
    fleet.size = 4
    expect(at(0).take(takeOf(of))).toMatchObject({ granted: 0, remaining: 0 })
    places[0] = 1
    expect(drain(at(0), of)).toBe(0)
  })

  test('a node whose part of a split limit is 0 refuses for a window, because the fleet may change', () => {
    const { at, places } = splitFleet(4)
    const of = compiled({ algorithm: 'fixed-window', max: 1, window: '1m' })
    expect(at(0).take(takeOf(of))).toMatchObject({ granted: 0, retryAfterMs: 60_000, remaining: 0 })
    expect(at(0).take(takeOf(of, 0))).toMatchObject({ granted: 0, retryAfterMs: 0 })
    expect(at(0).take(takeOf(of, 2))?.retryAfterMs).toBeNull()
    expect(at(0).peek(takeOf(of))).toMatchObject({ retryAfterMs: 60_000 })
    places[0] = 3
    expect(grantedOf(at(0), takeOf(of))).toBe(1)
  })

  test('a node whose part of a calendar window is 0 refuses until the window ends', () => {
    const { at } = splitFleet(4)
    const of = compiled({ algorithm: 'fixed-window', max: 1, window: 'day', zone: 'Europe/Berlin' })
    expect(at(0).take(takeOf(of))).toMatchObject({ granted: 0, retryAfterMs: 23 * 3_600_000 })
  })

  test('a split limit refuses for good only a cost above the capacity of the whole limit', () => {
    const { at } = splitFleet(2)
    const of = compiled({ algorithm: 'fixed-window', max: 10, window: '1m' })
    expect(at(0).take(takeOf(of, 6))?.retryAfterMs).toBe(60_000)
    expect(at(0).take(takeOf(of, 11))?.retryAfterMs).toBeNull()
    const none = compiled('0/minute')
    expect(at(0).take(takeOf(none))?.retryAfterMs).toBeNull()
  })

  test('a split limit is never stale', () => {
    const { at } = splitFleet(2)
    expect(at(0).take(takeOf(compiled('10/second')))?.staleMs).toBe(0)
  })

  test('a split limit delays calls if its limit does and the calls can wait', () => {
    const { at } = splitFleet(2)
    const of = compiled({ max: 4, window: '1s', wait: '600ms' })
    expect(drain(at(0), of)).toBe(3)
    const { at: again } = splitFleet(2)
    const immediate = { ...takeOf(of), limit: of.immediate }
    expect([1, 2, 3].map(() => grantedOf(again(0), immediate))).toEqual([1, 1, 0])
  })

  test('a split limit takes back the units of a call that another limit refused', () => {
    const { at } = splitFleet(2)
    const of = compiled({ algorithm: 'fixed-window', max: 10, window: '1m' })
    const take = takeOf(of, 5)
    const outcome = at(0).take(take)
    expect(outcome).toMatchObject({ granted: 5, remaining: 0 })
    if (outcome !== undefined) at(0).putBack(take, outcome)
    expect(at(0).peek(take)).toMatchObject({ remaining: 5, state: { count: 0 } })
  })

  test('a split limit is refunded on this node, to the window that the units came from', async () => {
    const { at, fleet } = splitFleet(2)
    const of = compiled({ algorithm: 'fixed-window', max: 10, window: '1m' })
    const take = takeOf(of, 5)
    const outcome = at(0).take(take)
    const { key, limit } = take
    expect(at(0).refund({ key, limit, amount: 2, at: outcome?.at })).toBe(true)
    expect(at(0).peek(take)).toMatchObject({ remaining: 2 })
    await fleet.time.advance(60_000)
    at(0).take(takeOf(of, 1))
    expect(at(0).refund({ key, limit, amount: 2, at: outcome?.at })).toBe(true)
    expect(at(0).peek(take)).toMatchObject({ remaining: 4 })
  })

  test('a split limit starts anew after a reset, and keeps its count when rules change', () => {
    const { at } = splitFleet(2)
    const of = compiled({ algorithm: 'fixed-window', max: 10, window: '1m' })
    expect(drain(at(0), of)).toBe(5)
    expect(drain(at(0), compiled({ algorithm: 'fixed-window', max: 10, window: '1m' }))).toBe(0)
    at(0).forget(takeOf(of).key)
    expect(drain(at(0), of)).toBe(5)
  })

  test('a split limit counts a unit in the window where its limit places it', () => {
    const { fleet } = splitFleet(1)
    const parts = fleet.nodes[0]?.deps
    if (parts === undefined) throw new Error('no node')
    const early = new SplitLimits({
      ...parts,
      fleetSize: () => 2,
      placeInWindow: ({ windowUs }) => fleet.time.nowUs() - (windowUs === MINUTE_US ? 1 : 0),
    })
    const at = (window: string) =>
      early.take(takeOf(compiled({ algorithm: 'fixed-window', max: 9, window })))?.at
    expect(at('1m')).toBe(fleet.time.nowUs() - 1)
    expect(at('1h')).toBe(fleet.time.nowUs())
  })

  test('a split limit decides nothing after it is closed', async () => {
    const { at } = splitFleet(2)
    await at(0).close()
    expect(at(0).take(takeOf(compiled('10/second')))).toBeUndefined()
  })
})
