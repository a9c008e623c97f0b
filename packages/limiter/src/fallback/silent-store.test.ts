import { SluiceError } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { createLimiter, type Decision, memoryStore, type Store } from '../index.js'
import { call, perUser, user } from '../limiter.test-helper.js'
import { limiterOver, ScriptedStore, scripted } from '../scripted-store.test-helper.js'

const window = (max: number, more: object = {}) => ({
  algorithm: 'fixed-window',
  max,
  window: '1h',
  ...more,
})

function degraded(decision: Decision): readonly string[] {
  const found: string[] = []
  decision.degraded((rule) => found.push(rule))
  return found
}

async function silent(rules: object[] | string) {
  const made = await scripted(rules)
  made.store.all('not-run')
  return made
}

describe('shadow rules during an outage', () => {
  const rules = [
    { id: 'real', by: ['user'], limits: [window(100)] },
    { id: 'trial', by: ['user'], limits: [window(0)], mode: 'shadow', posture: 'closed' },
    { id: 'other', by: ['ip'], limits: [window(1)], mode: 'shadow' },
  ]
  const both = call({ user: 'u1', ip: '192.0.2.1' })

  test.each(['not-run', 'ran', 'lost'] as const)(
    'a shadow rule whose store does not answer refuses nothing (%s)',
    async (fate) => {
      const { limiter, store } = await scripted(rules)
      store.all(fate)
      for (let i = 0; i < 5; i++) {
        const { allowed, shadow, delayMs } = await limiter.check(both)
        expect([allowed, shadow, delayMs]).toEqual([true, [], 0])
      }
    },
  )

  test('a shadow rule alone leaves the decision to the store', async () => {
    const { limiter, store } = await scripted(rules)
    store.script.fate = (g) => (g === 1 ? 'lost' : 'answer')
    await limiter.check(both)
    const decision = await limiter.check(both)
    expect(decision).toMatchObject({ allowed: true, source: 'store', reason: 'within' })
    expect(decision.shadow).toEqual(['other'])
    expect(degraded(decision)).toEqual([])
  })

  test('a shadow rule gets back what a refused call took', async () => {
    const closed = [{ ...rules[0], posture: 'closed' }, ...rules.slice(1)]
    const { limiter, store } = await scripted(closed)
    store.script.fate = (g) => (g === 0 ? 'not-run' : 'answer')
    expect((await limiter.check(both)).allowed).toBe(false)
    expect(store.gives).toHaveLength(1)
  })
})

describe('during an outage of the store', () => {
  const gone = async () => {
    const made = await silent(perUser([window(3)]))
    made.store.script.peekError = new Error('gone')
    made.store.script.verbError = new Error('gone')
    return made
  }

  test('peek decides as check would during an outage, and charges nothing', async () => {
    const { limiter } = await gone()
    for (let i = 0; i < 5; i++) {
      expect(await limiter.peek(user('u1'))).toMatchObject({
        allowed: true,
        source: 'posture',
        remaining: 3,
      })
    }
    for (let i = 0; i < 3; i++) await limiter.check(user('u1'))
    expect(await limiter.peek(user('u1'))).toMatchObject({ allowed: false, reason: 'posture' })
  })

  test('the share left of a limit is unknown during an outage, whatever the posture', async () => {
    const { limiter } = await gone()
    const decision = await limiter.check(user('u1'))
    const seen: [string, number][] = []
    decision.eachCaller((rule, _by, _caller, _outcome, left) => seen.push([rule, left]))
    expect(seen).toEqual([['per-user', -1]])
  })

  test('limits and explain report the decisions of the postures as such', async () => {
    const { limiter } = await gone()
    await limiter.check(user('u1'))
    expect(await limiter.limits(user('u1'))).toMatchObject([{ rule: 'per-user', remaining: 2 }])
    const { explain = [], source, postures } = await limiter.explain(user('u1'))
    expect([source, postures]).toEqual(['posture', { 'per-user': 'local' }])
    expect(explain[0]?.limits[0]).toMatchObject({
      remaining: 2,
      posture: 'local',
      state: { count: 1 },
    })
  })

  test('a refund fails and the receipt stays payable; so does a reset', async () => {
    const { limiter, store } = await scripted(perUser([window(3)]))
    const { receipt = '' } = await limiter.check(user('u1'), { receipt: true })
    store.script.verbError = new Error('gone')
    for (let i = 0; i < 2; i++) {
      await expect(limiter.refund(receipt)).rejects.toMatchObject({
        code: 'STORE_FAILED',
        message: 'The store did not answer: the receipt can be refunded again',
      })
    }
    await expect(limiter.refund(user('u1'))).rejects.toMatchObject({ code: 'STORE_FAILED' })
    await expect(limiter.reset(user('u1'))).rejects.toMatchObject({ code: 'STORE_FAILED' })
    store.script.verbError = undefined
    await limiter.refund(receipt)
    expect((await limiter.peek(user('u1'))).remaining).toBe(3)
  })

  test('a refund that may have run is not repeated', async () => {
    const { limiter, store } = await scripted(perUser([window(3)]))
    const { receipt = '' } = await limiter.check(user('u1'), { receipt: true })
    await limiter.check(user('u1'))
    const give = store.give.bind(store)
    store.give = async (one) => {
      await give(one)
      throw Object.assign(new SluiceError('STORE_FAILED', 'lost'), { silence: 'unknown' })
    }
    await expect(limiter.refund(receipt)).rejects.toMatchObject({ code: 'STORE_FAILED' })
    store.give = give
    await limiter.refund(receipt)
    expect((await limiter.peek(user('u1'))).remaining).toBe(2)
  })

  test('a reset that succeeds forgets the share that was spent, too', async () => {
    const { limiter, store } = await silent(perUser([window(1)]))
    await limiter.check(user('u1'))
    expect((await limiter.check(user('u1'))).allowed).toBe(false)
    await limiter.reset(user('u1'))
    expect((await limiter.check(user('u1'))).allowed).toBe(true)
    expect(store.charges).toEqual([])
  })
})

test('a store without a clock, fleet and secret falls back by the wall clock', async () => {
  const far = new ScriptedStore()
  far.all('not-run')
  const store: Store = {
    ...memoryStore(),
    sync: undefined,
    take: (groups, options) => far.take(groups, options),
  }
  const limiter = createLimiter({ rules: perUser([window(2)]), store, clock: far.clock })
  await limiter.ready()
  const allowed = [await limiter.check(user('u1')), await limiter.check(user('u1'))]
  expect(allowed.map((each) => each.allowed)).toEqual([true, true])
  expect((await limiter.check(user('u1'))).allowed).toBe(false)
  await limiter.close()
})

test('the deadline is the shortest of the enforced rules that have one, else the store’s own', async () => {
  const rules = [
    { id: 'a', by: ['user'], limits: ['9/second'], deadline: '40ms' },
    { id: 'b', by: ['ip'], limits: ['9/second'], deadline: '30ms' },
    { id: 'c', by: ['org'], limits: ['9/second'] },
    { id: 'd', by: ['user'], limits: ['9/second'], mode: 'shadow', deadline: '1ms' },
  ]
  const store = new ScriptedStore()
  const limiter = limiterOver(store, rules)
  await limiter.ready()
  await limiter.check(call({ user: 'u1', ip: '192.0.2.1', org: 'o' }))
  await limiter.check(call({ user: 'u1', org: 'o' }))
  await limiter.check(call({ org: 'o' }))
  expect(store.requests.map(({ options }) => options?.deadlineMs)).toEqual([30, 40, undefined])
})
