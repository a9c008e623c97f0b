import type { RuleStatsView, RuleView } from '@sluice/client'
import { describe, expect, test } from 'vitest'
import { findRules, ROWS_MAX, ruleRow, sortedRows } from './rule-rows.js'
import { spanText, waitText } from './rule-text.js'

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
