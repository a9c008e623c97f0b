import { expect, test } from 'vitest'
import { aboutRule } from './about-rule.js'
import type { Answer, LimitAnswer, RuleAnswer } from './answer.js'

const limit = (retryAfterMs: number | null, isCandidate = false) =>
  ({ retryAfterMs, isCandidate }) as LimitAnswer

const rule = (more: Partial<RuleAnswer>): RuleAnswer => ({
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

const answer = (more: Partial<Answer>): Answer => ({
  isAllowed: true,
  refusedBy: undefined,
  said: '',
  decided: '',
  matched: [],
  passed: [],
  shadow: [],
  ...more,
})

const said = (more: Partial<Answer>) => aboutRule('r', answer(more), { user: 'u1' }).said

test('a rule that the call does not meet is told as such, and why', () => {
  const passed = [rule({ isMatched: false, why: 'path is "/"' })]
  expect(aboutRule('r', answer({ passed }), {})).toEqual({
    tone: 'degraded',
    said: 'This call does not meet r, so it does not say why that rule refused.',
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
  expect(aboutRule('r', answer({ matched }), long).said).toMatch(/^The user is cut short/)
  const refused = answer({ matched, isAllowed: false, refusedBy: 'r' })
  expect(aboutRule('r', refused, long).tone).toBe('refused')
})
