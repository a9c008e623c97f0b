import type { CompiledLimit, PlannedTake } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import {
  compiled,
  START_US,
  settled,
  startLocal as start,
  takeOf,
  window100,
} from '../fleet.test-helper.js'
import type { NodeOutcome } from '../node-decider.js'
import type { LocalCounts } from './local-counts.js'

const isKnown = ({ local }: { readonly local: LocalCounts }, of: CompiledLimit, name = 1) =>
  local.peek(takeOf(of, 1, name)) !== undefined

describe('units put back', () => {
  const putBack = (world: ReturnType<typeof start>, outcome: NodeOutcome, amount = 1) =>
    world.local.putBack(takeOf(world.of, amount), outcome)

  test('a unit that is put back before it was reported is not reported', async () => {
    const world = start()
    world.learn()
    world.take(3)
    putBack(world, world.take(10), 10)
    expect(world.take(0).remaining).toBe(96)
    await world.time.advance(100)
    expect(world.count()).toMatchObject({ count: 4 })
    expect(world.store.gives).toEqual([])
  })

  test('a unit that is put back after it was reported is given back to the store, into its window', async () => {
    const world = start()
    world.learn()
    const outcome = world.take(10)
    await world.time.advance(100)
    putBack(world, outcome, 10)
    await settled()
    const { key } = takeOf(world.of)
    expect(world.store.gives).toEqual([{ key, limit: world.of.limit, amount: 10, at: outcome.at }])
    expect(world.count()).toMatchObject({ count: 1 })
    expect(world.take(0).remaining).toBe(99)
    expect(world.gaveBack).toEqual([key, key])
  })

  test.each([
    ['ran', undefined, 1, 1],
    ['certainly did not', 'not-run', 1, 0],
    ['may have', 'ran', 11, 0],
  ] as const)(
    'a unit that is put back during its report is given back if the report ran: it %s',
    async (_, fault, counted, gives) => {
      const world = start()
      world.learn()
      const outcome = world.take(10)
      world.store.delayMs = 10
      world.store.chargeFault = fault
      await world.time.advance(55)
      putBack(world, outcome, 10)
      expect(world.take(0).remaining).toBe(99)
      await world.time.advance(10)
      world.store.chargeFault = undefined
      await world.time.advance(30)
      expect(world.store.gives.length).toBe(gives)
      expect(world.count()).toMatchObject({ count: counted })
      if (fault !== 'ran') expect(world.take(0).remaining).toBe(99)
      await world.time.advance(150)
      expect(world.count()).toMatchObject({ count: counted })
      expect(world.take(0).remaining).toBe(100 - counted)
    },
  )

  test('a unit that is put back is first taken from unreported usage, and never twice', async () => {
    const world = start()
    world.learn()
    const outcome = world.take(10)
    await world.time.advance(100)
    world.take(4)
    putBack(world, outcome, 10)
    await world.time.advance(100)
    expect(world.store.gives.map(({ amount }) => amount)).toEqual([6])
    expect(world.count()).toMatchObject({ count: 5 })
  })

  test('a unit that is put back does not reach a counter that was reset since', async () => {
    const world = start()
    world.learn()
    const outcome = world.take(10)
    world.local.forget(takeOf(world.of).key)
    await world.fleet.shared.reset(takeOf(world.of).key)
    world.learn(1, 20)
    world.take(20)
    putBack(world, outcome, 10)
    expect(world.take(0).remaining).toBe(60)
    expect(world.store.gives).toEqual([])
  })

  test('units put back by a copy of an outcome are found by their key', () => {
    const world = start()
    world.learn()
    putBack(world, { ...world.take(10) }, 10)
    expect(world.take(0).remaining).toBe(99)
  })

  test('a refund by receipt goes to this node if it counts the units, else to the store', async () => {
    const { local, of, learn, take, time, store, count } = start()
    const { key, limit } = takeOf(of)
    expect(local.refund({ key, limit, amount: 3, at: START_US })).toBe(false)
    learn()
    take(10)
    expect(local.refund({ key, limit, amount: 3, at: START_US })).toBe(true)
    expect(take(0).remaining).toBe(92)
    await time.advance(100)
    expect(local.refund({ key, limit, amount: 2 })).toBe(true)
    await settled()
    expect(store.gives.map(({ amount }) => amount)).toEqual([2])
    expect(count()).toMatchObject({ count: 6 })
  })
})

