import { ConnectionError } from './errors.js'
import { ErrorCode } from './frames.js'
import { BLOCK_BYTES_MAX } from './hpack/decoder.js'

/** A block of the largest size has two of the largest frames; clients may send smaller ones. */
const CONTINUATIONS_MAX = 16

/** A block of headers that comes in several frames. Nothing else may come between them. */
export class HeaderBlock {
  /** 0 while no block is open. */
  streamId = 0
  isEndOfStream = false
  /** When its first frame came. */
  startedMs = 0
  #bytes: Buffer | undefined
  #length = 0
  #continuations = 0

  get isOpen(): boolean {
    return this.streamId !== 0
  }

  open(streamId: number, isEndOfStream: boolean, nowMs: number): void {
    this.streamId = streamId
    this.isEndOfStream = isEndOfStream
    this.startedMs = nowMs
    this.#length = 0
    this.#continuations = 0
  }

  continue(bytes: Buffer, start: number, end: number): void {
    this.#continuations += 1
    if (this.#continuations > CONTINUATIONS_MAX) tooLarge()
    this.append(bytes, start, end)
  }

  append(bytes: Buffer, start: number, end: number): void {
    const length = this.#length + end - start
    if (length > BLOCK_BYTES_MAX) tooLarge()
    if (this.#bytes === undefined || this.#bytes.length < length) {
      const grown = Buffer.allocUnsafeSlow(Math.min(BLOCK_BYTES_MAX, 2 * length))
      this.#bytes?.copy(grown, 0, 0, this.#length)
      this.#bytes = grown
    }
    bytes.copy(this.#bytes, this.#length, start, end)
    this.#length = length
  }

  close(): Buffer {
    const block = this.#bytes?.subarray(0, this.#length) ?? Buffer.alloc(0)
    this.streamId = 0
    this.#bytes = undefined
    return block
  }
}

function tooLarge(): never {
  throw new ConnectionError(ErrorCode.enhanceYourCalm, 'a block of headers is too large')
}
