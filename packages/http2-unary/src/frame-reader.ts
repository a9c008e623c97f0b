import { ConnectionError } from './errors.js'
import { ErrorCode, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, PREFACE, readUint31 } from './frames.js'

export interface FrameHandler {
  /** One whole frame. Its payload is `bytes` from `start` up to `end`. */
  onFrame(
    type: number,
    flags: number,
    streamId: number,
    bytes: Buffer,
    start: number,
    end: number,
  ): void
}

/**
 * Splits what is received into frames, wherever it was cut. Frames that lie whole in a chunk are
 * passed on where they are; of one that does not, up to its length is held, 16 KiB at most.
 */
export class FrameReader {
  readonly #handler: FrameHandler
  #prefaceBytes = 0
  /** The first part of a frame, and how much of it there is. */
  #partial: Buffer | undefined
  #partialBytes = 0
  #partialSinceMs = 0

  constructor(handler: FrameHandler) {
    this.#handler = handler
  }

  get hasPreface(): boolean {
    return this.#prefaceBytes === PREFACE.length
  }

  /** When the frame began that is not complete, if there is one. */
  get partialSinceMs(): number | undefined {
    return this.#partial === undefined ? undefined : this.#partialSinceMs
  }

  read(chunk: Buffer, nowMs: number): void {
    let at = this.hasPreface ? 0 : this.readPreface(chunk)
    if (this.#partial !== undefined) at = this.completeFrame(chunk, this.#partial, at)
    const end = chunk.length
    while (end - at >= FRAME_HEADER_BYTES) {
      const next = at + FRAME_HEADER_BYTES + frameLength(chunk, at)
      if (next > end) break
      this.passOn(chunk, at, next)
      at = next
    }
    if (at >= end) return
    this.hold(chunk, at)
    this.#partialSinceMs = nowMs
  }

  private passOn(bytes: Buffer, at: number, end: number): void {
    this.#handler.onFrame(
      bytes[at + 3] ?? 0,
      bytes[at + 4] ?? 0,
      readUint31(bytes, at + 5),
      bytes,
      at + FRAME_HEADER_BYTES,
      end,
    )
  }

  private readPreface(chunk: Buffer): number {
    const count = Math.min(PREFACE.length - this.#prefaceBytes, chunk.length)
    for (let index = 0; index < count; index++) {
      if (chunk[index] === PREFACE[this.#prefaceBytes + index]) continue
      throw new ConnectionError(ErrorCode.protocolError, 'the connection preface is missing')
    }
    this.#prefaceBytes += count
    return count
  }

  private hold(chunk: Buffer, at: number): void {
    const rest = chunk.length - at
    const isHeaderThere = rest >= FRAME_HEADER_BYTES
    const bytes = FRAME_HEADER_BYTES + (isHeaderThere ? frameLength(chunk, at) : 0)
    this.#partial = Buffer.allocUnsafeSlow(bytes)
    this.#partialBytes = chunk.copy(this.#partial, 0, at)
  }

  /** Adds to the frame that is held; returns where the next one begins. */
  private completeFrame(chunk: Buffer, partial: Buffer, from: number): number {
    let at = this.fill(chunk, partial, from)
    if (this.#partialBytes < partial.length) return at
    let frame = partial
    if (frame.length === FRAME_HEADER_BYTES) {
      const length = frameLength(frame, 0)
      if (length > 0) {
        frame = Buffer.allocUnsafeSlow(FRAME_HEADER_BYTES + length)
        partial.copy(frame)
        this.#partial = frame
        at = this.fill(chunk, frame, at)
        if (this.#partialBytes < frame.length) return at
      }
    }
    this.#partial = undefined
    this.passOn(frame, 0, frame.length)
    return at
  }

  private fill(chunk: Buffer, partial: Buffer, from: number): number {
    const copied = chunk.copy(partial, this.#partialBytes, from)
    this.#partialBytes += copied
    return from + copied
  }
}

function frameLength(bytes: Buffer, at: number): number {
  const length = ((bytes[at] ?? 0) << 16) | ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] ?? 0)
  if (length <= FRAME_BYTES_MAX) return length
  throw new ConnectionError(ErrorCode.frameSizeError, 'a frame exceeds 16,384 bytes')
}
