/**
 * Parses the frame headers of a WebSocket (RFC 6455) as its bytes pass. Messages are counted where
 * they begin, and the end of a frame is where a frame of the gateway may be inserted.
 */

export interface Frame {
  /** The offset of its header in the chunk; below 0 if it began in an earlier one. */
  readonly start: number
  /** A data frame that begins a message: text or binary, not a continuation or a control frame. */
  readonly isMessage: boolean
}

const HEAD_MAX = 14
const TEXT = 1
const BINARY = 2
const CLOSE = 8

export class FrameScanner {
  readonly #head = Buffer.alloc(HEAD_MAX)
  #headLength = 0
  /** Remaining bytes of the current frame's payload. */
  #left = 0

  /** Whether the bytes so far end at the end of a frame. */
  get isBetweenFrames(): boolean {
    return this.#headLength === 0 && this.#left === 0
  }

  /**
   * Reads from `from` to the end of the next header; returns the frame and the offset after it, or
   * undefined at the end of the chunk.
   */
  next(chunk: Buffer, from: number): { readonly frame: Frame; readonly at: number } | undefined {
    let at = from + Math.min(this.#left, chunk.length - from)
    this.#left -= at - from
    if (this.#left > 0) return undefined
    const start = at - this.#headLength
    while (at < chunk.length) {
      this.#head[this.#headLength++] = chunk[at++] ?? 0
      const length = headLength(this.#head, this.#headLength)
      if (length === undefined || this.#headLength < length) continue
      this.#left = payloadLength(this.#head)
      this.#headLength = 0
      const opcode = (this.#head[0] ?? 0) & 0x0f
      return { frame: { start, isMessage: opcode === TEXT || opcode === BINARY }, at }
    }
    return undefined
  }

  /** Skips a whole chunk. */
  skip(chunk: Buffer): void {
    let at = 0
    for (let found = this.next(chunk, at); found !== undefined; found = this.next(chunk, at)) {
      at = found.at
    }
  }

  /** How many bytes of the chunk belong to the current frame. */
  endOfFrame(chunk: Buffer): number {
    const found = this.next(chunk, 0)
    return found === undefined ? chunk.length : Math.max(0, found.frame.start)
  }
}

/** The length of a header, once enough of it has arrived. */
function headLength(head: Buffer, have: number): number | undefined {
  if (have < 2) return undefined
  const second = head[1] ?? 0
  const size = second & 0x7f
  return 2 + (size === 126 ? 2 : size === 127 ? 8 : 0) + (second & 0x80 ? 4 : 0)
}

function payloadLength(head: Buffer): number {
  const size = (head[1] ?? 0) & 0x7f
  if (size === 126) return head.readUInt16BE(2)
  // Beyond 2^53 the end is never reached.
  return size === 127 ? Number(head.readBigUInt64BE(2)) : size
}

const REASON_BYTES_MAX = 123

/** Builds a close frame; one to a server is masked, as the protocol requires of clients. */
export function closeFrame(code: number, reason: string, mask?: Uint8Array): Buffer {
  const text = Buffer.from(reason).subarray(0, REASON_BYTES_MAX)
  const payload = Buffer.alloc(2 + text.length)
  payload.writeUInt16BE(code)
  text.copy(payload, 2)
  if (mask === undefined)
    return Buffer.concat([Buffer.from([0x80 | CLOSE, payload.length]), payload])
  for (let i = 0; i < payload.length; i++) payload[i] = (payload[i] ?? 0) ^ (mask[i % 4] ?? 0)
  return Buffer.concat([Buffer.from([0x80 | CLOSE, 0x80 | payload.length]), mask, payload])
}
