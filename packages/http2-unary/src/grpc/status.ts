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

/** A message as `grpc-message` has it: percent-encoded, except printable ASCII without %. */
export function encodeStatusMessage(message: string): string {
  const bytes = Buffer.from(message.slice(0, MESSAGE_LENGTH_MAX), 'utf8')
  let text = ''
  for (const byte of bytes) {
    const isPlain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25
    text += isPlain
      ? String.fromCharCode(byte)
      : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return text
}
