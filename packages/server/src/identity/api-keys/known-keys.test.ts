import { describe, expect, test } from 'vitest'
import { keyHash, keyId, sha256Of } from '../../rules/store/key-hash.js'
import { knownKey } from '../identify.test-helper.js'
import { KnownKeys, RegisteredKeys } from './known-keys.js'

const SECRET = 'ab'.repeat(32)

function stored(key: string, user: string, id?: string) {
  const hash = keyHash(SECRET, sha256Of(key))
  const body = { hash, user, plan: 'pro', state: 'active', createdAt: '' } as const
  return { kind: 'key', id: id ?? keyId(hash), version: 2, body } as const
}

function registered(...records: readonly ReturnType<typeof stored>[]) {
  const keys = new RegisteredKeys()
  keys.begin()
  keys.receive(records)
  keys.end(SECRET)
  return keys
}

const userOf = (keys: RegisteredKeys, key: string) => new KnownKeys([], keys).find(key)?.user

describe('keys of a rule store', () => {
  test('are found by the key alone', () => {
    const keys = registered(stored('key-of-ann-0001', 'ann'))
    expect(new KnownKeys([], keys).find('key-of-ann-0001')).toMatchObject({
      user: 'ann',
      plan: 'pro',
      state: 'active',
    })
    expect(userOf(keys, 'key-of-ann-0002')).toBeUndefined()
  })

  test('are unknown at once after their removal, however they were named', () => {
    const odd = stored('key-of-bob-0001', 'bob', 'made-by-hand')
    const usual = stored('key-of-ann-0001', 'ann')
    const keys = registered(odd, usual)
    keys.receive([
      { ...odd, body: null },
      { ...usual, body: null },
    ])
    expect(userOf(keys, 'key-of-bob-0001')).toBeUndefined()
    expect(userOf(keys, 'key-of-ann-0001')).toBeUndefined()
    expect(keys.size).toBe(0)
  })

  test('are unknown once their name has another key', () => {
    const first = stored('key-of-ann-0001', 'ann')
    const keys = registered(first)
    keys.receive([stored('key-of-ann-0002', 'ann', first.id)])
    expect(userOf(keys, 'key-of-ann-0001')).toBeUndefined()
    expect(userOf(keys, 'key-of-ann-0002')).toBe('ann')
    keys.receive([{ ...first, body: null }])
    expect(userOf(keys, 'key-of-ann-0002')).toBeUndefined()
  })

  test('of a full read are not used before the read is complete', () => {
    const keys = registered(stored('key-of-ann-0001', 'ann'))
    keys.begin()
    keys.receive([stored('key-of-bob-0001', 'bob')])
    expect(userOf(keys, 'key-of-ann-0001')).toBe('ann')
    keys.abandon()
    expect(userOf(keys, 'key-of-bob-0001')).toBeUndefined()
    keys.begin()
    keys.receive([stored('key-of-bob-0001', 'bob')])
    keys.end(SECRET)
    expect(userOf(keys, 'key-of-ann-0001')).toBeUndefined()
    expect(userOf(keys, 'key-of-bob-0001')).toBe('bob')
  })

  test('do not override keys of the configuration', () => {
    const keys = registered(stored('key-of-ann-0001', 'ann'))
    const known = new KnownKeys([knownKey('key-of-ann-0001', { state: 'disabled' })], keys)
    expect(known.find('key-of-ann-0001')).toMatchObject({ state: 'disabled' })
  })
})
