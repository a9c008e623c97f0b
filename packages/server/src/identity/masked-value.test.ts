import { describe, expect, test } from 'vitest'
import { maskValue, maskingKey, createSecretMasker } from './masked-value.js'

const secret = Uint8Array.from({ length: 16 }, (_, at) => at)
const key = maskingKey(secret)

describe('the masked form of a secret', () => {
  test('is stable: the same secret and value give the same caller in every version', () => {
    expect(maskValue(key, 'api_key', 'sk_live_0123456789wxyz')).toBe('2f95d11b39bbb6b6..wxyz')
  })

  test('shows the last four characters from 16 characters on, and none below', () => {
    expect(maskValue(key, 'api_key', '0123456789abcdef')).toMatch(/^[0-9a-f]{16}\.\.cdef$/)
    expect(maskValue(key, 'api_key', '0123456789abcde')).toMatch(/^[0-9a-f]{16}\.\.$/)
  })

  test('differs by attribute, by value and by secret', () => {
    const forms = [
      maskValue(key, 'a', 'bc'),
      maskValue(key, 'ab', 'c'),
      maskValue(key, 'a', 'bd'),
      maskValue(maskingKey(new Uint8Array(16)), 'a', 'bc'),
    ]
    expect(new Set(forms).size).toBe(forms.length)
  })

  test('needs a hash secret of 16 bytes', () => {
    expect(() => maskingKey(new Uint8Array(15))).toThrow('16 bytes')
  })
})

describe('attributes sent to the decision API', () => {
  const hide = createSecretMasker(secret, ['api_key', 'tenant'])

  test('are masked like those of other entry points, and public ones stay', () => {
    const attributes = { api_key: 'sk_live_0123456789wxyz', user: 'u1', tenant: 7 }
    const hidden = hide(attributes)
    expect(hidden).toEqual({
      api_key: maskValue(key, 'api_key', 'sk_live_0123456789wxyz'),
      user: 'u1',
      tenant: maskValue(key, 'tenant', '7'),
    })
    // The masked form, as copied from a log, stays unchanged.
    expect(hide(hidden)).toBe(hidden)
    expect(attributes.api_key).toBe('sk_live_0123456789wxyz')
  })

  test('are passed on unchanged if none is secret', () => {
    const attributes = { user: 'u1', api_key: '' }
    expect(hide(attributes)).toBe(attributes)
  })
})
