/** Rules with `onRefusal: overdraw`: calls are counted first and compared then. */
import { describe, expect, test } from 'vitest'
import { leased, nodeOf, window } from './coordination/node.test-helper.js'
import type { Decision } from './index.js'
import { call, limiterOf, perUser, user } from './limiter.test-helper.js'
import { scripted, settled } from './scripted-store.test-helper.js'

const owing = (max: number, more: object = {}) => window(max, { onRefusal: 'overdraw', ...more })

function droppedBy(decision: Decision): readonly (readonly [string, number])[] {
  const found: [string, number][] = []
  decision.dropped((rule, units) => found.push([rule, units]))
  return found
}

describe('a limit with onRefusal: overdraw', () => {
  test('owes what exceeds it, and a refusal says when that is paid', () => {
    const bucket = { max: 60, window: '1m', onRefusal: 'overdraw' }
    const { limiter, clock } = limiterOf(perUser([bucket]))
    expect(limiter.checkSync(user('u1', 50)).allowed).toBe(true)
    const over = limiter.checkSync(user('u1', 50))
    expect(over).toMatchObject({
      allowed: false,
      reason: 'over',
      remaining: 0,
      retryAfterMs: 90_000,
      resetAfterMs: 100_000,
    })
    clock.advance(40_000)
    expect(limiter.checkSync(user('u1'), { gate: true })).toMatchObject({
      allowed: false,
      retryAfterMs: 1000,
    })
    clock.advance(50_000)
    expect(limiter.checkSync(user('u1', 50)).allowed).toBe(true)
  })

  test('owes at most one max by default, or its debt, and counts what it dropped', () => {
    const { limiter } = limiterOf([
      { id: 'one-max', by: ['user'], limits: [owing(10)] },
      { id: 'little', by: ['user'], limits: [owing(10, { debt: 2 })] },
    ])
    const first = limiter.checkSync(user('u1', 15))
    expect(first).toMatchObject({ allowed: false, reason: 'over', retryAfterMs: 3_600_000 })
    expect(droppedBy(first)).toEqual([['little', 3]])
    expect(droppedBy(limiter.checkSync(user('u1', 7)))).toEqual([
      ['one-max', 2],
      ['little', 7],
    ])
    expect(droppedBy(limiter.checkSync(user('u1', 0)))).toEqual([])
  })

  test('is charged when another limit refuses the call, and has no receipt then', () => {
    const { limiter } = limiterOf([
      { id: 'calls', by: ['user'], limits: [window(1)] },
      { id: 'tokens', by: ['user'], limits: [owing(10)] },
    ])
    limiter.checkSync(user('u1'))
    const refused = limiter.checkSync(user('u1'), { receipt: true })
    expect(refused).toMatchObject({ allowed: false, rule: 'calls' })
    expect(refused.receipt).toBeUndefined()
    expect(refused.policies().map(({ remaining }) => remaining)).toEqual([0, 8])
  })

  test('is charged although a block refuses, and drops nothing of it', () => {
    const { limiter } = limiterOf(perUser([owing(10, { block: '1m' })]))
    const over = limiter.checkSync(user('u1', 15))
    expect(over).toMatchObject({ allowed: false })
    expect(droppedBy(over)).toEqual([])
    const blocked = limiter.checkSync(user('u1', 6))
    expect(droppedBy(blocked)).toEqual([['per-user', 1]])
  })

  test('of a shadow rule reports its refusal and refuses nothing', () => {
    const { limiter } = limiterOf([
      { id: 'trial', by: ['user'], limits: [owing(10)], mode: 'shadow' },
    ])
    expect(limiter.checkSync(user('u1', 15))).toMatchObject({ allowed: true, shadow: ['trial'] })
    expect(limiter.checkSync(user('u1', 1))).toMatchObject({ allowed: true, shadow: ['trial'] })
  })

  test('stays exact whatever the coordination of its rule', async () => {
    const node = await nodeOf(leased(1000, { limits: [owing(1000)] }))
    const sources = (await node.many(40)).map(({ source }) => source)
    expect(new Set(sources)).toEqual(new Set(['store']))
  })

  test('always goes to the store, which charges its refusals', async () => {
    const { limiter, store } = await scripted(perUser([owing(3)]), { denyCacheMs: 1000 })
    for (let i = 0; i < 5; i++) await limiter.check(user('u1'))
    expect(store.requests).toHaveLength(5)
    const refused = await limiter.check(user('u1'), { gate: true })
    expect(refused).toMatchObject({ allowed: false, source: 'deny-cache' })
  })
})

