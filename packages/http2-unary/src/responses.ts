/**
 * Blocks of response headers. All fields are literals that no table keeps: as fast as indexes, and
 * the connection needs no encoder.
 */
import { encodeStatusMessage, type GrpcStatus, Status } from './grpc/status.js'

export interface Response {
  readonly head: Buffer
  /** The body: a gRPC message with its prefix, or a text. */
  readonly body: Buffer | undefined
  /** The block after the body. Without one, what comes last ends the stream. */
  readonly trailers: Buffer | undefined
}

/** First bytes of literals that are not indexed, by the index of their name in the static table. */
const STATUS_NAME = 0x08
const CONTENT_TYPE_NAME = Buffer.from([0x0f, 31 - 15])
const NEW_NAME = 0x00
/** The static table has `:status: 200` at 8. */
const STATUS_200 = 0x80 | 8

/** The largest number that the first byte of a length holds. */
const LENGTH_MASK = 0x7f

function literal(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1')
  return Buffer.concat([encodeLength(bytes.length), bytes])
}

function encodeLength(length: number): Buffer {
  if (length < LENGTH_MASK) return Buffer.from([length])
  const bytes = [LENGTH_MASK]
  let rest = length - LENGTH_MASK
  for (; rest >= 0x80; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80)
  return Buffer.from([...bytes, rest])
}

const field = (name: string, value: string) =>
  Buffer.concat([Buffer.from([NEW_NAME]), literal(name), literal(value)])

const contentType = (value: string) => Buffer.concat([CONTENT_TYPE_NAME, literal(value)])

/** Before the message of an answer. */
export const OK_HEAD = Buffer.concat([Buffer.from([STATUS_200]), contentType('application/grpc')])

/** After the message of an answer. */
export const OK_TRAILERS = field('grpc-status', String(Status.ok))

/** An error of gRPC, all in one block. */
export function errorResponse(status: GrpcStatus, message: string): Response {
  const fields = [OK_HEAD, field('grpc-status', String(status))]
  if (message !== '') fields.push(field('grpc-message', encodeStatusMessage(message)))
  if (status === Status.unimplemented) fields.push(field('grpc-accept-encoding', 'identity'))
  return { head: Buffer.concat(fields), body: undefined, trailers: undefined }
}

/** For what is no gRPC: a status of HTTP, and a line for people. */
function httpResponse(status: number, text: string, ...fields: readonly Buffer[]): Response {
  const body = Buffer.from(text, 'latin1')
  const head = Buffer.concat([
    Buffer.from([STATUS_NAME]),
    literal(String(status)),
    contentType('text/plain'),
    ...fields,
  ])
  return { head, body, trailers: undefined }
}

export const METHOD_NOT_ALLOWED = httpResponse(
  405,
  'This port serves gRPC, by POST only.\n',
  field('allow', 'POST'),
)

/** The answer to HEAD has no body. */
export const METHOD_NOT_ALLOWED_HEAD: Response = { ...METHOD_NOT_ALLOWED, body: undefined }

export const UNSUPPORTED_MEDIA_TYPE = httpResponse(
  415,
  'This port serves gRPC: content-type must be application/grpc.\n',
)

export const HEADERS_TOO_LARGE = httpResponse(431, 'The request headers are too large.\n')

export const UNKNOWN_METHOD = errorResponse(Status.unimplemented, 'The method is unknown.')

export const BAD_TIMEOUT = errorResponse(Status.internal, 'The grpc-timeout is malformed.')

export const HANDLER_FAILED = errorResponse(Status.internal, 'Internal error.')

export const TOO_MUCH_HELD = errorResponse(
  Status.resourceExhausted,
  'Too many bytes of requests are incomplete.',
)
