import { describe, expect, test } from 'vitest'
import { readOptions } from './options.js'

const url = 'redis://127.0.0.1:6379'

test('a decision waits 50 ms for the store unless told otherwise', () => {
  expect(readOptions({ url }).deadlineMs).toBe(50)
  expect(readOptions({ url, deadlineMs: 5 }).deadlineMs).toBe(5)
})

describe('the clock tolerance of a store', () => {
  test('is 100 ms, or what was given, 0 too', () => {
    expect(readOptions({ url }).clockToleranceMs).toBe(100)
    expect(readOptions({ url, clockToleranceMs: 0 }).clockToleranceMs).toBe(0)
    expect(readOptions({ url, clockToleranceMs: 60_000 }).clockToleranceMs).toBe(60_000)
  })

  test.each([-1, 60_001, 1.5, Number.NaN, '5'])('is refused where it is %s', (value) => {
    expect(() => readOptions({ url, clockToleranceMs: value as number })).toThrow(
      /^clockToleranceMs: found .+; accepted: a whole number from 0 to 60000$/,
    )
  })
})
