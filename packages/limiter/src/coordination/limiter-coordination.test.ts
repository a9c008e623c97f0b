/** Whole calls by leased, local and split rules. */
import { describe, expect, test } from 'vitest'
import { createLimiter, type Decision } from '../index.js'
import { call, perUser, user } from '../limiter.test-helper.js'
import type { ScriptedStore } from '../scripted-store.test-helper.js'
import { leased, nodeOf, window } from './node.test-helper.js'

describe('leased rules', () => {
  test('a leased rule first uses the store, then decides synchronously on this node', async () => {
    const node = await nodeOf(leased(1000))
    const sources = (await node.many(40)).map(({ source }) => source)
    expect(sources[0]).toBe('store')
    expect(sources.at(-1)).toBe('lease')
    const decision = node.limiter.decide(user('u1'))
    expect(decision).toMatchObject({ allowed: true, source: 'lease', rule: 'per-user', staleMs: 0 })
    expect(node.store.requests.length).toBeLessThan(15)
  })

  test('a leased rule admits its limit exactly, however the units were drawn', async () => {
    const node = await nodeOf(leased(100))
    const decisions = await node.many(150)
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(100)
    expect(decisions.slice(100).every(({ reason }) => reason === 'over')).toBe(true)
    expect(await node.used()).toBe(100)
  })

  test('a leased rule reports the age of its state', async () => {
    const node = await nodeOf(leased(1000))
    await node.many(40)
    await node.pass(30)
    expect(await node.check()).toMatchObject({ source: 'lease', staleMs: 30 })
    expect(await node.limiter.explain(user('u1'))).toMatchObject({ source: 'store' })
  })

  test('a leased rule returns unused units, so that the store counts what was admitted', async () => {
    const node = await nodeOf(leased(1000))
    await node.many(40)
    expect(await node.used()).toBeGreaterThan(40)
    await node.pass(2100)
    expect(await node.used()).toBe(40)
    const stats = node.limiter.stats?.coordination.get('per-user')
    expect(stats).toMatchObject({ held: 0, lost: 0 })
    expect(stats?.drawn).toBe((stats?.spent ?? 0) + (stats?.givenBack ?? 0))
  })

  test('a leased rule gives back its units when the limiter is closed', async () => {
    const node = await nodeOf(leased(1000))
    await node.many(40)
    const before = await node.used()
    const drawn = node.limiter.stats?.coordination.get('per-user')?.held ?? 0
    await node.limiter.close()
    expect(node.store.gives.map(({ amount }) => amount)).toEqual([drawn])
    expect(before - drawn).toBe(40)
  })

  test('a leased rule serves a caller with new limits by those, and returns the old lease when idle', async () => {
    const node = await nodeOf(leased(1000))
    await node.many(40)
    const caller = new Map([['user', 'u1']])
    const own = { caller, limits: [{ algorithm: 'fixed-window', max: 41, windowMs: 3_600_000 }] }
    node.limiter.changeOverrides([
      { rule: 'per-user', caller, override: { ...own, untilMs: undefined } as never },
    ])
    // What is held of the old limit counts as used until it is returned.
    expect((await node.check()).allowed).toBe(false)
    await node.pass(600)
    const allowed = (await node.many(10)).filter((decision) => decision.allowed)
    expect(allowed).toHaveLength(1)
    expect(await node.used()).toBe(41)
  })

  test('a leased rule whose store does not answer spends its lease, then answers by its posture', async () => {
    const node = await nodeOf(leased(1000, { posture: 'closed' }))
    await node.many(40)
    node.store.all('not-run')
    const decisions = await node.many(60)
    const held = decisions.filter(({ allowed }) => allowed)
    expect(held.length).toBeGreaterThan(0)
    expect(held.every(({ source }) => source === 'lease')).toBe(true)
    expect(decisions.at(-1)).toMatchObject({ allowed: false, source: 'posture' })
  })

  test('a leased rule is reset and refunded as any other', async () => {
    const node = await nodeOf(leased(100))
    await node.many(40)
    const { receipt = '', source } = await node.limiter.check(user('u1'), { receipt: true })
    expect(source).toBe('lease')
    await node.limiter.refund(receipt)
    await node.pass(2100)
    expect(await node.used()).toBe(40)
    await node.many(20)
    await node.limiter.reset(user('u1'))
    await node.many(10)
    await node.pass(2100)
    expect(await node.used()).toBe(10)
  })

  test('a leased rule counts a limit that charges refusals in the store alone', async () => {
    const node = await nodeOf(
      perUser([window(1000, { onRefusal: 'charge' })], { coordination: 'leased' }),
    )
    const sources = (await node.many(40)).map(({ source }) => source)
    expect(new Set(sources)).toEqual(new Set(['store']))
  })
})

