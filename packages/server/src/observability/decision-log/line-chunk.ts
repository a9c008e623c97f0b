/** A buffer of lines, filled byte by byte without allocating a string for each line. */
import type { Hash64 } from '@sluice/core'

const CHUNK_BYTES = 64 * 1024

const ZERO = 0x30
const DIGITS_MAX = 16
/** The code of each hex digit. */
const HEX = Uint8Array.from('0123456789abcdef', (digit) => digit.charCodeAt(0))

/** What to do with the file before the chunk is written. */
export type FileAction = 'nothing' | 'rotate' | 'reopen'

export class LineChunk {
  fileAction: FileAction = 'nothing'
  lines = 0
  readonly #bytes = Buffer.allocUnsafe(CHUNK_BYTES)
  /** The digits of a number, in reverse. */
  readonly #digits = new Uint8Array(DIGITS_MAX)
  #length = 0

  get length(): number {
    return this.#length
  }

  /** The content; valid until it is cleared. */
  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length)
  }

  /** Must be checked before anything is appended. */
  hasRoom(bytes: number): boolean {
    return CHUNK_BYTES - this.#length >= bytes
  }

  clear(): void {
    this.fileAction = 'nothing'
    this.lines = 0
    this.#length = 0
  }

  /** Appends Latin-1 text: heads and rule ids contain nothing else. */
  appendText(text: string): void {
    this.#length += this.#bytes.write(text, this.#length, 'latin1')
  }

  appendByte(code: number): void {
    this.#bytes[this.#length++] = code
  }

  /** A whole number from 0 to 2^53-1, in decimal digits. */
  appendNumber(number: number): void {
    if (number < 10) return this.appendByte(ZERO + number)
    const digits = this.#digits
    let count = 0
    for (let rest = number; rest > 0; rest = Math.floor(rest / 10)) {
      digits[count++] = ZERO + (rest % 10)
    }
    while (count > 0) this.appendByte(digits[--count] ?? ZERO)
  }

  /** 16 hex digits. */
  appendHash({ hi, lo }: Hash64): void {
    for (let shift = 28; shift >= 0; shift -= 4) this.appendByte(HEX[(hi >>> shift) & 15] ?? ZERO)
    for (let shift = 28; shift >= 0; shift -= 4) this.appendByte(HEX[(lo >>> shift) & 15] ?? ZERO)
  }
}
