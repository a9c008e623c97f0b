/** Overrides of networks, from the rules to counters, receipts and explanations. */
import { parseOverride, parseRules, type OverrideChange } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { call, limiterOf } from './limiter.test-helper.js'
import { scripted } from './scripted-store.test-helper.js'

const RULE = { id: 'per-address', by: ['ip'], limits: ['2/hour'] }
const OFFICE = {
  caller: { ip: '198.51.100.0/24' },
  limits: [{ max: 3, window: '1h', name: 'own' }],
}
const at = (ip: string) => call({ ip })

function changeOf(source: object): OverrideChange {
  const [rule] = parseRules([RULE]).rules?.rules ?? []
  const { override } = rule === undefined ? {} : parseOverride(rule, source)
  if (override === undefined) throw new Error('no override')
  return { rule: RULE.id, caller: override.caller, override }
}

describe('network overrides', () => {
  test('an override of a network gives each address of it a budget of its own', () => {
    const { limiter } = limiterOf([{ ...RULE, overrides: [OFFICE] }])
    const admittedOf = (ip: string) =>
      [1, 2, 3, 4, 5].filter(() => limiter.checkSync(at(ip)).allowed).length
    expect(['198.51.100.7', '198.51.100.8', '203.0.113.7'].map(admittedOf)).toEqual([3, 3, 2])
  })

  test('an override of a network with no limits exempts its addresses', () => {
    const overrides = [{ ...OFFICE, limits: [] }]
    const { limiter } = limiterOf([{ ...RULE, overrides }])
    for (let i = 0; i < 9; i++) expect(limiter.checkSync(at('198.51.100.7')).allowed).toBe(true)
  })

  test('an override of a network is named by explain and inspect', async () => {
    const exact = { caller: { ip: '198.51.100.9' }, limits: ['9/hour'] }
    const { limiter } = limiterOf([{ ...RULE, overrides: [OFFICE, exact] }])
    const overrideFor = async (ip: string) => {
      const { explain } = await limiter.explain(at(ip))
      return explain?.[0]?.override
    }
    expect(await overrideFor('198.51.100.7')).toEqual({ ip: '198.51.100.0/24' })
    expect(await overrideFor('198.51.100.9')).toEqual({ ip: '198.51.100.9' })
    expect(await overrideFor('203.0.113.7')).toBeNull()
    const inspected = await limiter.inspect('per-address', at('198.51.100.7'))
    expect(inspected.counters[0]?.where).toBe('override of 198.51.100.0/24')
    expect(inspected.caller).toEqual({ ip: '198.51.100.7' })
  })

  test('an override of a network has counters that are reset and refunded', async () => {
    const { limiter } = limiterOf([{ ...RULE, overrides: [OFFICE] }])
    const caller = at('198.51.100.7')
    const { receipt } = limiter.checkSync(caller, { receipt: true })
    limiter.checkSync(caller)
    expect(await limiter.peek(caller)).toMatchObject({ limitName: 'own', remaining: 1 })
    await limiter.refund(receipt ?? '')
    expect(await limiter.peek(caller)).toMatchObject({ remaining: 2 })
    await limiter.reset(caller)
    expect(await limiter.peek(caller)).toMatchObject({ remaining: 3 })
  })

  test('a standalone override of a network frees a caller that was refused a moment ago', async () => {
    const { limiter, store } = await scripted([RULE], { denyCacheMs: 1000 })
    const caller = at('198.51.100.7')
    for (let i = 0; i < 3; i++) await limiter.check(caller)
    const requests = store.requests.length
    expect((await limiter.check(caller)).source).toBe('deny-cache')
    expect(store.requests).toHaveLength(requests)
    const more = { caller: { ip: '198.51.100.0/24' }, limits: ['50/hour'] }
    limiter.changeOverrides([changeOf(more)])
    expect(await limiter.check(caller)).toMatchObject({ allowed: true, source: 'store' })
  })
})
