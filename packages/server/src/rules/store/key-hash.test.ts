import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { keyHash, sha256Of } from './key-hash.js'

test('the hash of a key is 64 hex digits that depend on the key and on the secret of the store', () => {
  const [one, other] = ['00'.repeat(32), '01'.repeat(32)]
  const sha256 = sha256Of('sk_live_1')
  const hash = keyHash(one, sha256)
  expect(hash).toMatch(/^[0-9a-f]{64}$/)
  expect(hash).not.toBe(sha256)
  expect(hash).not.toBe(keyHash(other, sha256))
  expect(hash).not.toBe(keyHash(one, sha256Of('sk_live_2')))
  expect(hash).toBe(keyHash(one, sha256.toUpperCase()))
})

test('sha256Of is the SHA-256 that may be sent instead of a key', () => {
  expect(sha256Of('ünï')).toBe(createHash('sha256').update('ünï').digest('hex'))
})
