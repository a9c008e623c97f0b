/** Reads the body of a request, up to a maximum size. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { SluiceError, show } from '@sluice/core'
import { decodeUtf8, growBuffer } from '../http/body-bytes.js'

export const OBJECT_BYTES_MAX = 64 * 1024
/** Lists may be larger, to hold a thousand calls. */
export const ARRAY_BYTES_MAX = 256 * 1024

/**
 * Calls `done` with the body, or with undefined if it is too large. Sends `100 Continue` to a
 * client that waits for it, unless its Content-Length is too large.
 */
export function readBody(
  request: IncomingMessage,
  response: ServerResponse,
  done: (body: Buffer | undefined) => void,
): void {
  const { headers } = request
  if (Number(headers['content-length'] ?? 0) > ARRAY_BYTES_MAX) return done(undefined)
  if (headers.expect?.toLowerCase().startsWith('100-continue')) response.writeContinue()
  const buffered = new BodyBuffer()
  const onData = (chunk: Buffer) => {
    buffered.add(chunk)
    if (!buffered.isTooLarge()) return
    request.off('data', onData)
    request.off('end', onEnd)
    done(undefined)
  }
  const onEnd = () => done(buffered.toBuffer())
  request.on('data', onData)
  request.on('end', onEnd)
}

const NOTHING = Buffer.alloc(0)

/**
 * Most bodies arrive in one chunk, which is used without a copy. Others are copied into one growing
 * buffer: a list of chunks of one byte would take a hundred times the memory.
 */
class BodyBuffer {
  #buffer: Buffer | undefined
  #bytes = 0
  #most = OBJECT_BYTES_MAX

  add(chunk: Buffer): void {
    const before = this.#bytes
    this.#bytes += chunk.length
    if (this.#buffer === undefined) this.#buffer = chunk
    else {
      if (this.#bytes > this.#buffer.length)
        this.#buffer = growBuffer(this.#buffer, before, this.#bytes)
      chunk.copy(this.#buffer, before)
    }
    if (before <= OBJECT_BYTES_MAX && this.#bytes > OBJECT_BYTES_MAX && isArray(this.#buffer)) {
      this.#most = ARRAY_BYTES_MAX
    }
  }

  isTooLarge(): boolean {
    return this.#bytes > this.#most
  }

  toBuffer(): Buffer {
    const buffer = this.#buffer ?? NOTHING
    return buffer.length === this.#bytes ? buffer : buffer.subarray(0, this.#bytes)
  }
}

const BRACKET = 91

/** Whether the first byte that is not white space starts a list. */
function isArray(buffer: Buffer): boolean {
  for (const byte of buffer) {
    if (byte !== 32 && (byte < 9 || byte > 13)) return byte === BRACKET
  }
  return false
}

const REPLACED = '\ufffd'
const MESSAGE_LENGTH_MAX = 160

/** Parses a body; throws CALL_INVALID if it is not JSON in UTF-8. */
export function readJson(body: Buffer): unknown {
  const text = body.toString('utf8')
  // Invalid UTF-8 becomes this character, which a client may also send itself.
  if (text.includes(REPLACED) && decodeUtf8(body) === undefined) throw notUtf8()
  try {
    return JSON.parse(text)
  } catch (error) {
    const found = text.trim() === '' ? 'nothing' : `no JSON: ${messageOf(error)}`
    throw new SluiceError('CALL_INVALID', `body: found ${found}; accepted: ${ACCEPTED_JSON}`)
  }
}

const ACCEPTED_JSON = 'JSON such as {"attributes":{"user":"u1"}}'

function notUtf8(): SluiceError {
  return new SluiceError(
    'CALL_INVALID',
    'body: found bytes that are not UTF-8; accepted: JSON in UTF-8',
  )
}

/** The parser's message quotes the body, so it is escaped and shortened. */
function messageOf(error: unknown): string {
  return show(error instanceof Error ? error.message : error, MESSAGE_LENGTH_MAX)
}
