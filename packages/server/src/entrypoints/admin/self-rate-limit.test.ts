import { expect, test } from 'vitest'
import { createSelfRateLimit } from './self-rate-limit.js'
import { TooManyError } from './admin-error.js'

function limitsAt() {
  const clock = { ms: 1_767_225_600_000, now: () => clock.ms }
  return { clock, limits: createSelfRateLimit(clock) }
}

function countUntilRefused(act: () => unknown, most = 5000): number {
  for (let i = 0; i < most; i++) {
    try {
      act()
    } catch (error) {
      expect(error).toBeInstanceOf(TooManyError)
      return i
    }
  }
  return most
}

test('an address may fail 20 times, then once every three seconds', () => {
  const { clock, limits } = limitsAt()
  expect(countUntilRefused(() => limits.recordFailure('203.0.113.7'))).toBe(20)
  clock.ms += 3000
  expect(countUntilRefused(() => limits.recordFailure('203.0.113.7'))).toBe(1)
})

test('another address is not affected, but one of the same IPv6 network is', () => {
  const { limits } = limitsAt()
  countUntilRefused(() => limits.recordFailure('2001:db8::1'))
  expect(() => limits.recordFailure('2001:db8::2')).toThrow(TooManyError)
  expect(() => limits.recordFailure('2001:db8:0:1::1')).not.toThrow()
  expect(() => limits.recordFailure('203.0.113.7')).not.toThrow()
})

test('a refused failure reports when to retry', () => {
  const { limits } = limitsAt()
  countUntilRefused(() => limits.recordFailure('203.0.113.7'))
  try {
    limits.recordFailure('203.0.113.7')
    expect.unreachable()
  } catch (error) {
    const { decision } = error as TooManyError
    expect(limits.headersOf(decision)).toMatchObject({ 'Retry-After': '3' })
  }
})

test('a token has a burst of 1,000 calls, 500 of them writes', () => {
  const { limits } = limitsAt()
  expect(countUntilRefused(() => limits.checkCall('t1', true))).toBe(500)
  expect(countUntilRefused(() => limits.checkCall('t1', false))).toBe(500)
  expect(() => limits.checkCall('t2', true)).not.toThrow()
})

test('the headers of a write report both limits', () => {
  const { limits } = limitsAt()
  const headers = limits.checkCall('t1', true)
  expect(headers['RateLimit-Policy']).toBe('"admin-calls";q=1000;w=1, "admin-writes";q=500;w=1')
  expect(limits.checkCall('t1', false)['RateLimit-Policy']).toBe('"admin-calls";q=1000;w=1')
})

test('a closed limiter throws instead of admitting', async () => {
  const { limits } = limitsAt()
  await limits.close()
  expect(() => limits.recordFailure('203.0.113.7')).toThrow('closed')
  expect(() => limits.checkCall('t1', false)).toThrow('closed')
})
