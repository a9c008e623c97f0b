import { expect, test } from 'vitest'
import { RulesAge } from './rules-age.js'

test('confirmed rules have an age of exactly 0, however often the clock is read', () => {
  let nowMs = 0
  let isConfirmed = true
  const rulesAge = new RulesAge({
    // Every read of the clock is later than the one before.
    scheduler: { nowMs: () => (nowMs += 10), after: () => () => {} },
    isConfirmed: () => isConfirmed,
  })
  expect([rulesAge.ageSeconds(), rulesAge.ageSeconds()]).toEqual([0, 0])
  isConfirmed = false
  nowMs += 5000
  expect(rulesAge.ageSeconds()).toBe(5.01)
  isConfirmed = true
  expect(rulesAge.ageSeconds()).toBe(0)
})