describe('dropped counters', () => {
  test.each([
    [20, 200],
    [100, 200],
    [500, 1000],
  ])(
    'a counter that is merged every %d ms is dropped after %d ms without use',
    async (everyMs, idleMs) => {
      const world = start(window100, { everyMs })
      const { learn, take, time, stats, of } = world
      learn()
      take()
      await time.advance(idleMs / 2)
      take()
      await time.advance(idleMs - 1)
      expect(isKnown(world, of)).toBe(true)
      await time.advance(everyMs / 2 + 1)
      expect(isKnown(world, of)).toBe(false)
      expect(stats()).toMatchObject({ counters: 0, reported: 2 })
      expect(time.waiting).toBe(0)
    },
  )

  test('an idle counter is dropped at the next call too, even if its rounds are late', () => {
    const { local, of, learn, time } = start()
    learn()
    time.nowMs += 5000
    expect(local.take(takeOf(of))).toBeUndefined()
    expect(time.waiting).toBe(0)
  })

  test('a counter is not dropped while it has usage to report', async () => {
    const world = start()
    const { learn, take, time, store, of, count } = world
    learn()
    store.fault = 'not-run'
    take(5)
    await time.advance(5000)
    expect(isKnown(world, of)).toBe(true)
    store.fault = undefined
    await time.advance(200)
    expect(count()).toMatchObject({ count: 6 })
    expect(isKnown(world, of)).toBe(false)
  })

  test('a counter is dropped when it is reset, with its unreported and its running reports', async () => {
    const { local, of, learn, take, time, store, count, stats } = start()
    learn()
    take(10)
    store.delayMs = 10
    store.chargeFault = 'not-run'
    await time.advance(55)
    take(5)
    local.forget(takeOf(of).key)
    await time.advance(500)
    expect(local.take(takeOf(of))).toBeUndefined()
    expect(store.charges.length).toBe(1)
    expect(count()).toMatchObject({ count: 1 })
    expect(stats()).toMatchObject({ counters: 0, reported: 0, unreported: 0 })
    expect(time.waiting).toBe(0)
  })

  test('a dropped counter is not learned from a request sent before the reset', async () => {
    const { local, of, time, store } = start()
    const largeTake: PlannedTake = takeOf(of, 40)
    const answer = store.takeNow([[largeTake]], true)[0]?.[0]
    await time.advance(5)
    local.forget(largeTake.key)
    if (answer !== undefined) local.learn(largeTake, answer, 0)
    expect(local.take(largeTake)).toBeUndefined()
  })

  test('a counter is dropped when a call meets other limits, and reported under the old ones', async () => {
    const { local, of, learn, take, time, store, stats, count } = start()
    const other = compiled({ ...window100, window: '1h' })
    learn(1)
    learn(2)
    take(10, 1)
    take(7, 2)
    expect(local.isReady(takeOf(of))).toBe(true)
    expect(local.take(takeOf(other, 1, 1))).toBeUndefined()
    expect(local.isReady(takeOf(other, 1, 2))).toBe(false)
    await settled()
    expect(store.charges.map(({ amount, limit }) => [amount, limit])).toEqual([
      [10, of.limit],
      [7, of.limit],
    ])
    expect(count(1)).toMatchObject({ count: 11 })
    expect(stats()).toMatchObject({ counters: 0, reported: 17 })
    expect(time.waiting).toBe(0)
  })

  test('a counter is not dropped when its limit is compiled again', async () => {
    const { local, of, learn, take, store } = start()
    learn(1)
    take(10)
    expect(local.take(takeOf(compiled(window100)))).toMatchObject({ remaining: 88 })
    expect(local.take(takeOf(compiled({ ...window100, window: '1h' }), 1, 2))).toBeUndefined()
    expect(local.take(takeOf(of))).toMatchObject({ remaining: 87 })
    expect(store.charges).toEqual([])
  })

  test('a counter dropped for other limits does not retry a failed report', async () => {
    const { local, learn, take, time, store, stats } = start()
    learn()
    take(10)
    store.chargeFault = 'not-run'
    local.take(takeOf(compiled({ ...window100, window: '1h' })))
    await time.advance(1000)
    await settled()
    expect(store.charges.length).toBe(1)
    expect(stats()).toMatchObject({ unreported: 10 })
  })

  test('a counter dropped in the middle of a round is reported once', async () => {
    const { local, of, learn, take, time, store, count } = start()
    learn()
    const early = take(10)
    store.delayMs = 10
    await time.advance(55)
    const late = take(4)
    local.take(takeOf(compiled({ ...window100, window: '1h' })))
    local.putBack(takeOf(of, 10), early)
    local.putBack(takeOf(of, 4), late)
    await time.advance(100)
    expect(store.charges.map(({ amount }) => amount)).toEqual([10, 4])
    expect(count()).toMatchObject({ count: 1 })
  })
})

describe('close', () => {
  test('closing reports remaining usage once, after the running round', async () => {
    const { local, of, learn, take, time, store, count } = start()
    learn()
    take(10)
    store.delayMs = 10
    store.chargeFault = 'not-run'
    await time.advance(55)
    take(5)
    const closed = local.close()
    expect(local.take(takeOf(of))).toBeUndefined()
    await time.advance(8)
    store.chargeFault = undefined
    await time.advance(100)
    await closed
    expect(store.charges.map(({ amount }) => amount)).toEqual([10, 15])
    expect(count()).toMatchObject({ count: 16 })
    expect(time.waiting).toBe(0)
  })

  test('closing a node whose store is gone ends too', async () => {
    const { local, learn, take, store, stats, time } = start()
    learn()
    take(10)
    store.fault = 'lost'
    await local.close()
    await time.advance(5000)
    expect(store.charges.length).toBe(1)
    expect(stats()).toMatchObject({ unreported: 10, counters: 0 })
    learn(2)
    expect(time.waiting).toBe(0)
  })
})
