import type { RuleChange } from '@sluice/client'
import { diffRules, parseRules } from '@sluice/core'
import { expect, test } from 'vitest'
import { diffText, isEmptyDiff } from './diff-text.js'

const none = { added: 0, changed: 0, removed: 0 }
const setOf = (text: string) =>
  parseRules(text).rules ?? { routes: [], strictPaths: false, rules: [] }

test('an empty diff changes nothing', () => {
  const diff = { set: [], rules: [] }
  expect(isEmptyDiff(diff)).toBe(true)
  expect(diffText(diff)).toBe('Nothing changes.\n')
})

test('every kind of change has its sign, its fields, and what becomes of its counters', () => {
  const rules: RuleChange[] = [
    {
      id: 'per-user',
      change: 'changed',
      fields: [
        { field: 'mode', before: 'enforce', after: 'shadow' },
        { field: 'description', before: '', after: 'new' },
        { field: 'candidate', before: '5/second', after: '' },
      ],
      counters: [
        { where: 'limits', limit: 'hourly', counters: 'start anew', what: 'window 1h to 2h' },
        { where: 'limits', limit: 'token-bucket-1s', counters: 'go on', what: 'max 10 to 5' },
        { where: 'tiers.plan.pro', limit: 'daily', counters: 'end', what: '' },
      ],
      overrides: { added: 1, changed: 0, removed: 2 },
    },
    { id: 'moved', change: 'moved', fields: [], counters: [], overrides: none },
    { id: 'new', change: 'added', fields: [], counters: [], overrides: none },
    {
      id: 'old',
      change: 'removed',
      fields: [{ field: 'limits', before: '[1/second]', after: '' }],
      counters: [],
      overrides: none,
    },
  ]
  const set = [{ field: 'strictPaths', before: 'false', after: 'true' }]
  expect(diffText({ set, rules })).toBe(`~ strictPaths: false -> true
~ per-user  changed
    mode: enforce -> shadow
    description: new
    candidate: 5/second -> none
    counters go on: limits token-bucket-1s (max 10 to 5)
    counters start anew: limits hourly (window 1h to 2h)
    counters end: tiers.plan.pro daily
    overrides: 1 added, 2 removed
> moved  moved
+ new  added
- old  removed
    limits: [1/second]
Rules: 1 added, 1 changed, 1 moved, 1 removed, 1 of the set as a whole.
`)
})

test('a diff made by core is formatted in words', () => {
  const before = setOf(
    '[{ id: a, by: [user], limits: [10/second] }, { id: b, by: [ip], limits: [5/minute] }]',
  )
  const after = setOf('[{ id: a, by: [user], limits: [20/second, 100/hour] }]')
  const text = diffText(diffRules(before, after))
  expect(text).toContain('~ a  changed\n')
  expect(text).toContain('counters go on: limits token-bucket-1s (max 10 to 20)\n')
  expect(text).toContain('- b  removed\n')
  expect(text).toContain('Rules: 1 changed, 1 removed.\n')
})

test('rules beyond the first ones are only counted', () => {
  const rules = Array.from({ length: 250 }, (_, i): RuleChange => {
    return { id: `r${i}`, change: 'added', fields: [], counters: [], overrides: none }
  })
  const lines = diffText({ set: [], rules }).trim().split('\n')
  expect(lines).toHaveLength(202)
  expect(lines.at(-2)).toBe('  and 50 more rules; --json has all')
  expect(lines.at(-1)).toBe('Rules: 250 added.')
})

test('text of rules is escaped for the terminal', () => {
  const fields = [{ field: 'description', before: 'a\u001b[31m', after: 'b\nApplied.' }]
  const rules: RuleChange[] = [
    { id: 'a', change: 'changed', fields, counters: [], overrides: none },
  ]
  expect(diffText({ set: [], rules })).toContain(
    '    description: a\\u001b[31m -> b\\u000aApplied.\n',
  )
})
