/** A batch as the bytes of one Redis command, which client libraries write unchanged. */
import type { RedisCommand } from '../connection/driver.js'
import type { BatchScript } from './batch-scripts.js'

const SIZE_AT_FIRST = 16_384
const DIGITS_MAX = 16
const HEX = Buffer.from('0123456789abcdef')
const STAR = 42
const DOLLAR = 36
const CR = 13
const LF = 10
const ZERO = 48

/** A batch, ready to be sent. */
export interface EncodedBatch {
  /** Calls the script by its hash. */
  readonly command: RedisCommand
  /** The same with the source of the script, for a Redis that has not loaded it. */
  readonly fallback: RedisCommand
}

/** Writes one command after another into the same memory. */
export class CommandWriter {
  #bytes = Buffer.allocUnsafe(SIZE_AT_FIRST)
  #end = 0

  start(script: BatchScript, words: number): void {
    this.#end = 0
    this.reserve(script.byHash.length + DIGITS_MAX)
    this.header(STAR, words)
    this.#bytes.set(script.byHash, this.#end)
    this.#end += script.byHash.length
  }

  /** Writes a decimal number as one argument. */
  number(value: number): void {
    this.reserve(2 * DIGITS_MAX)
    this.header(DOLLAR, digitsOf(value))
    this.digits(value)
    this.lineEnd()
  }

  bytes(word: Uint8Array): void {
    this.reserve(word.length + DIGITS_MAX)
    this.header(DOLLAR, word.length)
    this.#bytes.set(word, this.#end)
    this.#end += word.length
    this.lineEnd()
  }

  /** Writes an argument of which `head` has all but the last digits, its length included. */
  hex(head: Uint8Array, value: number, digits: number): void {
    this.reserve(head.length + digits + 2)
    this.#bytes.set(head, this.#end)
    this.#end += head.length
    this.hexDigits(value, digits)
    this.lineEnd()
  }

  /** The same with the 16 hex digits of two numbers. */
  hex64(head: Uint8Array, hi: number, lo: number): void {
    this.reserve(head.length + 18)
    this.#bytes.set(head, this.#end)
    this.#end += head.length
    this.hexDigits(hi, 8)
    this.hexDigits(lo, 8)
    this.lineEnd()
  }

  /** Returns a copy of the written bytes, which the batch keeps. */
  finish(): Buffer {
    const bytes = Buffer.allocUnsafe(this.#end)
    this.#bytes.copy(bytes, 0, 0, this.#end)
    return bytes
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

/** A batch and its own command in one object, because most batches need nothing else. */
export class BatchCommand implements EncodedBatch, RedisCommand {
  readonly #bytes: Buffer
  readonly #script: BatchScript

  /** `bytes` is the command that calls the script by its hash. */
  constructor(bytes: Buffer, script: BatchScript) {
    this.#bytes = bytes
    this.#script = script
  }

  get command(): RedisCommand {
    return this
  }

  get fallback(): RedisCommand {
    const bytes = this.withSource()
    return { bytes: () => bytes, words: () => wordsOf(bytes) }
  }

  bytes(): Uint8Array {
    return this.#bytes
  }

  words(): readonly Buffer[] {
    return wordsOf(this.#bytes)
  }

  private withSource(): Buffer {
    const { byHash, source } = this.#script
    const head = this.#bytes.indexOf(LF) + 1
    const bySource = `$4\r\nEVAL\r\n$${Buffer.byteLength(source)}\r\n${source}\r\n`
    const rest = this.#bytes.subarray(head + byHash.length)
    return Buffer.concat([this.#bytes.subarray(0, head), Buffer.from(bySource), rest])
  }
}

/** Splits a command into its arguments, for clients that encode commands themselves. */
function wordsOf(command: Buffer): readonly Buffer[] {
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
