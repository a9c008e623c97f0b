import { expect, test } from 'vitest'
import { defineLimit } from '../limit.js'
import { tokenBucket } from './token-bucket.js'

test('a full bucket that counts in milliseconds starts a new millisecond at the call', () => {
  const limit = defineLimit({
    algorithm: 'token-bucket',
    max: 300_000,
    windowMs: 250,
    burst: 999_999_999_999_999,
  })
  expect(limit.tickUs).toBe(1000)
  const first = tokenBucket.take(undefined, limit, 1, 0)
  // The bucket is full again after 1,000 us; the call comes 999 us into the next millisecond.
  const all = tokenBucket.take(first.state, limit, limit.capacity, 1999)
  expect(all.granted).toBe(limit.capacity)
  expect(tokenBucket.take(all.state, limit, 1, 2998).granted).toBe(0)
  expect(tokenBucket.take(all.state, limit, 1, 2999).granted).toBe(1)
})
