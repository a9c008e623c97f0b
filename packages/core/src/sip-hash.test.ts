import { describe, expect, test } from 'vitest'
import fc from 'fast-check'
import { hashTexts, sipHash13, sipKey } from './sip-hash.js'

const zeroKey = sipKey(new Uint8Array(16))
const hex = ({ hi, lo }: { hi: number; lo: number }) =>
  [hi, lo].map((half) => (half >>> 0).toString(16).padStart(8, '0')).join('')

/** Frames bytes as SipHash does: little-endian words, the last with the length in its top byte. */
function frame(bytes: Uint8Array): { message: Int32Array; count: number } {
  const count = (bytes.length >> 3) + 1
  const padded = new Uint8Array(count * 8)
  padded.set(bytes)
  padded[count * 8 - 1] = bytes.length
  return { message: new Int32Array(padded.buffer), count }
}

describe('SipHash-1-3', () => {
  // Computed with the SipHash-1-3 of Rust's standard library, key 0, bytes 0, 1, 2, ...
  test.each([
    [0, 'd1fba762150c532c'],
    [1, '68a914128e01e473'],
    [7, '2f098ab0c751325a'],
    [8, 'ead411e67ebe2eea'],
    [15, 'f30eb725bb91c9ea'],
    [16, '8972188433a5c5b7'],
    [19, '091f4a3329f87d19'],
  ])('of %i bytes equals the published hash', (length, expected) => {
    const { message, count } = frame(Uint8Array.from({ length }, (_, i) => i))
    expect(hex(sipHash13(zeroKey, message, count))).toBe(expected)
  })

  test('depends on every word of the key', () => {
    const hashes = Array.from({ length: 16 }, (_, i) => {
      const bytes = new Uint8Array(16)
      bytes[i] = 1
      return hex(hashTexts(sipKey(bytes), ['u1']))
    })
    expect(new Set(hashes).size).toBe(16)
  })
})

describe('hashTexts', () => {
  test('distinguishes lists that are equal when joined', () => {
    const lists = [['a_b', 'c'], ['a', 'b_c'], ['a_b_c'], ['', 'a_b_c'], ['a_b_c', ''], [], ['']]
    expect(new Set(lists.map((texts) => hex(hashTexts(zeroKey, texts)))).size).toBe(lists.length)
  })

  test('distinguishes narrow and wide texts, and accepts lone surrogates', () => {
    const texts = ['ab', 'a\u0100', '\u6261', '\ud800', '\udc00', '\ud800\udc00', 'a\u0000', 'a']
    expect(new Set(texts.map((text) => hex(hashTexts(zeroKey, [text])))).size).toBe(texts.length)
  })

  test('gives different texts different hashes, and equal ones the same', () => {
    const units = fc.string({ unit: 'binary', maxLength: 40 })
    fc.assert(
      fc.property(fc.array(units), fc.array(units), (a, b) => {
        const same = JSON.stringify(a) === JSON.stringify(b)
        expect(hex(hashTexts(zeroKey, a)) === hex(hashTexts(zeroKey, b))).toBe(same)
      }),
    )
  })

  test('accepts texts longer than its buffer', () => {
    const long = 'x'.repeat(100_000)
    expect(hex(hashTexts(zeroKey, [long]))).not.toBe(hex(hashTexts(zeroKey, [`${long}x`])))
  })
})
