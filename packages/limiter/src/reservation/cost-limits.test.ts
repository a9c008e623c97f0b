import { describe, expect, test } from 'vitest'
import { createLimiter } from '../limiter.js'

const tokens = { attribute: 'tokens' }

const limitsOf = (rules: readonly object[], attributes: Record<string, string>, more = {}) => {
  const limiter = createLimiter({ rules: { rules, ...more } })
  return Object.fromEntries(limiter.costLimits({ attributes }))
}

describe('costLimits', () => {
  test('is the smallest limit of each cost attribute among the rules that match', () => {
    const rules = [
      { id: 'a', by: ['user'], cost: tokens, limits: ['900/minute', '5000/hour'] },
      { id: 'b', by: [], cost: tokens, limits: ['700/minute'], match: { path: '/v1/*' } },
      { id: 'c', by: [], cost: tokens, limits: ['1/minute'], mode: 'shadow' },
      { id: 'd', by: [], cost: { attribute: 'spend' }, limits: ['5/day'] },
      { id: 'e', by: [], limits: ['3/minute'] },
    ]
    expect(limitsOf(rules, { user: 'ann', path: '/v2' })).toEqual({ tokens: 900, spend: 5 })
    expect(limitsOf(rules, { user: 'ann', path: '/v1/x' })).toEqual({ tokens: 700, spend: 5 })
    expect(limitsOf(rules, {})).toEqual({ spend: 5 })
  })

  test('is that of the tier of the caller, and of the ceiling of its priority', () => {
    const tiers = { plan: { pro: ['9000/minute'], partner: [] } }
    const rules = [{ id: 'a', by: ['user'], cost: tokens, limits: ['900/minute'], tiers }]
    expect(limitsOf(rules, { user: 'ann', plan: 'pro' })).toEqual({ tokens: 9000 })
    expect(limitsOf(rules, { user: 'ann', plan: 'partner' })).toEqual({})
    const headroom = [
      { id: 'a', by: [], cost: tokens, limits: ['1000/minute'], headroom: { paying: '40%' } },
    ]
    const classify = [{ match: { where: { plan: ['pro'] } }, as: 'paying' }]
    const more = { priorities: ['paying', 'free'], classify }
    expect(limitsOf(headroom, { plan: 'pro' }, more)).toEqual({ tokens: 1000 })
    expect(limitsOf(headroom, { plan: 'free' }, more)).toEqual({ tokens: 600 })
  })
})
