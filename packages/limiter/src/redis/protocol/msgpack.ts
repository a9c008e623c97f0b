/**
 * Whole numbers in MessagePack, and nothing else: the requests and replies of a batch. All stay
 * within 2^53, so none loses a digit, neither here nor in Lua.
 */
import { SluiceError } from '@sluice/core'

const SIZE_AT_FIRST = 4096
/** The most bytes of one number. */
const NUMBER_BYTES = 9
/** The type byte of an array and its length. */
const ARRAY_BYTES = 5
/** Lua returns at most 8,000 values at once, which costs it half as much as an array. */
const FLAT_MAX = 4000
const WORD = 2 ** 32
/** The least number that is one byte. */
const NEGATIVE_BYTE_MIN = -32

/** Writes one list of numbers after another into the same memory. */
export class NumberWriter {
  #bytes = Buffer.allocUnsafe(SIZE_AT_FIRST)
  #end = ARRAY_BYTES
  #count = 0

  start(): void {
    this.#end = ARRAY_BYTES
    this.#count = 0
  }

  /** `value` must be whole and from -2^53 to 2^53. */
  write(value: number): void {
    if (this.#end + NUMBER_BYTES > this.#bytes.length) this.grow(NUMBER_BYTES)
    const bytes = this.#bytes
    const end = this.#end
    this.#count += 1
    if (value < 0x80) {
      // A byte holds the small ones in two's complement, as the format does.
      if (value >= NEGATIVE_BYTE_MIN) {
        bytes[end] = value
        this.#end = end + 1
      } else this.writeNegative(end, value)
    } else if (value < 0x100) {
      bytes[end] = 0xcc
      bytes[end + 1] = value
      this.#end = end + 2
    } else if (value < 0x10000) {
      bytes[end] = 0xcd
      bytes[end + 1] = value >>> 8
      bytes[end + 2] = value
      this.#end = end + 3
    } else if (value < WORD) {
      bytes[end] = 0xce
      this.word(end + 1, value)
      this.#end = end + 5
    } else {
      bytes[end] = 0xcf
      this.word(end + 1, Math.floor(value / WORD))
      this.word(end + 5, value % WORD)
      this.#end = end + 9
    }
  }

  /** Appends numbers that another writer encoded. */
  append(numbers: Uint8Array, count: number): void {
    if (this.#end + numbers.length > this.#bytes.length) this.grow(numbers.length)
    this.#bytes.set(numbers, this.#end)
    this.#end += numbers.length
    this.#count += count
  }

  /**
   * Returns the numbers one after the other, or as an array if they are many. Valid until the next
   * list.
   */
  finish(): Uint8Array {
    if (this.#count <= FLAT_MAX) return this.#bytes.subarray(ARRAY_BYTES, this.#end)
    this.#bytes[0] = 0xdd
    this.word(1, this.#count)
    return this.#bytes.subarray(0, this.#end)
  }

  private writeNegative(at: number, value: number): void {
    const high = Math.floor(value / WORD)
    this.#bytes[at] = 0xd3
    this.word(at + 1, high)
    this.word(at + 5, value - high * WORD)
    this.#end = at + NUMBER_BYTES
  }

  private word(at: number, value: number): void {
    const bytes = this.#bytes
    bytes[at] = value >>> 24
    bytes[at + 1] = value >>> 16
    bytes[at + 2] = value >>> 8
    bytes[at + 3] = value
  }

  private grow(more: number): void {
    const grown = Buffer.allocUnsafe(2 * (this.#bytes.length + more))
    grown.set(this.#bytes)
    this.#bytes = grown
  }
}

/**
 * Reads whole numbers, in one array or one after the other. Throws STORE_FAILED for anything else.
 */
export class NumberReader {
  readonly #bytes: Uint8Array
  #at = 0
  #isArray = true
  #left: number

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
    this.#left = this.readLength()
  }

  /** An upper bound of the numbers that are still to be read. */
  get left(): number {
    return this.#left
  }

  /** Reads a whole number; those of the script are exact. */
  read(): number {
    if (this.#left <= 0) throw malformed('too few numbers')
    this.#left -= 1
    const mark = this.byte()
    if (mark < 0x80) return mark
    if (mark >= 0xe0) return mark - 0x100
    return this.readWide(mark)
  }

  /** Reads a whole number that is not below 0. */
  readCount(): number {
    const value = this.read()
    if (value < 0) throw malformed(`the number ${value}`)
    return value
  }

  finish(): void {
    if (this.#isArray && this.#left > 0) throw malformed('too many numbers')
    if (this.#at < this.#bytes.length) throw malformed('bytes after its numbers')
  }

  /** The count of numbers without an array is unknown, but each takes at least a byte. */
  private readLength(): number {
    const mark = this.byte()
    if (mark < 0x80) {
      this.#at = 0
      this.#isArray = false
      return this.#bytes.length
    }
    if (mark >= 0x90 && mark <= 0x9f) return mark - 0x90
    if (mark === 0xdc) return this.unsigned(2)
    if (mark === 0xdd) return this.unsigned(4)
    throw malformed('no array of numbers')
  }

  private readWide(mark: number): number {
    if (mark === 0xcc) return this.byte()
    if (mark === 0xcd) return this.unsigned(2)
    if (mark === 0xce) return this.unsigned(4)
    if (mark === 0xcf) return this.unsigned(4) * WORD + this.unsigned(4)
    if (mark === 0xd0) return (this.byte() << 24) >> 24
    if (mark === 0xd1) return (this.unsigned(2) << 16) >> 16
    if (mark === 0xd2) return this.unsigned(4) | 0
    if (mark === 0xd3) return (this.unsigned(4) | 0) * WORD + this.unsigned(4)
    throw malformed(`the type byte ${mark}`)
  }

  private unsigned(size: 2 | 4): number {
    const high = this.byte() * 256 + this.byte()
    return size === 2 ? high : high * 65_536 + this.byte() * 256 + this.byte()
  }

  private byte(): number {
    const byte = this.#bytes[this.#at]
    if (byte === undefined) throw malformed('an array that ends early')
    this.#at += 1
    return byte
  }
}

export function malformed(found: string): SluiceError {
  return new SluiceError(
    'STORE_FAILED',
    `The reply of Redis to a batch has ${found}; expected: one array of whole numbers, as its script sends`,
  )
}
