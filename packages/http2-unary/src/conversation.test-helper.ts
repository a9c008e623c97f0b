/** Conversations with a connection without a socket: frames in, frames out, time as an argument. */
import { Connection } from './connection.js'
import {
  type AnswerWriter,
  type ContextOptions,
  createContext,
  type ServerContext,
} from './context.js'
import { Flag, FRAME_HEADER_BYTES, FrameType, PREFACE, readUint32 } from './frames.js'
import { STATIC_TABLE } from './hpack/static-table.js'
import type { Transport } from './output.js'

export interface Frame {
  readonly type: number
  readonly flags: number
  readonly id: number
  readonly payload: Buffer
}

export function frame(type: number, flags: number, id: number, payload: Uint8Array): Buffer {
  const header = Buffer.alloc(FRAME_HEADER_BYTES)
  header.writeUIntBE(payload.length, 0, 3)
  header.writeUInt8(type, 3)
  header.writeUInt8(flags, 4)
  header.writeUInt32BE(id, 5)
  return Buffer.concat([header, payload])
}

const uint32 = (value: number) => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

export const settings = (...entries: readonly (readonly [number, number])[]) =>
  frame(
    FrameType.settings,
    0,
    0,
    Buffer.concat(
      entries.map(([name, value]) => Buffer.concat([Buffer.from([0, name]), uint32(value)])),
    ),
  )
export const settingsAck = () => frame(FrameType.settings, Flag.ack, 0, Buffer.alloc(0))
export const ping = (payload = 'a ping..', flags = 0) =>
  frame(FrameType.ping, flags, 0, Buffer.from(payload))
export const rstStream = (id: number, code = 8) => frame(FrameType.rstStream, 0, id, uint32(code))
export const windowUpdate = (id: number, increment: number) =>
  frame(FrameType.windowUpdate, 0, id, uint32(increment))
export const goaway = () => frame(FrameType.goaway, 0, 0, Buffer.alloc(8))
export const priority = (id: number, on = 0) =>
  frame(FrameType.priority, 0, id, Buffer.concat([uint32(on), Buffer.from([15])]))
export const data = (id: number, payload: Uint8Array, isEnd = true) =>
  frame(FrameType.data, isEnd ? Flag.endStream : 0, id, payload)
export const headers = (id: number, bytes: Uint8Array, flags: number = Flag.endHeaders) =>
  frame(FrameType.headers, flags, id, bytes)
export const continuation = (id: number, bytes: Uint8Array, flags: number = Flag.endHeaders) =>
  frame(FrameType.continuation, flags, id, bytes)

/** A message with the prefix of gRPC. */
export const grpc = (message: Uint8Array | string, flag = 0) => {
  const bytes = Buffer.from(message)
  return Buffer.concat([Buffer.from([flag]), uint32(bytes.length), bytes])
}

export type Field = readonly [name: string, value: string]

export const PATH = '/test.Service/Echo'

export const REQUEST: readonly Field[] = [
  [':method', 'POST'],
  [':scheme', 'http'],
  [':path', PATH],
  [':authority', 'localhost'],
  ['content-type', 'application/grpc'],
  ['te', 'trailers'],
]

export const requestTo = (path: string, ...more: readonly Field[]): readonly Field[] => [
  ...REQUEST.map(([name, value]): Field => [name, name === ':path' ? path : value]),
  ...more,
]

/** A number by RFC 7541, after the bits that are given. */
export function integer(bits: number, mask: number, value: number): Buffer {
  if (value < mask) return Buffer.from([bits | value])
  const bytes = [bits | mask]
  let rest = value - mask
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128)
  return Buffer.from([...bytes, rest])
}

const text = (value: string) => {
  const bytes = Buffer.from(value, 'latin1')
  return Buffer.concat([integer(0, 127, bytes.length), bytes])
}

/** Literals: `plain` leaves the table as it is, `indexed` adds them. */
export function block(fields: readonly Field[], kind: 'plain' | 'indexed' = 'plain'): Buffer {
  const first = kind === 'plain' ? 0x00 : 0x40
  return Buffer.concat(
    fields.flatMap(([name, value]) => [Buffer.from([first]), text(name), text(value)]),
  )
}

/** A whole call. */
export const call = (id: number, message = 'hello', fields = REQUEST) =>
  Buffer.concat([headers(id, block(fields)), data(id, grpc(message))])

export function framesOf(bytes: Buffer): readonly Frame[] {
  const frames: Frame[] = []
  for (let at = 0; at < bytes.length; ) {
    const end = at + FRAME_HEADER_BYTES + bytes.readUIntBE(at, 3)
    frames.push({
      type: bytes.readUInt8(at + 3),
      flags: bytes.readUInt8(at + 4),
      id: bytes.readUInt32BE(at + 5),
      payload: bytes.subarray(at + FRAME_HEADER_BYTES, end),
    })
    at = end
  }
  return frames
}

