/**
 * Reads the fields of one protobuf message, and of the messages inside it, from bytes of a client.
 *
 * A reader stands at a position before an end. `nextField` reads the number and type of a field;
 * the caller then reads its value or skips it. Every read checks the end, so no length that a
 * client claims is believed, and nothing is allocated but the texts.
 */
import { AsciiTexts } from './ascii-texts.js'

/** The bytes are not a message of the expected type. */
export class ProtoError extends Error {
  override readonly name = 'ProtoError'
}

/** The wire type of a field, the low three bits of its tag. */
export const VARINT = 0
export const FIXED64 = 1
export const BYTES = 2
const FIXED32 = 5

const WIRE_TYPE_BITS = 3
const WIRE_TYPE_MASK = 7
/** A varint of 64 bits has ten bytes, and only the lowest bit of the last one. */
const VARINT_BYTES_MAX = 10
const LAST_BYTE_MAX = 1
const TWO_TO_32 = 2 ** 32
/** Text up to this length is checked and decoded byte by byte, which is faster for short texts. */
const SHORT_TEXT_MAX = 24

const asciiTexts = new AsciiTexts()
const HASH_FACTOR = 31
const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

export class ProtoReader {
  readonly #bytes: Uint8Array
  #at = 0
  #end: number
  /** The upper half of the last varint. */
  #high = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
    this.#end = bytes.length
  }

  /**
   * The tag of the next field: its number times 8 plus its wire type. 0 at the end of the message.
   * Groups, which no message of this server has and proto3 cannot define, are refused.
   */
  nextTag(): number {
    if (this.#at === this.#end) return 0
    const tag = this.varintLow()
    if (this.#high !== 0 || tag >>> WIRE_TYPE_BITS === 0) throw new ProtoError('bad field number')
    return tag
  }

  skip(tag: number): void {
    const wireType = tag & WIRE_TYPE_MASK
    if (wireType === VARINT) this.varintLow()
    else if (wireType === BYTES) this.#at = this.endOfBytes()
    else if (wireType === FIXED64) this.advance(8)
    else if (wireType === FIXED32) this.advance(4)
    else throw new ProtoError(`wire type ${wireType} is not supported`)
  }

  /** The low 32 bits, as for every larger number in a field of this type. */
  uint32(): number {
    return this.varintLow()
  }

  /** Up to 2^53 - 1, which stands for all larger numbers. */
  uint64(): number {
    const low = this.varintLow()
    const value = this.#high * TWO_TO_32 + low
    return value > Number.MAX_SAFE_INTEGER ? Number.MAX_SAFE_INTEGER : value
  }

  bool(): boolean {
    const low = this.varintLow()
    return low !== 0 || this.#high !== 0
  }

  double(): number {
    const at = this.#at
    this.advance(8)
    const { buffer, byteOffset } = this.#bytes
    return new DataView(buffer, byteOffset + at, 8).getFloat64(0, true)
  }

  /** The bytes of this field, not copied. */
  bytes(): Uint8Array {
    const end = this.endOfBytes()
    const at = this.#at
    this.#at = end
    return this.#bytes.subarray(at, end)
  }

  /** Text, which has to be UTF-8. */
  string(): string {
    const end = this.endOfBytes()
    const at = this.#at
    this.#at = end
    return end - at <= SHORT_TEXT_MAX ? this.shortText(at, end) : this.textOf(at, end)
  }

  /**
   * Enters the message in this field: reads stop at its end. Returns what `leave` needs to return
   * to the message around it.
   */
  enter(): number {
    const outer = this.#end
    this.#end = this.endOfBytes()
    return outer
  }

  leave(outer: number): void {
    this.#end = outer
  }

  private shortText(from: number, to: number): string {
    const bytes = this.#bytes
    let hash = to - from
    let any = 0
    for (let at = from; at < to; at++) {
      const byte = bytes[at] ?? 0
      any |= byte
      hash = (Math.imul(hash, HASH_FACTOR) + byte) | 0
    }
    return any > 0x7f ? this.textOf(from, to) : asciiTexts.get(bytes, from, to, hash)
  }

  private textOf(from: number, to: number): string {
    try {
      return strictUtf8.decode(this.#bytes.subarray(from, to))
    } catch {
      throw new ProtoError('text is not UTF-8')
    }
  }

  /** Reads a length, and returns where the bytes end. */
  private endOfBytes(): number {
    const length = this.varintLow()
    const end = this.#at + length
    if (this.#high !== 0 || end > this.#end) throw new ProtoError('a field exceeds its message')
    return end
  }

  private advance(bytes: number): void {
    const to = this.#at + bytes
    if (to > this.#end) throw new ProtoError('a field exceeds its message')
    this.#at = to
  }

  /** Reads a varint; the upper half is in `#high`. */
  private varintLow(): number {
    const byte = this.#at < this.#end ? (this.#bytes[this.#at] ?? 0) : this.failAtEnd()
    if (byte < 0x80) {
      this.#at++
      this.#high = 0
      return byte
    }
    return this.longVarint()
  }

  private longVarint(): number {
    const bytes = this.#bytes
    let low = 0
    let high = 0
    for (let index = 0; index < VARINT_BYTES_MAX; index++) {
      if (this.#at === this.#end) this.failAtEnd()
      const byte = bytes[this.#at++] ?? 0
      if (index === VARINT_BYTES_MAX - 1 && byte > LAST_BYTE_MAX) break
      const bits = byte & 0x7f
      if (index < 4) low |= bits << (7 * index)
      else if (index === 4) {
        low |= bits << 28
        high = bits >>> 4
      } else high |= bits << (7 * index - 32)
      if (byte < 0x80) {
        this.#high = high >>> 0
        return low >>> 0
      }
    }
    throw new ProtoError('a number exceeds 64 bits')
  }

  private failAtEnd(): never {
    throw new ProtoError('the message ends within a field')
  }
}
