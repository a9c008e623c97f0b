/** A client of HTTP/2 that writes frames itself, so that it knows what it sent and when. */

export const CALL_HEADERS = {
  ':method': 'POST',
  ':path': '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit',
  'content-type': 'application/grpc',
}

export const FRAME = { data: 0, headers: 1, settings: 4, ping: 6, goaway: 7, windowUpdate: 8 }
export const FLAG = { endStream: 1, ack: 1, endHeaders: 4 }

/** A frame of HTTP/2. */
export function frame(
  type: number,
  flags: number,
  stream: number,
  payload: Buffer = Buffer.alloc(0),
): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

/** A literal header field without indexing. */
const literal = (text: string) => Buffer.concat([Buffer.from([text.length]), Buffer.from(text)])

const HEADER_BLOCK = Buffer.concat(
  Object.entries({ ':scheme': 'http', ':authority': 'a', ...CALL_HEADERS }).flatMap(
    ([name, value]) => [Buffer.from([0]), literal(name), literal(value)],
  ),
)

const MAGIC = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
export const PREFACE = Buffer.concat([MAGIC, frame(FRAME.settings, 0, 0)])

/** A call with one message; without it, with an empty one. */
export function callFrames(stream: number, message: Buffer = Buffer.alloc(0)): Buffer {
  const prefix = Buffer.alloc(5)
  prefix.writeUInt32BE(message.length, 1)
  return Buffer.concat([
    frame(FRAME.headers, FLAG.endHeaders, stream, HEADER_BLOCK),
    frame(FRAME.data, FLAG.endStream, stream, Buffer.concat([prefix, message])),
  ])
}

export interface ReceivedFrame {
  readonly type: number
  readonly flags: number
  readonly stream: number
  readonly payload: Buffer
}

/** Splits what is received into frames. */
export function frameSplitter(onFrame: (frame: ReceivedFrame) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  return (chunk) => {
    rest = Buffer.concat([rest, chunk])
    while (rest.length >= 9) {
      const end = 9 + rest.readUIntBE(0, 3)
      if (rest.length < end) return
      const [type = 0, flags = 0] = rest.subarray(3, 5)
      const stream = rest.readUInt32BE(5)
      const payload = rest.subarray(9, end)
      rest = rest.subarray(end)
      onFrame({ type, flags, stream, payload })
    }
  }
}
