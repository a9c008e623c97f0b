/** The status codes of gRPC. */
export const Status = {
  ok: 0,
  cancelled: 1,
  unknown: 2,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  alreadyExists: 6,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  aborted: 10,
  outOfRange: 11,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  dataLoss: 15,
  unauthenticated: 16,
} as const

export type GrpcStatus = (typeof Status)[keyof typeof Status]

/**
 * The longest `grpc-message`, in characters. Clients accept some KiB of headers, and a message is
 * for people.
 */
const MESSAGE_LENGTH_MAX = 512

/**
 * A message as `grpc-message` has it: percent-encoded, except printable ASCII without %. A space at
 * either end is encoded too, because HTTP/2 allows none there, and strict clients refuse the block.
 */
export function encodeStatusMessage(message: string): string {
  const bytes = Buffer.from(cut(message), 'utf8')
  const last = bytes.length - 1
  let text = ''
  for (const [index, byte] of bytes.entries()) {
    const isAtEnd = index === 0 || index === last
    const isPlain = byte >= (isAtEnd ? 0x21 : 0x20) && byte <= 0x7e && byte !== 0x25
    text += isPlain
      ? String.fromCharCode(byte)
      : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return text
}

/** No more than the longest, and not half of a character that takes two units. */
function cut(message: string): string {
  if (message.length <= MESSAGE_LENGTH_MAX) return message
  const isSplit = (message.codePointAt(MESSAGE_LENGTH_MAX - 1) ?? 0) > 0xffff
  return message.slice(0, MESSAGE_LENGTH_MAX - (isSplit ? 1 : 0))
}
