import { describe, expect, test } from 'vitest'
import {
  boardKeyText,
  counterKeyText,
  hashKeyText,
  probeKey,
  requirePrefix,
  storeKeys,
} from './redis-keys.js'

const key = { hi: -1, lo: 0x0abc_def0, partition: 3 }

test('the key of a counter consists of the prefix, the tag of its partition and its hash', () => {
  expect(counterKeyText('sluice', '5n3', key)).toBe('sluice:{5n3}:ffffffff0abcdef0')
})

test('the packed layout has 1,024 hashes per partition, chosen by 10 bits of the hash', () => {
  expect(hashKeyText('sluice', '5n3', key)).toBe('sluice:{5n3}:p2f0')
  expect(hashKeyText('sluice', '5n3', { ...key, lo: 0 })).toBe('sluice:{5n3}:p000')
  expect(hashKeyText('sluice', '5n3', { ...key, lo: -1 })).toBe('sluice:{5n3}:p3ff')
})

test('other keys have names too, in a slot apart from counters', () => {
  expect(storeKeys('a')).toEqual({
    secret: 'a:{home}:secret',
    fingerprint: 'a:{home}:secret-fingerprint',
    fleet: 'a:{home}:fleet',
    places: 'a:{home}:places',
  })
  expect(boardKeyText('a', '01ab')).toBe('a:{home}:board:01ab')
  expect(probeKey('a', '5n3')).toBe('a:{5n3}:probe')
})

describe('a prefix', () => {
  test.each(['sluice', 'a', 'shop:eu-1_test.2', 'x'.repeat(64)])('accepts %s', (prefix) => {
    expect(requirePrefix(prefix)).toBe(prefix)
  })

  test.each(['', 'x'.repeat(65), 'a b', 'a{b}', 'ä', 'a\n', 'a*'])('refuses %j', (prefix) => {
    expect(() => requirePrefix(prefix)).toThrow(
      /^prefix: found .*; accepted: 1 to 64 of the characters A-Z a-z 0-9 : _ \. -$/,
    )
  })
})
