import { Status, type GrpcStatus } from './status.js'
import { readUint32 } from '../frames.js'

/** The flag of compression and the length, which begin a message. */
export const PREFIX_BYTES = 5

/** What a request is refused for after its headers. */
export interface MessageProblem {
  readonly status: GrpcStatus
  readonly message: string
}

const COMPRESSED: MessageProblem = {
  status: Status.unimplemented,
  message: 'The message is compressed; only identity is supported.',
}
const BAD_FLAG: MessageProblem = {
  status: Status.internal,
  message: 'The compression flag of the message is neither 0 nor 1.',
}
const SECOND: MessageProblem = {
  status: Status.unimplemented,
  message: 'The request has more than one message; the method is unary.',
}
const NONE: MessageProblem = {
  status: Status.unimplemented,
  message: 'The request has no message; the method is unary.',
}
const CUT: MessageProblem = {
  status: Status.internal,
  message: 'The request ended within its message.',
}

/** The message, if a frame has nothing but one that is in order. Anything else takes a reader. */
export function wholeMessage(
  bytes: Buffer,
  start: number,
  end: number,
  bytesMax: number,
): Buffer | undefined {
  const length = end - start - PREFIX_BYTES
  if (length < 0 || length > bytesMax || bytes[start] !== 0) return undefined
  if (readUint32(bytes, start + 1) !== length) return undefined
  return bytes.subarray(start + PREFIX_BYTES, end)
}

/** The first allocation for a message that comes in parts. It grows with what was received. */
const FIRST_BYTES = 1_024

/**
 * Puts the one message together of a request that takes more than one frame. It is copied, even if
 * it is whole: the client decides when the request ends, and a view would keep all that was read
 * with it. The length that a prefix states is believed only for a bound: memory follows what was
 * received.
 */
export class MessageReader {
  readonly #bytesMax: number
  /** What was received so far, with the prefix. */
  #held: Buffer | undefined
  #heldBytes = 0
  /** The message with its prefix, once that is known. */
  #wholeBytes = Infinity
  #message: Buffer | undefined

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** The bytes that are allocated. */
  get heldBytes(): number {
    return this.#held?.length ?? 0
  }

  /** Takes the payload of a DATA frame; returns why the request cannot be answered. */
  push(bytes: Buffer, start: number, end: number): MessageProblem | undefined {
    if (start === end) return undefined
    if (this.#message !== undefined) return SECOND
    if (this.#held === undefined && end - start >= PREFIX_BYTES) {
      const length = readUint32(bytes, start + 1)
      const problem = this.checkPrefix(bytes[start] ?? 0, length)
      if (problem !== undefined) return problem
      this.#wholeBytes = PREFIX_BYTES + length
    }
    return this.hold(bytes, start, end)
  }

  /** The message, or why there is none, when the request has ended. */
  end(): Buffer | MessageProblem {
    return this.#message ?? (this.#heldBytes === 0 ? NONE : CUT)
  }

  private checkPrefix(flag: number, length: number): MessageProblem | undefined {
    if (flag > 1) return BAD_FLAG
    if (flag === 1) return COMPRESSED
    if (length <= this.#bytesMax) return undefined
    return {
      status: Status.resourceExhausted,
      message: `The message has ${length} bytes; ${this.#bytesMax} are accepted.`,
    }
  }

  private hold(bytes: Buffer, start: number, end: number): MessageProblem | undefined {
    const total = this.#heldBytes + end - start
    if (total > this.#wholeBytes) return SECOND
    const hadPrefix = this.#heldBytes >= PREFIX_BYTES
    const held = this.grow(total)
    bytes.copy(held, this.#heldBytes, start, end)
    this.#heldBytes = total
    if (total < PREFIX_BYTES) return undefined
    const length = readUint32(held, 1)
    const problem = hadPrefix ? undefined : this.checkPrefix(held[0] ?? 0, length)
    if (problem !== undefined) return problem
    this.#wholeBytes = PREFIX_BYTES + length
    if (total > this.#wholeBytes) return SECOND
    if (total === this.#wholeBytes) this.#message = held.subarray(PREFIX_BYTES, total)
    return undefined
  }

  /** Doubles, so that a message of many parts is copied about twice; never more than it needs. */
  private grow(bytes: number): Buffer {
    if (this.#held !== undefined && this.#held.length >= bytes) return this.#held
    const wanted = Math.min(Math.max(FIRST_BYTES, 2 * this.heldBytes), this.#wholeBytes)
    const grown = Buffer.allocUnsafeSlow(Math.max(wanted, bytes))
    this.#held?.copy(grown, 0, 0, this.#heldBytes)
    this.#held = grown
    return grown
  }
}
