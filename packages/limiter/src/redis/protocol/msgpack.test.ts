import { describe, expect, test } from 'vitest'
import { NumberReader, NumberWriter } from './msgpack.js'

const EDGES = [7, 8, 15, 16, 31, 32, 52, 53].flatMap((bits) => [2 ** bits - 1, 2 ** bits])
const NEGATIVE = [-1, -2, -32, -33, -128, -129, -(2 ** 31), -(2 ** 32), -(2 ** 53 - 1)]
const NUMBERS = [0, 1, ...EDGES, 1_700_000_000_123_456, ...NEGATIVE]

/** An array of the written numbers; the numbers themselves are stored one after the other. */
function arrayOf(numbers: readonly number[]): Uint8Array {
  const writer = new NumberWriter()
  writer.start()
  for (const number of numbers) writer.write(number)
  const head = Buffer.from([0xdc, numbers.length >>> 8, numbers.length & 255])
  return Buffer.concat([head, writer.finish()])
}

function read(bytes: Uint8Array, count: number): readonly number[] {
  const reader = new NumberReader(bytes)
  const numbers = Array.from({ length: count }, () => reader.read())
  reader.finish()
  return numbers
}

test('every number is read as it was written', () => {
  expect(read(arrayOf(NUMBERS), NUMBERS.length)).toEqual(NUMBERS)
})

test('numbers one after the other are read like an array of them', () => {
  const writer = new NumberWriter()
  writer.start()
  for (const number of NUMBERS) writer.write(number)
  expect(read(writer.finish(), NUMBERS.length)).toEqual(NUMBERS)
})

test('a number takes no more bytes than necessary', () => {
  const sizes = [0, 127, 128, 255, 256, 65_535, 65_536, 2 ** 32 - 1, 2 ** 32].map((number) => {
    const writer = new NumberWriter()
    writer.start()
    writer.write(number)
    return writer.finish().length
  })
  expect(sizes).toEqual([1, 1, 2, 2, 3, 3, 5, 5, 9])
})

test('negative numbers are read in every width', () => {
  const bytes = Buffer.from(
    `96 ff e0 d0df d1ff7f d2ffff7fff d3ffffffff7fffffff`.replaceAll(' ', ''),
    'hex',
  )
  expect(read(bytes, 6)).toEqual([-1, -32, -33, -129, -32_769, -2_147_483_649])
})

test('many numbers make one array, and memory grows as needed', () => {
  const writer = new NumberWriter()
  writer.start()
  for (let n = 0; n < 5000; n++) writer.write(2 ** 40 + n)
  const bytes = writer.finish()
  expect(bytes.subarray(0, 5)).toEqual(Buffer.from('dd00001388', 'hex'))
  expect(read(bytes, 5000).at(-1)).toBe(2 ** 40 + 4999)
})

describe('anything but an array of whole numbers is refused', () => {
  test.each([
    ['', 'an array that ends early'],
    ['0101', 'bytes after its numbers'],
    ['01cd01', 'bytes after its numbers'],
    ['a3616263', 'no array of numbers'],
    ['92', 'an array that ends early'],
    ['91cd01', 'an array that ends early'],
    ['91cb3ff0000000000000', 'the type byte 203'],
    ['91c0', 'the type byte 192'],
    ['910102', 'bytes after its numbers'],
    ['920102', 'too many numbers'],
    ['90', 'too few numbers'],
  ])('%s', (hex, found) => {
    expect(() => read(Buffer.from(hex, 'hex'), 1)).toThrow(
      expect.objectContaining({ code: 'STORE_FAILED', message: expect.stringContaining(found) }),
    )
  })
})
