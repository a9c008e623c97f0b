/** The numbers of RFC 9113: types of frames, flags, error codes and settings. */

export const FRAME_HEADER_BYTES = 9

export const FrameType = {
  data: 0,
  headers: 1,
  priority: 2,
  rstStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const

export const Flag = {
  endStream: 0x1,
  ack: 0x1,
  endHeaders: 0x4,
  padded: 0x8,
  priority: 0x20,
} as const

export const ErrorCode = {
  noError: 0,
  protocolError: 1,
  internalError: 2,
  flowControlError: 3,
  settingsTimeout: 4,
  streamClosed: 5,
  frameSizeError: 6,
  refusedStream: 7,
  cancel: 8,
  compressionError: 9,
  enhanceYourCalm: 11,
} as const

export const Setting = {
  headerTableSize: 1,
  enablePush: 2,
  maxConcurrentStreams: 3,
  initialWindowSize: 4,
  maxFrameSize: 5,
  maxHeaderListSize: 6,
} as const

export const SETTING_BYTES = 6

/** What a client sends first. */
export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1')

/**
 * The largest frame of either side. It is the least that HTTP/2 allows as a maximum, so it needs no
 * setting, and every peer accepts it.
 */
export const FRAME_BYTES_MAX = 16_384

/** The window of each direction before anything was said about it. */
export const WINDOW_DEFAULT = 65_535

export const WINDOW_MAX = 2 ** 31 - 1

/** The highest number of a stream. GOAWAY with it says: no new streams soon. */
export const STREAM_ID_MAX = 2 ** 31 - 1

/** Writes the nine bytes that begin a frame. */
export function writeFrameHeader(
  bytes: Uint8Array,
  at: number,
  length: number,
  type: number,
  flags: number,
  streamId: number,
): void {
  bytes[at] = length >>> 16
  bytes[at + 1] = length >>> 8
  bytes[at + 2] = length
  bytes[at + 3] = type
  bytes[at + 4] = flags
  writeUint32(bytes, at + 5, streamId)
}

export function writeUint32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value >>> 24
  bytes[at + 1] = value >>> 16
  bytes[at + 2] = value >>> 8
  bytes[at + 3] = value
}

export function readUint32(bytes: Uint8Array, at: number): number {
  return (readUint31(bytes, at) | ((bytes[at] ?? 0) << 24)) >>> 0
}

/** Without the highest bit, which is reserved in numbers of streams and in increments. */
export function readUint31(bytes: Uint8Array, at: number): number {
  return (
    (((bytes[at] ?? 0) & 0x7f) << 24) |
    ((bytes[at + 1] ?? 0) << 16) |
    ((bytes[at + 2] ?? 0) << 8) |
    (bytes[at + 3] ?? 0)
  )
}
