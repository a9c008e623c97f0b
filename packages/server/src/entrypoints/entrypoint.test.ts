import { callerHash, formatHash, sipKey } from '@sluice/core'
import { expect, test } from 'vitest'
import { addressDescriber } from './entrypoint.js'

const SECRET = new Uint8Array(16).fill(7)

test('an address is logged by the hash that refusals by ip name it by', () => {
  const describe = addressDescriber('hash', SECRET)
  expect(describe('192.0.2.1')).toBe(formatHash(callerHash(sipKey(SECRET), ['192.0.2.1'])))
})

test('an address is logged in clear text if callers are', () => {
  expect(addressDescriber('clear', SECRET)('2001:db8::/64')).toBe('2001:db8::/64')
})