describe('an overdraw while the store does not answer', () => {
  test('is decided like any call, and drops nothing', async () => {
    const { limiter, store } = await scripted(perUser([owing(4)], { posture: 'local' }))
    store.all('not-run')
    expect((await limiter.check(user('u1', 4))).allowed).toBe(true)
    const refused = await limiter.check(user('u1', 9))
    expect(refused).toMatchObject({ allowed: false, reason: 'posture' })
    expect(droppedBy(refused)).toEqual([])
  })

  test('that was admitted is charged later, into debt where others used the limit meanwhile', async () => {
    const { limiter, store } = await scripted(perUser([owing(4)], { posture: 'local' }))
    store.all('not-run')
    expect((await limiter.check(user('u1', 4))).allowed).toBe(true)
    store.recover()
    await settled()
    expect(store.charges).toMatchObject([{ amount: 4, debt: 4 }])
  })

  test('that was refused keeps what a late answer charged', async () => {
    const rules = [
      { id: 'a', by: ['user'], limits: [owing(10)] },
      { id: 'b', by: ['ip'], limits: [window(10)], posture: 'closed' },
    ]
    const { limiter, store } = await scripted(rules)
    store.all('ran')
    await limiter.check(call({ user: 'u1', ip: '192.0.2.1' }))
    store.comeLate()
    expect(store.gives).toHaveLength(1)
  })
})

describe('the debt of limits whose cost is an attribute', () => {
  const limitOf = async (limits: unknown[], cost: unknown = { attribute: 'tokens' }) => {
    const { limiter, store } = await scripted(perUser(limits, { cost }))
    await limiter.check(user('u1'))
    return store.requests[0]?.groups[0]?.[0]?.limit
  }

  test('is one max unless the limit says otherwise, because a cost may turn out larger', async () => {
    expect(await limitOf([window(10)])).toMatchObject({ debt: 10, onRefusal: 'none' })
    expect(await limitOf([window(10, { debt: 3 })])).toMatchObject({ debt: 3 })
    expect(await limitOf([window(10)], 2)).toMatchObject({ debt: 0 })
  })

  test('is 0 where the limit cannot owe, or would be counted less exactly', async () => {
    expect(await limitOf([{ algorithm: 'leaky-bucket', max: 10, window: '1s' }])).toMatchObject({
      debt: 0,
    })
    const log = { algorithm: 'sliding-window-log', max: 6000, window: '1h' }
    expect(await limitOf([log])).toMatchObject({ debt: 0 })
    expect(await limitOf([{ max: 7, window: '366d', burst: 400 }])).toMatchObject({ debt: 7 })
    expect(await limitOf([{ max: 7, window: '366d', burst: 495 }])).toMatchObject({ debt: 0 })
    // A bucket of this size with debt would be counted in milliseconds.
    expect(await limitOf([{ max: 601, window: '30d' }])).toMatchObject({ debt: 0, tickUs: 1 })
  })

  test('lets an ordinary call take no more than the limit', async () => {
    const { limiter } = await scripted(perUser([window(10)], { cost: { attribute: 'tokens' } }))
    const of = (tokens: string) => limiter.check(call({ user: 'u1', tokens }))
    expect((await of('10')).allowed).toBe(true)
    expect(await of('1')).toMatchObject({ allowed: false, remaining: 0 })
    expect(await of('11')).toMatchObject({ allowed: false, reason: 'cost_exceeds_limit' })
  })
})
