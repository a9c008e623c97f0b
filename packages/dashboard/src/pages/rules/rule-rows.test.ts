import type { RuleStatsView, RuleView } from '@sluice/client'
import { describe, expect, test } from 'vitest'
import { findRules, ROWS_MAX, ruleRow, sortedRows } from './rule-rows.js'
import {
  allLimitsText,
  byText,
  limitsText,
  limitText,
  matchText,
  ruleLimitsText,
  spanText,
  waitText,
} from './rule-text.js'

const rule = (id: string, more: object = {}): RuleView => ({
  id,
  version: 1,
  overrideCount: 0,
  limits: ['10/second'],
  ...more,
})

function stats(id: string, allowed: number, refused: number): RuleStatsView {
  const none = [0, 0]
  const series = {
    stepMs: 10_000,
    endMs: 20_000,
    allowed: [0, allowed],
    refused: [0, refused],
    shadowRefused: none,
    degraded: none,
  }
  return { rule: id, series, candidate: null, refusingSince: null, callers: null, left: [] }
}

const mapOf = (...all: readonly RuleStatsView[]) => new Map(all.map((each) => [each.rule, each]))

describe('the rows of the rules table', () => {
  const rules = [rule('b10'), rule('a'), rule('b9'), rule('quiet')]
  const statsByRule = mapOf(stats('b10', 5, 1), stats('a', 100, 0), stats('b9', 1, 7))
  const ids = (order: 'refusals' | 'decisions' | 'name' | 'set') =>
    sortedRows(rules, statsByRule, order).map(({ id }) => id)

  test('rules are sorted by refusals, then decisions, then rule set order', () => {
    expect(ids('refusals')).toEqual(['b9', 'b10', 'a', 'quiet'])
    expect(ids('decisions')).toEqual(['a', 'b9', 'b10', 'quiet'])
  })

  test('names are sorted numerically, and the rule set order can be kept', () => {
    expect(ids('name')).toEqual(['a', 'b9', 'b10', 'quiet'])
    expect(ids('set')).toEqual(['b10', 'a', 'b9', 'quiet'])
  })

  test('the number of rows is bounded', () => {
    const many = Array.from({ length: 10_000 }, (_, i) => rule(`r${i}`))
    for (const order of ['refusals', 'decisions', 'name', 'set'] as const) {
      expect(sortedRows(many, mapOf(stats('r9999', 1, 1)), order)).toHaveLength(ROWS_MAX)
    }
    expect(sortedRows(many, mapOf(stats('r9999', 1, 1)), 'refusals')[0]?.id).toBe('r9999')
  })

  test('the search finds words of the id and the description', () => {
    const all = [rule('orders-per-user'), rule('x', { description: 'What Orders cost' })]
    expect(findRules(all, ' ORDERS ').map(({ id }) => id)).toEqual(['orders-per-user', 'x'])
    expect(findRules(all, 'orders user')).toHaveLength(1)
    expect(findRules(all, '')).toHaveLength(2)
  })

  test('a row has the refusals of the candidate and of the rule', () => {
    const series = { ...stats('a', 40, 0).series, shadowRefused: [1, 2] }
    const row = ruleRow(rule('a', { candidate: { limits: ['5/second'] } }), {
      ...stats('a', 43, 6),
      candidate: series,
    })
    expect(row.candidate).toEqual({
      limits: '5/second',
      wouldRefuse: 3,
      refused: 6,
      isAdditional: true,
    })
  })

  test('a rule without requests has zeros', () => {
    expect(ruleRow(rule('a', { mode: 'off' }), undefined)).toMatchObject({
      mode: 'off',
      allowed: 0,
      decisionsPerSecond: 0,
      refusals: [],
    })
  })
})

describe('texts about a rule', () => {
  test('limits are shown with algorithm and burst', () => {
    expect(limitText({ algorithm: 'gcra', max: 1000, window: '1h', burst: 5 })).toBe(
      '1,000/hour gcra burst 5',
    )
    expect(limitsText(['1/day', { max: 5, window: '90s' }])).toBe('1/day and 5/90s')
    expect(limitsText([])).toBe('no limit')
    expect(limitsText(undefined)).toBe('–')
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
    expect(matchText(undefined)).toBe('every request')
    expect(byText('ip')).toBe('ip')
    expect(byText([])).toBe('all callers together')
  })

  test('a window is shown exactly', () => {
    const all = [250, 1000, 90_000, 3_600_000, 86_400_000, 31_622_400_000]
    expect(all.map(spanText)).toEqual(['250 ms', '1 s', '90 s', '1 h', '1 d', '366 d'])
  })

  test('a wait is rounded up', () => {
    expect([1, 1001, 36_200, 119_001, 7_200_001].map(waitText)).toEqual([
      '1 ms',
      '1.1 s',
      '37 s',
      '120 s',
      '3 h',
    ])
  })
})
