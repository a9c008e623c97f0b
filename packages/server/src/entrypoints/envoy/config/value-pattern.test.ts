import { expect, test } from 'vitest'
import { compilePattern, matchesPattern } from './value-pattern.js'

test('parts of a pattern do not overlap', () => {
  const matches = (pattern: string, text: string) => matchesPattern(compilePattern(pattern), text)
  expect(matches('ab*ba', 'aba')).toBe(false)
  expect(matches('ab*ba', 'abba')).toBe(true)
  expect(matches('*aa*aa*', 'aaa')).toBe(false)
  expect(matches('*aa*aa*', 'aaaa')).toBe(true)
  expect(matches('a*b*b', 'ab')).toBe(false)
  expect(matches('*', '')).toBe(true)
  expect(matches('***', 'x')).toBe(true)
})

test('a pattern of many parts is compared in steps with a text that almost matches', () => {
  const pattern = compilePattern(`${'a*'.repeat(500)}b`)
  // Exponential search would not end at all.
  for (let i = 0; i < 100; i++) expect(matchesPattern(pattern, 'a'.repeat(10_000))).toBe(false)
})
