/** A batch as the bytes of one Redis command, written by hand: clients write them as they are. */
import type { RedisCommand } from '../driver.js'
import { SCRIPT, SCRIPT_SHA } from './script.js'

const SIZE_AT_FIRST = 16_384
const DIGITS_MAX = 16
const HEX = Buffer.from('0123456789abcdef')
const CR = 13
const LF = 10
const ZERO = 48

const BY_SHA = Buffer.from(`$7\r\nEVALSHA\r\n$40\r\n${SCRIPT_SHA}\r\n`)
const BY_SOURCE = Buffer.from(`$4\r\nEVAL\r\n$${Buffer.byteLength(SCRIPT)}\r\n${SCRIPT}\r\n`)

/** A batch, ready to be sent. */
export interface EncodedBatch {
  /** By the script's hash. */
  readonly command: RedisCommand
  /** The same with the script itself, for a Redis that does not know it. */
  readonly fallback: RedisCommand
}

/** Writes one command after another into the same memory. */
export class CommandWriter {
  #bytes = Buffer.allocUnsafe(SIZE_AT_FIRST)
  #end = 0

  start(words: number): void {
    this.#end = 0
    this.reserve(BY_SHA.length + 2 * DIGITS_MAX)
    this.header(42, words)
    this.#bytes.set(BY_SHA, this.#end)
    this.#end += BY_SHA.length
  }

  /** A word of digits. */
  number(value: number): void {
    this.reserve(2 * DIGITS_MAX)
    this.header(36, digitsOf(value))
    this.digits(value)
    this.lineEnd()
  }

  bytes(word: Uint8Array): void {
    this.reserve(word.length + DIGITS_MAX)
    this.header(36, word.length)
    this.#bytes.set(word, this.#end)
    this.#end += word.length
    this.lineEnd()
  }

  /** A word of which `head` has all but the last digits, its length included. */
  hex(head: Uint8Array, value: number, digits: number): void {
    this.reserve(head.length + digits + 2)
    this.#bytes.set(head, this.#end)
    this.#end += head.length
    this.hexDigits(value, digits)
    this.lineEnd()
  }

  /** The same with 16 digits of two numbers. */
  hex64(head: Uint8Array, hi: number, lo: number): void {
    this.reserve(head.length + 18)
    this.#bytes.set(head, this.#end)
    this.#end += head.length
    this.hexDigits(hi, 8)
    this.hexDigits(lo, 8)
    this.lineEnd()
  }

  /** What was written, as a batch that keeps a copy of its own. */
  finish(): EncodedBatch {
    const bytes = Buffer.allocUnsafe(this.#end)
    bytes.set(this.#bytes.subarray(0, this.#end))
    return new Batch(bytes)
  }

  private header(mark: number, value: number): void {
    this.#bytes[this.#end] = mark
    this.#end += 1
    this.digits(value)
    this.lineEnd()
  }

  private digits(value: number): void {
    let at = this.#end + digitsOf(value)
    this.#end = at
    let rest = value
    do {
      at -= 1
      this.#bytes[at] = ZERO + (rest % 10)
      rest = Math.floor(rest / 10)
    } while (rest > 0)
  }

  private hexDigits(value: number, digits: number): void {
    const bytes = this.#bytes
    let end = this.#end
    for (let shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
      bytes[end] = HEX[(value >>> shift) & 15] ?? 0
      end += 1
    }
    this.#end = end
  }

  private lineEnd(): void {
    this.#bytes[this.#end] = CR
    this.#bytes[this.#end + 1] = LF
    this.#end += 2
  }

  private reserve(more: number): void {
    if (this.#end + more <= this.#bytes.length) return
    const grown = Buffer.allocUnsafe(2 * (this.#end + more))
    grown.set(this.#bytes.subarray(0, this.#end))
    this.#bytes = grown
  }
}

function digitsOf(value: number): number {
  let digits = 1
  for (let rest = value; rest >= 10; rest /= 10) digits += 1
  return digits
}

class Batch implements EncodedBatch {
  readonly #bytes: Buffer
  readonly command: RedisCommand
  readonly fallback: RedisCommand

  constructor(bytes: Buffer) {
    this.#bytes = bytes
    this.command = { bytes: () => this.#bytes, words: () => wordsOf(this.#bytes) }
    this.fallback = {
      bytes: () => this.withSource(),
      words: () => wordsOf(this.withSource()),
    }
  }

  private withSource(): Buffer {
    const head = this.#bytes.indexOf(LF) + 1
    const rest = this.#bytes.subarray(head + BY_SHA.length)
    return Buffer.concat([this.#bytes.subarray(0, head), BY_SOURCE, rest])
  }
}

/** The words of a command, for clients that write the bytes themselves. */
export function wordsOf(command: Buffer): readonly Buffer[] {
  const words: Buffer[] = []
  let at = command.indexOf(LF) + 1
  while (at < command.length) {
    const end = command.indexOf(LF, at)
    const from = end + 1
    const to = from + Number(command.toString('latin1', at + 1, end - 1))
    words.push(command.subarray(from, to))
    at = to + 2
  }
  return words
}
