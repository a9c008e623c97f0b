/**
 * Reads requests of the Redis protocol from a connection: arrays of byte strings (RESP2). What a
 * peer may send is bounded; anything else is an error, after which the connection must be closed.
 */

/** A request of this many arguments holds a batch, its limits and what may be added to it. */
const WORDS_MAX = 16
/** Digits of the largest length that is accepted, and of its sign. */
const DIGITS_MAX = 9
const STAR = 42
const DOLLAR = 36
const CR = 13
const ZERO = 48
const NINE = 57

/** The bytes are no request, or a larger one than is accepted. */
export class RequestError extends Error {
  override readonly name = 'RequestError'
}

export class RequestReader {
  readonly #bytesMax: number
  #bytes: Buffer = Buffer.alloc(0)
  #at = 0

  /** `bytesMax` bounds one request, so also what is kept of an unfinished one. */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** Adds bytes as they arrive. */
  push(chunk: Buffer): void {
    const rest = this.#bytes.subarray(this.#at)
    this.#bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    this.#at = 0
  }

  /** The next whole request; undefined if more bytes are needed. Throws RequestError. */
  next(): readonly Buffer[] | undefined {
    const start = this.#at
    const words = this.readWords()
    if (words !== undefined) return words
    this.#at = start
    if (this.#bytes.length - start > this.#bytesMax) throw new RequestError('A request is too long')
    return undefined
  }

  private readWords(): readonly Buffer[] | undefined {
    const count = this.readLength(STAR)
    if (count === undefined) return undefined
    if (count === 0 || count > WORDS_MAX) throw new RequestError(`A request of ${count} words`)
    const words: Buffer[] = []
    let total = 0
    for (let i = 0; i < count; i++) {
      const length = this.readLength(DOLLAR)
      if (length === undefined) return undefined
      total += length
      if (total > this.#bytesMax) throw new RequestError('A request is too long')
      const end = this.#at + length
      if (end + 2 > this.#bytes.length) return undefined
      if (this.#bytes[end] !== CR) throw new RequestError('A word is longer than it says')
      words.push(this.#bytes.subarray(this.#at, end))
      this.#at = end + 2
    }
    return words
  }

  /** Reads a mark and the number after it. */
  private readLength(mark: number): number | undefined {
    const bytes = this.#bytes
    if (this.#at >= bytes.length) return undefined
    if (bytes[this.#at] !== mark) throw new RequestError('Bytes that are no request')
    let value = 0
    for (let at = this.#at + 1; at < bytes.length; at++) {
      const byte = bytes[at] ?? 0
      if (byte === CR) {
        if (at + 1 >= bytes.length) return undefined
        if (at === this.#at + 1) throw new RequestError('A length without digits')
        this.#at = at + 2
        return value
      }
      if (byte < ZERO || byte > NINE || at - this.#at > DIGITS_MAX) {
        throw new RequestError('A length that is no number')
      }
      value = value * 10 + (byte - ZERO)
    }
    return undefined
  }
}
