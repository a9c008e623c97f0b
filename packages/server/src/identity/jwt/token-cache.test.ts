import { expect, test } from 'vitest'
import { BAD_FOR_MS, BAD_MAX, GOOD_MAX, TokenCache } from './token-cache.js'

test('a verdict is valid until its expiry, and not at it', () => {
  const verdicts = new TokenCache<string, string>()
  verdicts.addGood('a', 'good', 100)
  verdicts.addBad('b', 'bad', 0)
  expect(verdicts.find('a', 99)).toBe('good')
  expect(verdicts.find('a', 100)).toBeUndefined()
  expect(verdicts.find('b', BAD_FOR_MS - 1)).toBe('bad')
  expect(verdicts.find('b', BAD_FOR_MS)).toBeUndefined()
  expect(verdicts.size).toBe(0)
})

test('the oldest verdicts are evicted from a full cache, and bad ones never evict good ones', () => {
  const verdicts = new TokenCache<string, string>()
  for (let i = 0; i <= GOOD_MAX; i++) verdicts.addGood(`good${i}`, 'good', 100)
  expect(verdicts.size).toBe(GOOD_MAX)
  expect(verdicts.find('good0', 0)).toBeUndefined()
  for (let i = 0; i < 10 * BAD_MAX; i++) verdicts.addBad(`bad${i}`, 'bad', 0)
  expect(verdicts.size).toBe(GOOD_MAX + BAD_MAX)
  expect(verdicts.find('good1', 0)).toBe('good')
  expect(verdicts.find(`bad${10 * BAD_MAX - 1}`, 0)).toBe('bad')
})
