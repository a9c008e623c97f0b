import { describe, expect, test } from 'vitest'
import {
  allLimitsText,
  byText,
  callerText,
  headroomText,
  limitsText,
  matchText,
  ruleLimitsText,
} from './rule-text.js'

describe('texts about a rule', () => {
  test('limits are shown with algorithm and burst', () => {
    expect(
      limitsText([{ algorithm: 'gcra', max: 1000, window: '1h', burst: 5, name: 'hourly' }]),
    ).toBe('1000/hour gcra burst 5 hourly')
    expect(limitsText(['1/day', { max: 5, window: '90s' }])).toBe('1/day and 5/90s')
    expect(limitsText([{ algorithm: 'concurrency', max: 20 }])).toBe('20 in flight')
    expect(limitsText([{ algorithm: 'concurrency', max: 5, lease: '1m', name: 'long' }])).toBe(
      '5 in flight lease 1m long',
    )
    const budget = { algorithm: 'fixed-window', max: 1000, window: 'month', zone: 'Europe/Berlin' }
    expect(limitsText([budget])).toBe('1000/calendar month fixed-window zone Europe/Berlin')
    expect(limitsText([])).toBe('no limit')
    expect(limitsText(undefined)).toBe('')
  })

  test('headroom is shown in percent, however it is written', () => {
    expect(headroomText({ critical: '20%', writes: 0.07 })).toBe('critical 20%, writes 7%')
    expect(headroomText(undefined)).toBeUndefined()
  })

  test('tiers are shown in short and in full', () => {
    const withPlans = (...plans: readonly string[]) => ({
      limits: ['10/second'],
      tiers: { plan: Object.fromEntries(plans.map((plan) => [plan, [{ max: 4, window: '1s' }]])) },
    })
    expect(ruleLimitsText({ limits: ['10/second'] })).toBe('10/second')
    expect(ruleLimitsText(withPlans('pro'))).toBe('10/second, custom limits for plan pro')
    expect(ruleLimitsText(withPlans('pro', 'partner'))).toBe(
      '10/second, custom limits for plans pro and partner',
    )
    expect(ruleLimitsText(withPlans('a', 'b', 'c', 'd', 'e'))).toBe(
      '10/second, custom limits for plans a, b, c and 2 more',
    )
    expect(allLimitsText(withPlans('pro', 'x'))).toBe(
      '10/second; plan pro: 4/second; plan x: 4/second',
    )
    for (const tiers of [null, [], {}, { plan: null }, { plan: {} }]) {
      expect(ruleLimitsText({ limits: ['1/day'], tiers })).toBe('1/day')
      expect(allLimitsText({ limits: ['1/day'], tiers })).toBe('1/day')
    }
  })

  test('match and counted attributes are shown in words', () => {
    const match = {
      method: ['GET', 'POST'],
      path: '/v1/*',
      where: { plan: ['a', 'b'], user: null },
    }
    expect(matchText(match)).toBe('GET, POST /v1/* where plan is a or b and user is absent')
    const where = { plan: { not: ['a', 'b'] }, ip: { not: '10.0.0.0/8' } }
    expect(matchText({ where })).toBe('where plan is not a or b and ip is not 10.0.0.0/8')
    expect(matchText(undefined)).toBe('every call')
    expect(byText('ip')).toBe('ip')
    expect(byText([])).toBe('all callers together')
  })

  test('a caller is shown as commands accept it', () => {
    expect(callerText({ user: 'u1', plan: 'pro' })).toBe('user=u1 plan=pro')
    expect(callerText({})).toBe('all callers')
  })
})
