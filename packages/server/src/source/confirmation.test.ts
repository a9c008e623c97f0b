import { expect, test } from 'vitest'
import { createMemoryLog } from '../log/memory-log.test-helper.js'
import { Confirmation } from './confirmation.js'

test('rules that are confirmed are not a little old, however often the clock is read', () => {
  let nowMs = 0
  let isConfirmed = true
  const confirmation = new Confirmation({
    log: createMemoryLog('info').log,
    // Every look at it is later than the one before.
    timers: { nowMs: () => (nowMs += 10), after: () => () => {} },
    isConfirmed: () => isConfirmed,
    problem: () => undefined,
  })
  expect([confirmation.ageSeconds(), confirmation.ageSeconds()]).toEqual([0, 0])
  isConfirmed = false
  nowMs += 5000
  expect(confirmation.ageSeconds()).toBe(5.01)
  isConfirmed = true
  expect(confirmation.ageSeconds()).toBe(0)
})
