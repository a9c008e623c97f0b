/** Calls that only pass through gates: check before, charge after. */
import { describe, expect, test, vi } from 'vitest'
import { leased, nodeOf, window } from './coordination/node.test-helper.js'
import type { Decision } from './index.js'
import { call, limiterOf, perUser, user } from './limiter.test-helper.js'
import { scripted } from './scripted-store.test-helper.js'

const GATE = { gate: true } as const
const CACHED = { denyCacheMs: 1000 }

describe('a gate', () => {
  test('charges nothing and passes while anything is left, whatever the call costs', () => {
    const { limiter } = limiterOf(perUser([window(10)]))
    limiter.checkSync(user('u1', 9))
    for (let i = 0; i < 5; i++) {
      const decision = limiter.checkSync(user('u1', 500), GATE)
      expect(decision).toMatchObject({ allowed: true, reason: 'within', remaining: 1 })
    }
  })

  test('is refused as over once nothing is left, until one unit is there', () => {
    const { limiter, clock } = limiterOf(perUser(['60/minute']))
    limiter.checkSync(user('u1', 60))
    expect(limiter.checkSync(user('u1'), GATE)).toMatchObject({
      allowed: false,
      reason: 'over',
      rule: 'per-user',
      retryAfterMs: 1000,
    })
    expect(limiter.checkSync(user('u1', 0)).allowed).toBe(true)
    clock.advance(1000)
    expect(limiter.checkSync(user('u1'), GATE).allowed).toBe(true)
  })

  test('reads no cost: an attribute that is no cost refuses no gate', () => {
    const { limiter } = limiterOf(perUser([window(10)], { cost: { attribute: 'tokens' } }))
    const unknown = call({ user: 'u1', tokens: 'not known yet' })
    expect(() => limiter.checkSync(unknown)).toThrow('tokens')
    expect(limiter.checkSync(unknown, GATE).allowed).toBe(true)
    expect(limiter.checkSync({ attributes: {}, cost: -1 }, GATE).reason).toBe('unmatched')
  })

  test('needs room in every limit of every enforced rule, and has no receipt', () => {
    const { limiter } = limiterOf([
      ...perUser([window(10), window(2, { name: 'two' })]),
      { id: 'per-ip', by: ['ip'], limits: [window(3)] },
    ])
    const both = call({ user: 'u1', ip: '192.0.2.1' })
    limiter.checkSync(both)
    limiter.checkSync(both)
    const refused = limiter.checkSync(both, { ...GATE, receipt: true })
    expect(refused).toMatchObject({ allowed: false, limitName: 'two' })
    const other = call({ user: 'u2', ip: '192.0.2.1' })
    const passed = limiter.checkSync(other, { ...GATE, receipt: true })
    expect(passed).toMatchObject({ allowed: true, remaining: 1 })
    expect(passed.receipt).toBeUndefined()
  })

  test('asks shadow rules and candidates too, and charges none of them', () => {
    const { limiter } = limiterOf([
      ...perUser([window(10)], { candidate: { limits: [window(1)] } }),
      { id: 'trial', by: ['user'], limits: [window(1)], mode: 'shadow' },
    ])
    limiter.checkSync(user('u1'))
    const decision = limiter.checkSync(user('u1'), GATE)
    expect(decision.shadow).toEqual(['per-user:candidate', 'trial'])
    expect(decision.allowed).toBe(true)
  })

  test('costs its callers nothing in statistics, not even in rules in shadow', () => {
    const { limiter } = limiterOf([
      ...perUser([window(10)], { cost: 3 }),
      { id: 'trial', by: ['user'], limits: [window(1)], mode: 'shadow', cost: { attribute: 'n' } },
    ])
    const costs: unknown[] = []
    const record = (decision: Decision) =>
      decision.eachCaller((rule, _by, _caller, _outcome, _left, cost) => costs.push([rule, cost]))
    record(limiter.checkSync(user('u1')))
    record(limiter.checkSync(user('u1'), GATE))
    expect(costs).toEqual([
      ['per-user', 3],
      ['trial', { attribute: 'n' }],
      ['per-user', 0],
      ['trial', 0],
    ])
  })

  test('is refused by a block, and begins one when it is refused', () => {
    const { limiter, clock } = limiterOf(perUser(['1/second'].map(blocking)))
    expect(limiter.checkSync(user('u1'), GATE).allowed).toBe(true)
    limiter.checkSync(user('u1'))
    expect(limiter.checkSync(user('u1'), GATE)).toMatchObject({
      reason: 'blocked',
      retryAfterMs: 60_000,
    })
    clock.advance(59_000)
    expect(limiter.checkSync(user('u1'), GATE)).toMatchObject({ reason: 'blocked' })
    clock.advance(1000)
    expect(limiter.checkSync(user('u1'), GATE).allowed).toBe(true)
  })

  test('of a limit that refuses every call is refused as over, and no wait helps', () => {
    const { limiter } = limiterOf(perUser(['0/hour']))
    expect(limiter.checkSync(user('u1'), GATE)).toMatchObject({
      reason: 'over',
      retryAfterMs: null,
    })
  })

  test('of a leaky bucket is refused where the entry point cannot wait, unless it is idle', () => {
    const { limiter } = limiterOf(perUser([{ algorithm: 'leaky-bucket', max: 1, window: '1s' }]))
    const noWait = { ...GATE, canWait: false }
    expect(limiter.checkSync(user('u1'), noWait).allowed).toBe(true)
    limiter.checkSync(user('u1'))
    expect(limiter.checkSync(user('u1'), GATE)).toMatchObject({ allowed: true, delayMs: 0 })
    expect(limiter.checkSync(user('u1'), noWait)).toMatchObject({ allowed: false })
  })
})

