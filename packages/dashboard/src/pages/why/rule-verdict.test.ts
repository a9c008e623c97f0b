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
  note: undefined,
  limits: [limit(0)],
  ...more,
})

const answer = (more: Partial<Explanation>): Explanation => ({
  isAllowed: true,
  refusedBy: undefined,
  summary: '',
  priority: undefined,
  decidedBy: '',
  matched: [],
  unmatched: [],
  shadow: [],
  ...more,
})

const textOf = (more: Partial<Explanation>) => ruleVerdict('r', answer(more), { user: 'u1' }).text

test('a rule that does not match is reported with the reason', () => {
  const passed = [rule({ isMatched: false, why: 'path is "/"' })]
  expect(ruleVerdict('r', answer({ unmatched: passed }), {})).toEqual({
    tone: 'degraded',
    text: 'This request does not match r, so it does not explain why that rule refused.',
    why: 'path is "/"',
  })
})

test('a deleted rule is reported', () => {
  expect(textOf({ matched: [rule({ rule: 'other' })] })).toMatch(/^Rule r no longer exists/)
})

test('a matching rule refuses, has no budget either, or has budget', () => {
  const full = rule({ limits: [limit(0), limit(500)] })
  const never = rule({ limits: [limit(null)] })
  const open = rule({ limits: [limit(0), limit(500, true)] })
  const refused = { isAllowed: false, matched: [full] }
  expect(textOf({ ...refused, refusedBy: 'r' })).toBe('This request matches r, which refuses it.')
  expect(textOf({ ...refused, refusedBy: 'other' })).toMatch(
    /, which has no budget for it either\.$/,
  )
  expect(textOf({ matched: [never] })).toMatch(/, which has no budget for it\.$/)
  expect(textOf({ matched: [open] })).toMatch(/, which has budget for it now\.$/)
  expect(textOf({ matched: [rule({ limits: [] })] })).toMatch(/no limit for this caller\.$/)
  expect(textOf({ matched: [{ ...full, mode: 'shadow' }] })).toMatch(
    /would refuse it but is in shadow\.$/,
  )
})

test('a truncated caller is reported, unless the request is refused', () => {
  const long = { user: `${'x'.repeat(60)}…` }
  const matched = [rule({})]
  expect(ruleVerdict('r', answer({ matched }), long).text).toMatch(
    /^The value of user is truncated/,
  )
  const refused = answer({ matched, isAllowed: false, refusedBy: 'r' })
  expect(ruleVerdict('r', refused, long).tone).toBe('refused')
})
