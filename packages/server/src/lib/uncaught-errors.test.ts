import { expect, test } from 'vitest'
import { createMemoryLog } from '../observability/log/memory-log.test-helper.js'
import { createUncaughtErrors } from './uncaught-errors.js'

test('an uncaught error is logged with its place; more than a hundred in a minute end the process', () => {
  const clock = { now: () => nowMs }
  let nowMs = 0
  const { log, lines } = createMemoryLog('debug', clock)
  const mistakes = createUncaughtErrors(log, clock)
  const error = new Error('oops')
  for (let i = 0; i < 100; i++) expect(mistakes.shouldExit(error)).toBe(false)
  nowMs = 60_001
  for (let i = 0; i < 100; i++) expect(mistakes.shouldExit(error)).toBe(false)
  expect(mistakes.shouldExit('even a text')).toBe(true)
  expect(lines[0]).toMatchObject({
    level: 'error',
    error: expect.stringMatching(/oops\n +at /) as string,
  })
})