describe('calls with a limit that this node counts and one that charges refusals', () => {
  test.each([
    ['local', 'charge', 10],
    ['local', 'overdraw', 12],
    ['split', 'charge', 10],
  ])(
    'a %s limit refuses for itself, and onRefusal: %s is charged',
    async (coordination, onRefusal, charged) => {
      const own = { id: 'own', by: ['user'], limits: [window(5)], coordination }
      const limits = [window(10, { onRefusal, name: 'charging' })]
      const node = await nodeOf([own, { id: 'all', by: ['user'], limits }])
      await node.many(1)
      await node.pass(600)
      const decisions = await node.many(11)
      expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(4)
      await node.pass(600)
      const [[counter] = []] = node.store.inner.sync.peek([[takeOf(node.store, 10)]])
      expect(counter?.state).toMatchObject({ count: charged })
      expect(node.limiter.stats?.reportsWaiting).toBe(0)
    },
  )
})

describe('calls with a leased and an exact rule', () => {
  const rules = [
    { id: 'a', by: ['user'], limits: [window(1000)], coordination: 'leased' },
    { id: 'b', by: ['ip'], limits: [window(30)] },
  ]
  const both = call({ user: 'u1', ip: '192.0.2.1' })

  test('a call with a leased and an exact rule that the exact one refuses takes nothing of the lease', async () => {
    const { limiter, store } = await nodeOf(rules)
    for (let i = 0; i < 60; i++) await limiter.check(both)
    const other = call({ user: 'u1', ip: '192.0.2.2' })
    for (let i = 0; i < 10; i++) expect((await limiter.check(other)).allowed).toBe(true)
    expect(limiter.stats?.coordination.get('a')?.spent).toBeLessThanOrEqual(40)
    await limiter.close()
    const [[counter] = []] = store.inner.sync.peek([[takeOf(store, 1000)]])
    expect(counter?.state).toMatchObject({ count: 40 })
  })

  test('a call with a leased and an exact rule lists both limits in their order', async () => {
    const { limiter } = await nodeOf(rules)
    let decision: Decision | undefined
    for (let i = 0; i < 20; i++) decision = await limiter.check(both)
    expect(decision?.source).toBe('store')
    expect(decision?.policies().map(({ rule }) => rule)).toEqual(['a', 'b'])
  })
})

/** The last take of the limit with that max that the store received. */
function takeOf(store: ScriptedStore, max: number) {
  const takes = store.requests.flatMap(({ groups }) => groups.flat())
  const found = takes.findLast(({ limit }) => limit.max === max)
  if (found === undefined) throw new Error('never asked for')
  return { ...found, amount: 0 }
}

describe('leased shadow rules', () => {
  test('a leased rule in shadow refuses nothing, and reports what it would have refused', async () => {
    const node = await nodeOf(leased(50, { mode: 'shadow' }))
    const decisions = await node.many(80)
    expect(decisions.every(({ allowed }) => allowed)).toBe(true)
    expect(decisions.filter(({ shadow }) => shadow.includes('per-user'))).toHaveLength(30)
  })
})