const blocking = (limit: string) => {
  const [max, per] = limit.split('/')
  return { max: Number(max), window: per === 'second' ? '1s' : '1m', block: '1m' }
}

describe('a gate while the store does not answer', () => {
  const silent = async (more: object) => {
    const made = await scripted(perUser([window(4)], more))
    await made.limiter.check(user('u1', 3))
    made.store.all('not-run')
    return made
  }

  test('is refused by posture closed, and passes by posture open', async () => {
    const closed = await silent({ posture: 'closed' })
    expect(await closed.limiter.check(user('u1'), GATE)).toMatchObject({
      allowed: false,
      reason: 'posture',
    })
    expect((await closed.limiter.check(user('u1', 0))).allowed).toBe(true)
    const open = await silent({ posture: 'open' })
    expect((await open.limiter.check(user('u1'), GATE)).allowed).toBe(true)
  })

  test('passes by posture local while the local share has anything left', async () => {
    const { limiter, store } = await silent({ posture: 'local' })
    store.nodes = 2
    expect((await limiter.check(user('u1'), GATE)).allowed).toBe(true)
    await limiter.check(user('u1', 2))
    expect(await limiter.check(user('u1'), GATE)).toMatchObject({
      allowed: false,
      reason: 'posture',
    })
    store.recover()
    expect(store.charges.map(({ amount }) => amount)).toEqual([2])
  })
})

describe('a gate and remembered refusals', () => {
  test.each([
    ['fixed-window', {}],
    ['sliding-window-log', { algorithm: 'sliding-window-log' }],
  ])('is refused from a remembered %s, as a call of one unit is', async (_, more) => {
    const { limiter, store } = await scripted(perUser([window(3, more)]), CACHED)
    await limiter.check(user('u1', 3))
    expect((await limiter.check(user('u1'))).source).toBe('store')
    expect(await limiter.check(user('u1'), GATE)).toMatchObject({
      allowed: false,
      source: 'deny-cache',
      reason: 'over',
    })
    await limiter.check(user('u2', 3))
    expect((await limiter.check(user('u2'), GATE)).source).toBe('store')
    const before = store.requests.length
    expect((await limiter.check(user('u2'))).source).toBe('deny-cache')
    expect((await limiter.check(user('u2'), GATE)).source).toBe('deny-cache')
    expect(store.requests).toHaveLength(before)
  })

  test('passes where only a larger call was refused', async () => {
    const { limiter } = await scripted(perUser([window(3)]), CACHED)
    await limiter.check(user('u1', 2))
    expect((await limiter.check(user('u1', 2))).allowed).toBe(false)
    expect(await limiter.check(user('u1'), GATE)).toMatchObject({ allowed: true, source: 'store' })
  })
})

describe('a gate of a rule that this node decides', () => {
  test('passes by a lease, and else by the store, which has the last word', async () => {
    const node = await nodeOf(leased(100))
    await node.many(40)
    const before = node.store.requests.length
    const { spent, held } = node.stats()
    expect(node.limiter.decide(user('u1'), GATE)).toMatchObject({ allowed: true, source: 'lease' })
    expect(node.store.requests).toHaveLength(before)
    expect(node.stats()).toMatchObject({ spent, held })
    const fresh = await node.limiter.check(user('u2'), GATE)
    expect(fresh).toMatchObject({ allowed: true, source: 'store' })
    await node.many(100)
    expect(await node.limiter.check(user('u1'), GATE)).toMatchObject({
      allowed: false,
      source: 'store',
    })
  })

  test('is decided by the counts of this node if its rule is local', async () => {
    const node = await nodeOf(perUser([window(5)], { coordination: 'local' }))
    await node.many(4)
    expect(await node.limiter.check(user('u1'), GATE)).toMatchObject({
      allowed: true,
      source: 'local',
      remaining: 1,
    })
    await node.many(1)
    expect(await node.limiter.check(user('u1'), GATE)).toMatchObject({
      allowed: false,
      source: 'local',
    })
  })

  test('is decided by the part of this node if its rule is split', async () => {
    const node = await nodeOf(perUser([window(5)], { coordination: 'split' }))
    node.store.nodes = 2
    const passes = async () => (await node.limiter.check(user('u1'), GATE)).allowed
    expect(await passes()).toBe(true)
    await node.many(2)
    expect(await passes()).toBe(false)
    node.store.nodes = 10
    expect(await passes()).toBe(false)
  })
})

test('a gate of a hedged rule passes by the last known state', async () => {
  vi.useFakeTimers()
  try {
    const { limiter, store } = await scripted(perUser([window(3)], { hedge: true }))
    await limiter.check(user('u1'))
    store.isHeld = true
    let decided: Decision | undefined
    void limiter.check(user('u1'), GATE).then((decision) => {
      decided = decision
    })
    await vi.advanceTimersByTimeAsync(5)
    expect(decided).toMatchObject({ allowed: true, source: 'local', remaining: 2 })
    store.release()
  } finally {
    vi.useRealTimers()
  }
})
