import {
  Flag,
  FRAME_BYTES_MAX,
  FRAME_HEADER_BYTES,
  FrameType,
  Setting,
  SETTING_BYTES,
  WINDOW_DEFAULT,
  writeFrameHeader,
  writeUint32,
} from './frames.js'
import { PREFIX_BYTES } from './grpc/message-reader.js'
import type { Output } from './output.js'
import { OK_HEAD, OK_TRAILERS } from './responses.js'

/**
 * A change of the dynamic table to no bytes. A client that has lowered HEADER_TABLE_SIZE waits for
 * it at the start of a block; sent with the first one, it holds for whatever the client sets.
 */
const EMPTY_TABLE = 0x20

const WINDOW_UPDATE_BYTES = 4
const RST_STREAM_BYTES = 4
const PING_BYTES = 8
const GOAWAY_BYTES = 8

/** The reason in GOAWAY is for people. */
const REASON_BYTES_MAX = 128

/** All of an answer but its message, with numbers of streams and lengths to be filled in. */
const OK_START = okStart()
const OK_END = okEnd()
const DATA_AT = FRAME_HEADER_BYTES + OK_HEAD.length
const STREAM_AT = 5

/** Writes the frames of one connection. */
export class FrameWriter {
  readonly #output: Output
  #isTableEmptied = false

  constructor(output: Output) {
    this.#output = output
  }

  /** A whole answer at once. The windows have room for it, and one frame has. */
  answer(streamId: number, message: Uint8Array): void {
    if (!this.#isTableEmptied) {
      this.headers(streamId, OK_HEAD, false)
      this.message(streamId, message)
      this.headers(streamId, OK_TRAILERS, true)
      return
    }
    const length = message.length
    let at = this.#output.reserve(OK_START.length + length + OK_END.length)
    const bytes = this.#output.bytes
    bytes.set(OK_START, at)
    writeUint32(bytes, at + STREAM_AT, streamId)
    at += DATA_AT
    const payload = length + PREFIX_BYTES
    bytes[at + 1] = payload >>> 8
    bytes[at + 2] = payload
    writeUint32(bytes, at + STREAM_AT, streamId)
    writeUint32(bytes, at + FRAME_HEADER_BYTES + 1, length)
    at += FRAME_HEADER_BYTES + PREFIX_BYTES
    bytes.set(message, at)
    at += length
    bytes.set(OK_END, at)
    writeUint32(bytes, at + STREAM_AT, streamId)
  }

  headers(streamId: number, block: Buffer, isEnd: boolean): void {
    const extra = this.#isTableEmptied ? 0 : 1
    const flags = Flag.endHeaders | (isEnd ? Flag.endStream : 0)
    const length = block.length + extra
    let at = this.frame(length, FrameType.headers, flags, streamId)
    if (extra === 1) this.#output.bytes[at++] = EMPTY_TABLE
    this.#output.bytes.set(block, at)
    this.#isTableEmptied = true
  }

