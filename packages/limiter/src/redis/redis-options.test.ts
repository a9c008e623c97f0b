import { describe, expect, test } from 'vitest'
import { readRedisOptions } from './redis-options.js'

const url = 'redis://127.0.0.1:6379'

test('a decision waits 50 ms for the store unless told otherwise', () => {
  expect(readRedisOptions({ url }).deadlineMs).toBe(50)
  expect(readRedisOptions({ url, deadlineMs: 5 }).deadlineMs).toBe(5)
})

describe('the clock tolerance of a store', () => {
  test('is 100 ms, or what was given, 0 too', () => {
    expect(readRedisOptions({ url }).clockToleranceMs).toBe(100)
    expect(readRedisOptions({ url, clockToleranceMs: 0 }).clockToleranceMs).toBe(0)
    expect(readRedisOptions({ url, clockToleranceMs: 60_000 }).clockToleranceMs).toBe(60_000)
  })

  test.each([-1, 60_001, 1.5, Number.NaN, '5'])('is refused where it is %s', (value) => {
    expect(() => readRedisOptions({ url, clockToleranceMs: value as number })).toThrow(
      /^clockToleranceMs: found .+; accepted: a whole number from 0 to 60000$/,
    )
  })
})
