/**
 * Writes protobuf messages into one growing buffer. Fields with the default value of proto3 are
 * left out, except where the presence of a message matters. Nested messages are written in place:
 * one byte is reserved for the length, which is enough below 128 bytes; a longer message is moved.
 */

const FIRST_BYTES = 512
/** Most bytes of a varint. */
const VARINT_BYTES_MAX = 10
const VARINT = 0
const FIXED64 = 1
const BYTES = 2
const UINT32_MAX = 2 ** 32 - 1
/** Text up to this length is written here, which takes less time than a call of Node's encoder. */
const SHORT_TEXT_MAX = 64

export class ProtoWriter {
  #buffer = Buffer.allocUnsafe(FIRST_BYTES)
  #at = 0

  /** Begins a message, whatever became of the last one. */
  start(): void {
    this.#at = 0
  }

  /** The bytes that were written since the start, as a copy. */
  finish(): Buffer {
    const message = Buffer.allocUnsafe(this.#at)
    this.#buffer.copy(message, 0, 0, this.#at)
    return message
  }

  /** A whole number from 0; values above 2^32 - 1 are written as 2^32 - 1. */
  uint32(field: number, value: number): void {
    if (value > 0) this.varintField(field, value > UINT32_MAX ? UINT32_MAX : value)
  }

  /** A whole number from 0 to 2^53 - 1. */
  uint64(field: number, value: number): void {
    if (value > 0) this.varintField(field, value)
  }

  bool(field: number, value: boolean): void {
    if (value) this.varintField(field, 1)
  }

  string(field: number, text: string): void {
    if (text !== '') this.presentString(field, text)
  }

  /** Text that is written even if it is empty: one of a `oneof`, or of a list. */
  presentString(field: number, text: string): void {
    const begun = this.begin(field)
    // UTF-8 has at most three bytes for each unit of UTF-16.
    this.reserve(3 * text.length)
    if (text.length > SHORT_TEXT_MAX || !this.writeAscii(text)) {
      this.#at += this.#buffer.write(text, this.#at, 'utf8')
    }
    this.end(begun)
  }

  bytes(field: number, bytes: Uint8Array): void {
    this.tag(field, BYTES)
    this.varint(bytes.length)
    this.reserve(bytes.length)
    this.#buffer.set(bytes, this.#at)
    this.#at += bytes.length
  }

  /** A number that is written even if it is 0: one of a `oneof`. */
  presentVarint(field: number, value: number): void {
    this.varintField(field, value)
  }

  presentDouble(field: number, value: number): void {
    this.tag(field, FIXED64)
    this.reserve(8)
    this.#at = this.#buffer.writeDoubleLE(value, this.#at)
  }

  /** Begins a message or text; returns what `end` needs. */
  begin(field: number): number {
    this.tag(field, BYTES)
    this.reserve(1)
    return ++this.#at
  }

  end(begun: number): void {
    const length = this.#at - begun
    if (length < 0x80) {
      this.#buffer[begun - 1] = length
      return
    }
    const extra = varintBytes(length) - 1
    this.reserve(extra)
    this.#buffer.copyWithin(begun + extra, begun, this.#at)
    const end = this.#at + extra
    this.#at = begun - 1
    this.varint(length)
    this.#at = end
  }

  /** False, and nothing is written, if the text has other characters. */
  private writeAscii(text: string): boolean {
    const buffer = this.#buffer
    const at = this.#at
    for (let i = 0; i < text.length; i++) {
      const unit = text.charCodeAt(i)
      if (unit > 0x7f) return false
      buffer[at + i] = unit
    }
    this.#at = at + text.length
    return true
  }

  private varintField(field: number, value: number): void {
    this.tag(field, VARINT)
    this.varint(value)
  }

  private tag(field: number, wireType: number): void {
    this.varint(field * 8 + wireType)
  }

  private varint(value: number): void {
    this.reserve(VARINT_BYTES_MAX)
    const buffer = this.#buffer
    let rest = value
    while (rest > 0x7f) {
      buffer[this.#at++] = (rest % 0x80) | 0x80
      rest = Math.floor(rest / 0x80)
    }
    buffer[this.#at++] = rest
  }

  private reserve(bytes: number): void {
    const needed = this.#at + bytes
    if (needed <= this.#buffer.length) return
    const larger = Buffer.allocUnsafe(Math.max(needed, 2 * this.#buffer.length))
    this.#buffer.copy(larger, 0, 0, this.#at)
    this.#buffer = larger
  }
}

function varintBytes(value: number): number {
  let bytes = 1
  for (let rest = value; rest > 0x7f; rest = Math.floor(rest / 0x80)) bytes++
  return bytes
}
