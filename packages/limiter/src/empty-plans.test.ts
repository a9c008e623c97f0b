import { describe, expect, test } from 'vitest'
import { createLimiter } from './index.js'
import { ScriptedStore } from './scripted-store.test-helper.js'

const rules = [
  {
    id: 'per-user',
    by: ['user'],
    limits: ['5/minute'],
    tiers: { plan: { partner: [] } },
    posture: 'closed',
  },
  {
    id: 'trial',
    mode: 'shadow',
    by: ['ip'],
    limits: ['5/minute'],
    tiers: { plan: { partner: [] } },
    posture: 'closed',
  },
]

const partner = { attributes: { user: 'u1', ip: '203.0.113.7', plan: 'partner' } }
const shadowed = { attributes: { ip: '203.0.113.7', plan: 'partner' } }
const anonymous = { attributes: { path: '/health' } }

/** A limiter whose store fails every request. */
function overFailing(secret?: Promise<Uint8Array>) {
  const store = new ScriptedStore(secret === undefined ? {} : { secret })
  store.script.error = new Error('asked')
  store.script.peekError = new Error('asked')
  return { store, limiter: createLimiter({ rules, store }) }
}

describe.each([
  ['a store that fails', undefined],
  ['a store that has not provided its secret', new Promise<Uint8Array>(() => {})],
])('over %s', (_, secret) => {
  test('a call whose limits are all empty is allowed without the store', async () => {
    const { store, limiter } = overFailing(secret)
    if (secret === undefined) await limiter.ready()
    for (const call of [partner, shadowed]) {
      expect(await limiter.check(call)).toMatchObject({ allowed: true, source: 'store' })
      expect(await limiter.peek(call)).toMatchObject({ allowed: true, source: 'store' })
    }
    expect(store.requests).toEqual([])
  })

  test('the limits of a caller that has none are an empty list', async () => {
    const { limiter } = overFailing(secret)
    if (secret === undefined) await limiter.ready()
    expect(await limiter.limits(anonymous)).toEqual([])
    expect(await limiter.limits(partner)).toEqual([])
  })

  test('a call that no rule matches is explained without the store', async () => {
    const { limiter } = overFailing(secret)
    if (secret === undefined) await limiter.ready()
    const decision = await limiter.explain(anonymous)
    expect(decision).toMatchObject({ allowed: true, reason: 'unmatched' })
    expect(decision.explain?.map(({ matched }) => matched)).toEqual([false, false])
  })
})