/** Reads a block of literals and of fields of the static table, as responses have. */
function fieldsOf(bytes: Buffer): Readonly<Record<string, string>> {
  const fields: Record<string, string> = {}
  let at = 0
  const number = (mask: number) => {
    let value = (bytes[at++] ?? 0) & mask
    if (value < mask) return value
    for (let factor = 1; ; factor *= 128) {
      const byte = bytes[at++] ?? 0
      value += (byte & 127) * factor
      if (byte < 128) return value
    }
  }
  const string = () => {
    const length = number(127)
    at += length
    return bytes.toString('latin1', at - length, at)
  }
  while (at < bytes.length) {
    const first = bytes[at] ?? 0
    if (first >= 0x80) {
      const [name = '', value = ''] = STATIC_TABLE[number(127) - 1] ?? []
      fields[name] = value
    } else if (first >= 0x20) {
      number(31)
    } else {
      const index = number(15)
      const name = index === 0 ? string() : (STATIC_TABLE[index - 1]?.[0] ?? '')
      fields[name] = string()
    }
  }
  return fields
}

/** What one stream was answered. */
export interface Reply {
  readonly status: string | undefined
  readonly grpcStatus: string | undefined
  readonly grpcMessage: string | undefined
  readonly body: string
  readonly isEnded: boolean
  readonly reset: number | undefined
}

export function replyOf(frames: readonly Frame[], id: number): Reply {
  const own = frames.filter((one) => one.id === id)
  const blocks = own.filter(({ type }) => type === FrameType.headers)
  const fields = Object.assign({}, ...blocks.map(({ payload }) => fieldsOf(payload))) as Readonly<
    Record<string, string>
  >
  const bodies = own.filter(({ type }) => type === FrameType.data).map(({ payload }) => payload)
  const reset = own.find(({ type }) => type === FrameType.rstStream)
  const isStreamEnd = ({ type, flags }: Frame) =>
    (type === FrameType.headers || type === FrameType.data) && (flags & Flag.endStream) !== 0
  return {
    status: fields[':status'],
    grpcStatus: fields['grpc-status'],
    grpcMessage: fields['grpc-message'],
    body: Buffer.concat(bodies).toString('latin1'),
    isEnded: own.some(isStreamEnd),
    reset: reset === undefined ? undefined : readUint32(reset.payload, 0),
  }
}

/** A socket that keeps what is sent. */
class RecordingTransport implements Transport {
  readonly sent: Buffer[] = []
  readonly pausesMs: number[] = []
  hasEnded = false
  isDestroyed = false
  blockedForMs = 0
  backlogBytes = 0

  send(bytes: Buffer): boolean {
    this.sent.push(Buffer.from(bytes))
    return true
  }
  end(): void {
    this.hasEnded = true
  }
  destroy(): void {
    this.isDestroyed = true
  }
  pauseFor(ms: number): void {
    this.pausesMs.push(ms)
  }
  blockedMs(): number {
    return this.blockedForMs
  }
}

/** A client without a socket, and the connection of the server that it talks to. */
export class Conversation {
  readonly transport = new RecordingTransport()
  readonly context: ServerContext
  readonly connection: Connection
  readonly errors: unknown[] = []
  nowMs = 1_000_000
  #answers: AnswerWriter[] = []

  constructor(options: Partial<ContextOptions> = {}, context?: ServerContext) {
    this.context =
      context ??
      createContext(
        {
          methods: { [PATH]: (message) => message },
          onError: (error) => this.errors.push(error),
          ...options,
        },
        { now: () => this.nowMs, scheduleAnswers: (writer) => this.#answers.push(writer) },
      )
    this.connection = new Connection(this.context, this.transport, '192.0.2.7', this.nowMs)
    this.connection.start()
  }

  /** After the handshake: the client has sent its settings and acknowledged ours. */
  static open(
    options: Partial<ContextOptions> = {},
    ...entries: readonly (readonly [number, number])[]
  ): Conversation {
    const conversation = new Conversation(options)
    conversation.send(PREFACE, settings(...entries), settingsAck())
    conversation.frames()
    return conversation
  }

  send(...chunks: readonly Uint8Array[]): void {
    this.connection.receive(Buffer.concat(chunks), this.nowMs)
  }

  /** Time passes, and deadlines are looked at. */
  pass(ms: number): void {
    this.nowMs += ms
    this.connection.sweep(this.nowMs)
  }

  /** Promises settle, and what they answer is written. */
  async settle(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
    for (const writer of this.#answers.splice(0)) writer.writeAnswers()
  }

  /** What was sent since the last time. */
  frames(): readonly Frame[] {
    return framesOf(Buffer.concat(this.transport.sent.splice(0)))
  }

  reply(id: number): Reply {
    return replyOf(this.frames(), id)
  }

  /** The code of the GOAWAY that ended the connection, if one did. */
  goawayCode(): number | undefined {
    const found = this.frames().find(({ type }) => type === FrameType.goaway)
    return found === undefined ? undefined : readUint32(found.payload, 4)
  }
}
