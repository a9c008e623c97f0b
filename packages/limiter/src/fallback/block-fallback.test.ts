/** Blocks while the store does not answer, by the counters of the node. */
import { expect, test } from 'vitest'
import { scripted } from '../scripted-store.test-helper.js'

const RULES = [
  {
    id: 'login',
    by: ['ip'],
    limits: [{ algorithm: 'fixed-window', start: 'call', max: 2, window: '10s', block: '15m' }],
  },
]
const call = { attributes: { ip: '192.0.2.1' } }

test('a rule with posture local blocks a caller that goes over while the store is silent', async () => {
  const { limiter, store, clock } = await scripted(RULES)
  store.script.fate = () => 'lost'
  expect((await limiter.check(call)).allowed).toBe(true)
  expect((await limiter.check(call)).allowed).toBe(true)
  const refused = await limiter.check(call)
  expect(refused).toMatchObject({ allowed: false, reason: 'posture', retryAfterMs: 900_000 })
  clock.advance(60_000)
  expect((await limiter.check(call)).allowed).toBe(false)
})

test('units spent while the store was silent are charged to the limit and begin no block', async () => {
  const { limiter, store, clock } = await scripted(RULES)
  store.script.fate = () => 'not-run'
  expect((await limiter.check(call)).allowed).toBe(true)
  store.script.fate = () => 'answer'
  clock.advance(1000)
  expect((await limiter.check(call)).allowed).toBe(true)
  const { explain = [] } = await limiter.explain(call)
  expect(explain[0]?.limits[0]?.block).toEqual({ untilMs: null, times: 0 })
  expect(store.charges.map(({ limit }) => limit.algorithm)).not.toContain('block')
})
