import { describe, expect, test } from 'vitest'
import { readRedisOptions } from './redis-options.js'

const url = 'redis://127.0.0.1:6379'

test('the default deadline is 50 ms', () => {
  expect(readRedisOptions({ url }).deadlineMs).toBe(50)
  expect(readRedisOptions({ url, deadlineMs: 5 }).deadlineMs).toBe(5)
})

describe('the clockToleranceMs option', () => {
  test('defaults to 100 ms and accepts 0', () => {
    expect(readRedisOptions({ url }).clockToleranceMs).toBe(100)
    expect(readRedisOptions({ url, clockToleranceMs: 0 }).clockToleranceMs).toBe(0)
    expect(readRedisOptions({ url, clockToleranceMs: 60_000 }).clockToleranceMs).toBe(60_000)
  })

  test.each([-1, 60_001, 1.5, Number.NaN, '5'])('refuses %s', (value) => {
    expect(() => readRedisOptions({ url, clockToleranceMs: value as number })).toThrow(
      /^clockToleranceMs: found .+; accepted: a whole number from 0 to 60000$/,
    )
  })
})
