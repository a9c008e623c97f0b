import { expect, test } from 'vitest'
import { Confirmation } from './confirmation.js'

test('rules that are confirmed are not a little old, however often the clock is read', () => {
  let nowMs = 0
  let isConfirmed = true
  const confirmation = new Confirmation({
    // Every look at it is later than the one before.
    timers: { nowMs: () => (nowMs += 10), after: () => () => {} },
    isConfirmed: () => isConfirmed,
  })
  expect([confirmation.ageSeconds(), confirmation.ageSeconds()]).toEqual([0, 0])
  isConfirmed = false
  nowMs += 5000
  expect(confirmation.ageSeconds()).toBe(5.01)
  isConfirmed = true
  expect(confirmation.ageSeconds()).toBe(0)
})
