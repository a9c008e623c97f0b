import type { PlannedTake } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { call, perUser, user } from '../limiter.test-helper.js'
import { createLimiter } from '../index.js'
import { compiled, Fleet, takeOf } from './fleet.test-helper.js'
import { NodeCounts } from './node-counts.js'
import { nodeOf, window } from './node.test-helper.js'
import { SplitLimits } from './split/split-limits.js'

const PLACES = { algorithm: 'concurrency', max: 4 }

const placesTake = (amount = 1, limit: object = PLACES): PlannedTake => ({
  ...takeOf(compiled(limit), amount),
  holder: 7,
})

describe('coordination: node', () => {
  test.each([
    ['100/second'],
    [{ algorithm: 'gcra', max: 100, window: '1m', burst: 100 }],
    [{ algorithm: 'leaky-bucket', max: 100, window: '1m', queue: 99 }],
    [{ algorithm: 'fixed-window', max: 100, window: '1m' }],
    [{ algorithm: 'fixed-window', max: 100, window: '1m', start: 'call' }],
    [{ algorithm: 'sliding-window-counter', max: 100, window: '1m' }],
    [{ algorithm: 'sliding-window-log', max: 100, window: '1m' }],
    [{ algorithm: 'concurrency', max: 100 }],
  ])('each node grants the whole of %j, without the store', (limit) => {
    const fleet = new Fleet(3)
    const of = compiled(limit)
    for (const { deps } of fleet.nodes) {
      const node = new NodeCounts(deps)
      let granted = 0
      while (node.take(takeOf(of))?.granted === 1) granted += 1
      expect(granted).toBe(100)
    }
    expect(fleet.nodes.every(({ store }) => store.reads.length === 0)).toBe(true)
    expect(fleet.shared.stats().counters).toBe(0)
  })

  test('a call is decided at once, with the whole limit of this node, and no request is sent', async () => {
    const node = await nodeOf(perUser([window(3)], { coordination: 'node' }))
    const decisions = Array.from({ length: 4 }, () => node.limiter.decide(user('u1')))
    expect(decisions).toMatchObject([
      { allowed: true, remaining: 2, source: 'local' },
      { allowed: true, remaining: 1 },
      { allowed: true, remaining: 0 },
      { allowed: false, reason: 'over', source: 'local' },
    ])
    expect(node.store.requests).toEqual([])
  })

  test('a call that an exact rule refuses takes nothing from the limit of this node', async () => {
    const node = await nodeOf([
      { id: 'own', by: ['user'], limits: [window(3)], coordination: 'node' },
      { id: 'shared', by: ['user'], limits: [window(1)] },
    ])
    await node.check()
    expect((await node.check()).rule).toBe('shared')
    const { explain = [] } = await node.limiter.explain(user('u1'))
    expect(explain.map(({ limits }) => limits[0]?.remaining)).toEqual([2, 0])
  })

  test('a silent store changes nothing', async () => {
    const node = await nodeOf(perUser([window(3)], { coordination: 'node', posture: 'closed' }))
    node.store.all('lost')
    expect(await node.check()).toMatchObject({ allowed: true, remaining: 2, source: 'local' })
  })

  test('a refund goes to the counter of this node, and a reset forgets it', async () => {
    const node = await nodeOf(perUser([window(3)], { coordination: 'node' }))
    const { receipt = '' } = await node.limiter.check(user('u1', 2), { receipt: true })
    await node.limiter.refund(receipt)
    expect(await node.limiter.peek(user('u1'))).toMatchObject({ remaining: 3 })
    await node.many(3)
    await node.limiter.reset(user('u1'))
    expect(await node.check()).toMatchObject({ allowed: true, remaining: 2 })
  })

  test('with a store in this process it decides as exact does', () => {
    const limiter = createLimiter({ rules: perUser([window(1)], { coordination: 'node' }) })
    expect(limiter.checkSync(call({ user: 'u1' }))).toMatchObject({ allowed: true, remaining: 0 })
    expect(limiter.checkSync(call({ user: 'u1' }))).toMatchObject({ allowed: false })
  })
})

describe('places that a node counts itself', () => {
  test('they are held without a lease, however long a call takes', async () => {
    const fleet = new Fleet(1)
    const node = new NodeCounts(fleet.at(0).deps)
    expect(node.take(placesTake(4))).toMatchObject({ granted: 4, resetAfterMs: 10_000, at: 7 })
    await fleet.time.advance(3_600_000)
    expect(node.take(placesTake())).toMatchObject({ granted: 0, retryAfterMs: 1000 })
    expect(node.take(placesTake(5))).toMatchObject({ granted: 0, retryAfterMs: null })
    const { key, limit } = placesTake()
    expect(node.refund({ key, limit, amount: 3, at: 7 })).toBe(true)
    expect(node.peek(placesTake())).toMatchObject({ remaining: 3, resetAfterMs: 10_000 })
  })

  test.each(['node', 'split'])(
    'a shadow rule gives its %s places back where it took them, also beside a limit of the store',
    async (coordination) => {
      const limits = [PLACES, window(100, { onRefusal: 'charge' })]
      const node = await nodeOf(perUser(limits, { coordination, mode: 'shadow' }))
      for (let n = 0; n < 9; n++) {
        const decision = await node.limiter.check(user('u1'), { inFlight: true })
        expect(decision.shadow, `call ${n}`).toEqual([])
        decision.release?.()
      }
      const { explain = [] } = await node.limiter.explain(user('u1'))
      expect(explain[0]?.limits.map(({ remaining }) => remaining)).toEqual([4, 91])
    },
  )

  test('a shadow rule that the store refuses holds no place on this node', async () => {
    const limits = [PLACES, window(2, { onRefusal: 'charge' })]
    const node = await nodeOf(perUser(limits, { coordination: 'node', mode: 'shadow' }))
    const check = () => node.limiter.check(user('u1'), { inFlight: true })
    const held = [await check(), await check()]
    expect((await check()).shadow).toEqual(['per-user'])
    const places = async () => {
      const { explain = [] } = await node.limiter.explain(user('u1'))
      return explain[0]?.limits[0]?.remaining
    }
    expect(await places()).toBe(2)
    for (const decision of held) decision.release?.()
    expect(await places()).toBe(4)
  })

  test('a split limit of fewer places than nodes refuses on those without a place', () => {
    const fleet = new Fleet(3)
    const limit = { algorithm: 'concurrency', max: 2 }
    const granted = fleet.nodes.map(({ deps }, place) => {
      const node = new SplitLimits({ ...deps, fleetPlace: () => place })
      return node.take(placesTake(1, limit))
    })
    expect(granted.map((outcome) => outcome?.granted)).toEqual([0, 1, 1])
    expect(granted[0]?.retryAfterMs).toBe(1000)
    const node = new SplitLimits({ ...fleet.at(0).deps, fleetPlace: () => 1 })
    expect(node.take(placesTake(2, limit))).toMatchObject({ granted: 0, retryAfterMs: 1000 })
  })
})