describe('local rules', () => {
  const local = (max: number, more: object = {}) =>
    perUser([window(max)], { coordination: 'local', ...more })

  test('a local rule uses the store once for a caller, then counts on this node and reports', async () => {
    const node = await nodeOf(local(100))
    const decisions = await node.many(20)
    expect(decisions.map(({ source }) => source)).toEqual([
      'store',
      ...Array.from({ length: 19 }, () => 'local'),
    ])
    expect(node.store.requests).toHaveLength(1)
    expect(await node.used()).toBe(1)
    await node.pass(100)
    expect(await node.used()).toBe(20)
  })

  test('a local rule of one node admits its limit, however many first calls come at once', async () => {
    const node = await nodeOf(local(100))
    const first = await Promise.all(Array.from({ length: 80 }, () => node.check()))
    const decisions = [...first, ...(await node.many(80))]
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(100)
  })

  test('a local rule adds what others counted, and measures what was too much', async () => {
    const node = await nodeOf(local(100))
    await node.many(60)
    const taken = takeOf(node.store, 100)
    await node.store.inner.charge({ ...taken, amount: 60, at: node.store.clock.now(), debt: 100 })
    await node.pass(100)
    expect(await node.check()).toMatchObject({ allowed: false, source: 'local', reason: 'over' })
    expect(node.limiter.stats?.coordination.get('per-user')?.overAdmitted).toBe(20)
  })

  test('a local rule is peeked at on this node, with the age of its state', async () => {
    const node = await nodeOf(local(100))
    await node.many(20)
    await node.pass(40)
    expect(await node.limiter.peek(user('u1'))).toMatchObject({ remaining: 80, source: 'local' })
    const { explain = [] } = await node.limiter.explain(user('u1'))
    expect(explain[0]?.limits[0]).toMatchObject({ remaining: 80, staleMs: 40 })
    // After a round, from the state that it read.
    await node.pass(20)
    const later = await node.limiter.explain(user('u1'))
    expect(later.explain?.[0]?.limits[0]).toMatchObject({ remaining: 80, staleMs: 10 })
  })

  test('a local rule calls the store once for a caller that comes once', async () => {
    const node = await nodeOf(local(100))
    await node.check('u1')
    await node.pass(20)
    await node.check('u2')
    await node.pass(1000)
    expect(node.store.requests).toHaveLength(2)
    expect(node.limiter.stats?.coordination.get('per-user')?.counters).toBe(0)
  })

  test('a local rule calls the store twice for a caller that calls every 60 ms, however long it does', async () => {
    const node = await nodeOf(local(100))
    const sources: string[] = []
    for (let i = 0; i < 30; i++) {
      sources.push((await node.check()).source)
      await node.pass(60)
    }
    expect(sources).toEqual(['store', 'store', ...Array.from({ length: 28 }, () => 'local')])
    await node.pass(100)
    expect(await node.used()).toBe(30)
  })

  test('a refund of a local rule goes to the counter on this node', async () => {
    const node = await nodeOf(local(100))
    await node.many(20)
    const { receipt = '' } = await node.limiter.check(user('u1'), { receipt: true })
    await node.limiter.refund(receipt)
    expect((await node.limiter.peek(user('u1'))).remaining).toBe(80)
    await node.pass(200)
    expect(await node.used()).toBe(20)
  })

  test('a local rule reports what passed by posture once its rounds are answered again', async () => {
    const node = await nodeOf(local(100))
    await node.many(20)
    node.store.all('not-run')
    expect(await node.check('u2')).toMatchObject({ allowed: true, source: 'posture' })
    node.store.all('answer')
    for (let i = 0; i < 10; i++) {
      expect((await node.check()).source).toBe('local')
      await node.pass(50)
    }
    expect(node.limiter.stats?.reportsWaiting).toBe(0)
    expect(await node.used('u2')).toBe(1)
  })

  test('a local rule keeps counting during an outage, and decides unknown callers by posture', async () => {
    const node = await nodeOf(local(100, { posture: 'closed' }))
    await node.many(20)
    node.store.all('not-run')
    expect(await node.check()).toMatchObject({ allowed: true, source: 'local' })
    expect(await node.check('u2')).toMatchObject({ allowed: false, source: 'posture' })
  })
})

describe('split rules', () => {
  test('a split rule never uses the store, and grants the part of its node', async () => {
    const node = await nodeOf(perUser([window(10)], { coordination: 'split' }))
    node.store.nodes = 3
    const decisions = await node.many(6)
    expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true, true, false, false, false])
    expect(decisions[0]).toMatchObject({ source: 'local', limit: 10, remaining: 2 })
    expect(node.store.requests).toHaveLength(0)
    expect((await node.limiter.peek(user('u1'))).allowed).toBe(false)
  })

  test('a split rule is refunded and reset on this node', async () => {
    const node = await nodeOf(perUser([window(2)], { coordination: 'split' }))
    const { receipt = '' } = await node.limiter.check(user('u1'), { receipt: true })
    await node.check()
    expect((await node.check()).allowed).toBe(false)
    await node.limiter.refund(receipt)
    expect((await node.check()).allowed).toBe(true)
    await node.limiter.reset(user('u1'))
    expect((await node.check()).allowed).toBe(true)
  })
})

test('counters in this process are exact, whatever a rule says', () => {
  for (const coordination of ['leased', 'local', 'split']) {
    const limiter = createLimiter({ rules: perUser([window(2)], { coordination }) })
    const decisions = [1, 2, 3].map(() => limiter.checkSync(user('u1')))
    expect(decisions.map(({ allowed, source }) => [allowed, source])).toEqual([
      [true, 'store'],
      [true, 'store'],
      [false, 'store'],
    ])
  }
})
