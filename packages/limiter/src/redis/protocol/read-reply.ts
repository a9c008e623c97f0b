/**
 * Reads replies of the Redis protocol (RESP2) from a connection without a client library, such as
 * one to a peer of a ring.
 */
import { type RedisReply, RedisReplyError } from '../connection/driver.js'

/** A reply to a batch has 20 KB; a snapshot of statistics has the most, some MB. */
const BYTES_MAX = 64 * 1024 * 1024
/** The most elements of an array; a reply to TIME has two. */
const ELEMENTS_MAX = 1024
const LINE_LENGTH_MAX = 65_536
const LF = 10

/** Nothing has a value yet: the rest of the reply has not arrived. */
const INCOMPLETE = Symbol('incomplete')

export class ReplyReader {
  #bytes: Buffer = Buffer.alloc(0)
  #at = 0

  push(chunk: Buffer): void {
    const rest = this.#bytes.subarray(this.#at)
    this.#bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    this.#at = 0
  }

  /** The next whole reply; undefined if more bytes are needed. Throws if the bytes are no reply. */
  next(): RedisReply | RedisReplyError | undefined {
    const start = this.#at
    const reply = this.read(0)
    if (reply !== INCOMPLETE) return reply
    this.#at = start
    if (this.#bytes.length - start > BYTES_MAX) throw new Error('A reply is too long')
    return undefined
  }

  private read(depth: number): RedisReply | RedisReplyError | typeof INCOMPLETE {
    const line = this.readLine()
    if (line === undefined) return INCOMPLETE
    const text = line.slice(1)
    switch (line.charAt(0)) {
      case '+':
        return Buffer.from(text)
      case '-':
        return new RedisReplyError(text)
      case ':':
        return readNumber(text, Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)
      case '$':
        return this.readBytes(readNumber(text, -1, BYTES_MAX))
      case '*':
        return this.readArray(readNumber(text, 0, ELEMENTS_MAX), depth)
      default:
        throw new Error('Bytes that are no reply')
    }
  }

  private readBytes(length: number): Buffer | null | typeof INCOMPLETE {
    if (length === -1) return null
    const end = this.#at + length
    if (end + 2 > this.#bytes.length) return INCOMPLETE
    const bytes = this.#bytes.subarray(this.#at, end)
    this.#at = end + 2
    return bytes
  }

  private readArray(count: number, depth: number): RedisReply | typeof INCOMPLETE {
    if (depth > 0) throw new Error('A reply that is nested too deeply')
    const elements: RedisReply[] = []
    for (let i = 0; i < count; i++) {
      const element = this.read(depth + 1)
      if (element === INCOMPLETE) return INCOMPLETE
      if (element instanceof RedisReplyError) throw new Error('An error inside of a reply')
      elements.push(element)
    }
    return elements
  }

  private readLine(): string | undefined {
    const end = this.#bytes.indexOf(LF, this.#at)
    if (end === -1 || end - this.#at > LINE_LENGTH_MAX) {
      if (this.#bytes.length - this.#at > LINE_LENGTH_MAX) throw new Error('A line is too long')
      return undefined
    }
    const line = this.#bytes.toString('utf8', this.#at, end - 1)
    this.#at = end + 1
    return line
  }
}

function readNumber(text: string, least: number, most: number): number {
  const value = /^-?\d{1,16}$/.test(text) ? Number(text) : NaN
  if (value >= least && value <= most) return value
  throw new Error('A number of a reply is out of bounds')
}