  /** One DATA frame with the prefix of gRPC. */
  private message(streamId: number, message: Uint8Array): void {
    const at = this.frame(message.length + PREFIX_BYTES, FrameType.data, 0, streamId)
    writePrefix(this.#output.bytes, at, message.length)
    this.#output.bytes.set(message, at + PREFIX_BYTES)
  }

  data(streamId: number, bytes: Buffer, start: number, end: number, isEnd: boolean): void {
    const flags = isEnd ? Flag.endStream : 0
    const at = this.frame(end - start, FrameType.data, flags, streamId)
    bytes.copy(this.#output.bytes, at, start, end)
  }

  settings(entries: readonly (readonly [setting: number, value: number])[]): void {
    let at = this.frame(entries.length * SETTING_BYTES, FrameType.settings, 0, 0)
    for (const [setting, value] of entries) {
      this.#output.bytes[at] = 0
      this.#output.bytes[at + 1] = setting
      writeUint32(this.#output.bytes, at + 2, value)
      at += SETTING_BYTES
    }
  }

  settingsAck(): void {
    this.frame(0, FrameType.settings, Flag.ack, 0)
  }

  windowUpdate(streamId: number, increment: number): void {
    const at = this.frame(WINDOW_UPDATE_BYTES, FrameType.windowUpdate, 0, streamId)
    writeUint32(this.#output.bytes, at, increment)
  }

  rstStream(streamId: number, code: number): void {
    const at = this.frame(RST_STREAM_BYTES, FrameType.rstStream, 0, streamId)
    writeUint32(this.#output.bytes, at, code)
  }

  ping(payload: Buffer, start: number, isAck: boolean): void {
    const at = this.frame(PING_BYTES, FrameType.ping, isAck ? Flag.ack : 0, 0)
    payload.copy(this.#output.bytes, at, start, start + PING_BYTES)
  }

  goaway(lastStreamId: number, code: number, reason: string): void {
    const text = Buffer.from(reason, 'latin1').subarray(0, REASON_BYTES_MAX)
    const at = this.frame(GOAWAY_BYTES + text.length, FrameType.goaway, 0, 0)
    writeUint32(this.#output.bytes, at, lastStreamId)
    writeUint32(this.#output.bytes, at + 4, code)
    this.#output.bytes.set(text, at + GOAWAY_BYTES)
  }

  /** Returns where the payload goes. */
  private frame(length: number, type: number, flags: number, streamId: number): number {
    const at = this.#output.reserve(FRAME_HEADER_BYTES + length)
    writeFrameHeader(this.#output.bytes, at, length, type, flags, streamId)
    return at + FRAME_HEADER_BYTES
  }
}

/** The body of an answer: a message with its prefix. */
export function withPrefix(message: Uint8Array): Buffer {
  const body = Buffer.allocUnsafe(PREFIX_BYTES + message.length)
  writePrefix(body, 0, message.length)
  body.set(message, PREFIX_BYTES)
  return body
}

/** The longest message that one frame has room for. */
export const MESSAGE_IN_FRAME_MAX = FRAME_BYTES_MAX - PREFIX_BYTES

function writePrefix(bytes: Buffer, at: number, length: number): void {
  bytes[at] = 0
  writeUint32(bytes, at + 1, length)
}

function okStart(): Buffer {
  const start = Buffer.alloc(2 * FRAME_HEADER_BYTES + OK_HEAD.length + PREFIX_BYTES)
  writeFrameHeader(start, 0, OK_HEAD.length, FrameType.headers, Flag.endHeaders, 0)
  OK_HEAD.copy(start, FRAME_HEADER_BYTES)
  writeFrameHeader(start, FRAME_HEADER_BYTES + OK_HEAD.length, 0, FrameType.data, 0, 0)
  return start
}

function okEnd(): Buffer {
  const end = Buffer.alloc(FRAME_HEADER_BYTES + OK_TRAILERS.length)
  const flags = Flag.endHeaders | Flag.endStream
  writeFrameHeader(end, 0, OK_TRAILERS.length, FrameType.headers, flags, 0)
  OK_TRAILERS.copy(end, FRAME_HEADER_BYTES)
  return end
}

/** The settings of this side. The client may use the defaults until it has read them. */
export function ownSettings(limits: {
  readonly streams: number
  readonly messageBytes: number
  readonly headerListBytes: number
}): readonly (readonly [number, number])[] {
  return [
    [Setting.maxConcurrentStreams, limits.streams],
    [Setting.initialWindowSize, streamWindow(limits.messageBytes)],
    [Setting.maxHeaderListSize, limits.headerListBytes],
  ]
}

/** With room for the longest message: a stream needs no update of its window but for padding. */
export function streamWindow(messageBytes: number): number {
  return Math.max(WINDOW_DEFAULT, messageBytes + PREFIX_BYTES)
}
