import { expect, test } from 'vitest'
import { ruleVerdict } from './rule-verdict.js'
import type { Explanation, LimitExplanation, RuleExplanation } from './explanation.js'

const limit = (retryAfterMs: number | null, isCandidate = false) =>
  ({ retryAfterMs, isCandidate }) as LimitExplanation

const rule = (more: Partial<RuleExplanation>): RuleExplanation => ({
  rule: 'r',
  isMatched: true,
  why: null,
  mode: 'enforce',
  hash: 'h',
  caller: {},
  override: undefined,
  limits: [limit(0)],
  ...more,
})

const answer = (more: Partial<Explanation>): Explanation => ({
  isAllowed: true,
  refusedBy: undefined,
  summary: '',
  decidedBy: '',
  matched: [],
  unmatched: [],
  shadow: [],
  ...more,
})

const said = (more: Partial<Explanation>) => ruleVerdict('r', answer(more), { user: 'u1' }).text

test('a rule that the call does not meet is told as such, and why', () => {
  const passed = [rule({ isMatched: false, why: 'path is "/"' })]
  expect(ruleVerdict('r', answer({ unmatched: passed }), {})).toEqual({
    tone: 'degraded',
    text: 'This call does not meet r, so it does not say why that rule refused.',
    why: 'path is "/"',
  })
})

test('a rule that is gone is told as such', () => {
  expect(said({ matched: [rule({ rule: 'other' })] })).toMatch(/^There is no rule r now/)
})

test('a rule that is met refuses, has no room either, or has room', () => {
  const full = rule({ limits: [limit(0), limit(500)] })
  const never = rule({ limits: [limit(null)] })
  const open = rule({ limits: [limit(0), limit(500, true)] })
  const refused = { isAllowed: false, matched: [full] }
  expect(said({ ...refused, refusedBy: 'r' })).toBe('This call meets r, which refuses it.')
  expect(said({ ...refused, refusedBy: 'other' })).toMatch(/, which has no room for it either\.$/)
  expect(said({ matched: [never] })).toMatch(/, which has no room for it\.$/)
  expect(said({ matched: [open] })).toMatch(/, which has room for it just now\.$/)
  expect(said({ matched: [rule({ limits: [] })] })).toMatch(/no limit for this caller\.$/)
  expect(said({ matched: [{ ...full, mode: 'shadow' }] })).toMatch(/refuses nobody in shadow\.$/)
})

test('a caller whose name is cut short is another one, unless it is refused', () => {
  const long = { user: `${'x'.repeat(60)}…` }
  const matched = [rule({})]
  expect(ruleVerdict('r', answer({ matched }), long).text).toMatch(/^The user is cut short/)
  const refused = answer({ matched, isAllowed: false, refusedBy: 'r' })
  expect(ruleVerdict('r', refused, long).tone).toBe('refused')
})
