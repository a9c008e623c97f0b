import { describe, expect, test } from 'vitest'
import { decodeHuffman, huffmanBytesMax } from './huffman.js'

function decode(hex: string): string | undefined {
  const bytes = Buffer.from(hex.replaceAll(' ', ''), 'hex')
  const target = Buffer.alloc(huffmanBytesMax(bytes.length))
  const length = decodeHuffman(bytes, 0, bytes.length, target)
  return length < 0 ? undefined : target.toString('latin1', 0, length)
}

describe('Huffman code', () => {
  test.each([
    ['f1e3 c2e5 f23a 6ba0 ab90 f4ff', 'www.example.com'],
    ['a8eb 1064 9cbf', 'no-cache'],
    ['25a8 49e9 5ba9 7d7f', 'custom-key'],
    ['25a8 49e9 5bb8 e8b4 bf', 'custom-value'],
    ['6402', '302'],
    ['aec3 771a 4b', 'private'],
    ['d07a be94 1054 d444 a820 0595 040b 8166 e082 a62d 1bff', 'Mon, 21 Oct 2013 20:13:21 GMT'],
    ['9d29 ad17 1863 c78f 0b97 c8e9 ae82 ae43 d3', 'https://www.example.com'],
    ['640e ff', '307'],
    ['9bd9 ab', 'gzip'],
    ['', ''],
  ])('decodes %s of RFC 7541 to "%s"', (hex, text) => {
    expect(decode(hex)).toBe(text)
  })

  test('refuses padding that has a zero', () => {
    // "a" is 00011; then 110 instead of 111.
    expect(decode('1f')).toBe('a')
    expect(decode('1e')).toBeUndefined()
  })

  test('refuses padding of a whole byte', () => {
    expect(decode('1f ff')).toBeUndefined()
  })

  test('refuses the end of a string within the string', () => {
    expect(decode('ffff ffff')).toBeUndefined()
    expect(decode('1fff ffff ff')).toBeUndefined()
  })

  test('refuses a code that is not complete', () => {
    // The first byte of the 28 bits of a control character.
    expect(decode('ff ff')).toBeUndefined()
  })
})
