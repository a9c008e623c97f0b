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

const known = (...all: readonly RuleStatsView[]) => new Map(all.map((each) => [each.rule, each]))

describe('the table of rules', () => {
  const rules = [rule('b10'), rule('a'), rule('b9'), rule('quiet')]
  const seen = known(stats('b10', 5, 1), stats('a', 100, 0), stats('b9', 1, 7))
  const ids = (order: 'refusals' | 'decisions' | 'name' | 'set') =>
    sortedRows(rules, seen, order).map(({ id }) => id)

  test('has what refuses most first, then what decides most, then the rest', () => {
    expect(ids('refusals')).toEqual(['b9', 'b10', 'a', 'quiet'])
    expect(ids('decisions')).toEqual(['a', 'b9', 'b10', 'quiet'])
  })

  test('sorts names as people do, and can keep the order of the set', () => {
    expect(ids('name')).toEqual(['a', 'b9', 'b10', 'quiet'])
    expect(ids('set')).toEqual(['b10', 'a', 'b9', 'quiet'])
  })

  test('never has more rows than a browser draws', () => {
    const many = Array.from({ length: 10_000 }, (_, i) => rule(`r${i}`))
    for (const order of ['refusals', 'decisions', 'name', 'set'] as const) {
      expect(sortedRows(many, known(stats('r9999', 1, 1)), order)).toHaveLength(ROWS_MAX)
    }
    expect(sortedRows(many, known(stats('r9999', 1, 1)), 'refusals')[0]?.id).toBe('r9999')
  })

  test('finds a rule by words of its id and description', () => {
    const all = [rule('orders-per-user'), rule('x', { description: 'What Orders cost' })]
    expect(findRules(all, ' ORDERS ').map(({ id }) => id)).toEqual(['orders-per-user', 'x'])
    expect(findRules(all, 'orders user')).toHaveLength(1)
    expect(findRules(all, '')).toHaveLength(2)
  })

  test('tells of a candidate beside what is in force', () => {
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

  test('a rule that nobody has met is all zeros', () => {
    expect(ruleRow(rule('a', { mode: 'off' }), undefined)).toMatchObject({
      mode: 'off',
      allowed: 0,
      decisionsPerSecond: 0,
      refusals: [],
    })
  })
})

describe('a rule in words', () => {
  test('its limits', () => {
    expect(limitText({ algorithm: 'gcra', max: 1000, window: '1h', burst: 5 })).toBe(
      '1,000/hour gcra burst 5',
    )
    expect(limitsText(['1/day', { max: 5, window: '90s' }])).toBe('1/day and 5/90s')
    expect(limitsText([])).toBe('no limit')
    expect(limitsText(undefined)).toBe('–')
  })

  test('its tiers, in short and in full', () => {
    const of = (...plans: readonly string[]) => ({
      limits: ['10/second'],
      tiers: { plan: Object.fromEntries(plans.map((plan) => [plan, [{ max: 4, window: '1s' }]])) },
    })
    expect(ruleLimitsText({ limits: ['10/second'] })).toBe('10/second')
    expect(ruleLimitsText(of('pro'))).toBe('10/second, plan pro has its own')
    expect(ruleLimitsText(of('pro', 'partner'))).toBe(
      '10/second, plans pro and partner have their own',
    )
    expect(ruleLimitsText(of('a', 'b', 'c', 'd', 'e'))).toBe(
      '10/second, plans a, b, c and 2 more have their own',
    )
    expect(allLimitsText(of('pro', 'x'))).toBe('10/second; plan pro: 4/second; plan x: 4/second')
    for (const tiers of [null, [], {}, { plan: null }, { plan: {} }]) {
      expect(ruleLimitsText({ limits: ['1/day'], tiers })).toBe('1/day')
      expect(allLimitsText({ limits: ['1/day'], tiers })).toBe('1/day')
    }
  })

  test('what it matches and counts by', () => {
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
    expect(byText([])).toBe('everybody')
  })

  test('a window is told exactly', () => {
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
