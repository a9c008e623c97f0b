/** Reads body, query and If-Match of a request, each within bounds. */
import type { Readable } from 'node:stream'
import { show } from '@sluice/core'
import { nearest } from '@sluice/core/config-reader'
import { decodeUtf8, growBuffer } from '../http/body-bytes.js'
import { AdminError, unsupportedEncoding, invalid } from './admin-error.js'

/** Rule sets are large; nothing else is. */
export const SET_BYTES_MAX = 16 * 1024 * 1024
export const BODY_BYTES_MAX = 256 * 1024
/** Rules nest up to 16 levels. */
const DEPTH_MAX = 32

export type BodyKind = 'json' | 'merge-patch' | 'yaml'

const TYPES: Readonly<Record<BodyKind, readonly string[]>> = {
  json: ['application/json'],
  'merge-patch': ['application/merge-patch+json'],
  yaml: ['application/yaml', 'application/x-yaml', 'text/yaml', 'text/x-yaml'],
}

/** The media types to document. */
export function typesOf(kinds: readonly BodyKind[]): readonly string[] {
  return kinds.map((kind) => TYPES[kind][0] ?? '')
}

/** The type that `curl -d` sends by default. */
const UNTYPED = 'application/x-www-form-urlencoded'

/**
 * By `Content-Type`. A body without one, or with curl's default, is of the first accepted kind:
 * another site's page could send that too, but not the token.
 */
export function bodyKindOf(contentType: string | undefined, kinds: readonly BodyKind[]): BodyKind {
  const [first = 'json'] = kinds
  if (contentType === undefined) return first
  const type = (contentType.split(';')[0] ?? '').trim().toLowerCase()
  if (type === UNTYPED) return first
  const kind = kinds.find((each) => TYPES[each].includes(type))
  if (kind !== undefined) return kind
  const accepted = typesOf(kinds).join(', ')
  throw new AdminError(
    'unsupported_type',
    `Content-Type ${show(contentType)} is not supported. Send ${accepted}.`,
  )
}

export function requireUncompressed(encoding: string | undefined): void {
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') throw unsupportedEncoding()
}

/** Reads a body up to a bound; the rest stays unread. */
export async function readBytes(
  body: ReadableStream<Uint8Array> | Readable | null,
  length: string | undefined,
  most: number,
): Promise<Buffer> {
  if (Number(length ?? 0) > most) throw tooLarge(most)
  if (body === null) return Buffer.alloc(0)
  let buffer = Buffer.alloc(0)
  let bytes = 0
  const pieces = body as AsyncIterable<Uint8Array>
  const iterator = pieces[Symbol.asyncIterator]()
  for (;;) {
    const { done, value: piece } = await iterator.next()
    if (done === true) return buffer.subarray(0, bytes)
    if (bytes + piece.length > most) throw tooLarge(most)
    // Grown by doubling: a list of the pieces costs a hundred times the bytes if each is one byte.
    if (bytes + piece.length > buffer.length)
      buffer = growBuffer(buffer, bytes, bytes + piece.length)
    buffer.set(piece, bytes)
    bytes += piece.length
  }
}

/** Closes the connection: the unread rest would block the next request on it. */
function tooLarge(most: number): AdminError {
  const headers = { Connection: 'close' }
  return new AdminError('too_large', `The body exceeds ${most} bytes.`, { headers })
}

export function readText(bytes: Buffer): string {
  const text = decodeUtf8(bytes)
  if (text === undefined) throw invalid('body', 'bytes that are not UTF-8', 'text in UTF-8')
  return text
}

const QUOTE = 34
const BACKSLASH = 92
/** The code of an object's bracket is that of a list's with this bit. */
const OBJECT_BIT = 32
const OPENING = 123
const CLOSING = 125
const MESSAGE_LENGTH_MAX = 160

/** `__proto__` in JSON becomes an ordinary own key. */
export function readJson(bytes: Buffer): unknown {
  const text = readJsonText(bytes)
  try {
    return JSON.parse(text)
  } catch (error) {
    throw notJson(text, error)
  }
}

/** The text of a body that is not nested too deeply. */
export function readJsonText(bytes: Buffer): string {
  if (depthOf(bytes) <= DEPTH_MAX) return readText(bytes)
  throw invalid('body', `more than ${DEPTH_MAX} levels of lists and objects`, 'fewer')
}

export function notJson(text: string, error: unknown): AdminError {
  const why = error instanceof Error ? error.message : error
  const found = text.trim() === '' ? 'nothing' : `no JSON: ${show(why, MESSAGE_LENGTH_MAX)}`
  return invalid('body', found, 'JSON')
}

/** The nesting depth of lists and objects; stops at the bound. */
function depthOf(bytes: Buffer): number {
  let depth = 0
  let deepest = 0
  let isText = false
  for (let i = 0; i < bytes.length && deepest <= DEPTH_MAX; i++) {
    const byte = bytes[i] ?? 0
    if (isText) {
      if (byte === BACKSLASH) i++
      else if (byte === QUOTE) isText = false
    } else if (byte === QUOTE) isText = true
    else if ((byte | OBJECT_BIT) === OPENING) deepest = Math.max(deepest, ++depth)
    else if ((byte | OBJECT_BIT) === CLOSING) depth--
  }
  return deepest
}

/** Accepts each known parameter once, and no others. */
export function readQuery(
  search: URLSearchParams,
  names: readonly string[],
): Readonly<Record<string, string>> {
  const query = new Map<string, string>()
  for (const [name, value] of search) {
    if (!names.includes(name)) {
      const near = nearest(name, names)
      const meant = near === undefined ? '' : `, did you mean "${near}"?`
      const accepted = names.length === 0 ? 'no parameters' : names.join(', ')
      throw invalid('query', `unknown parameter "${show(name)}"${meant}`, accepted)
    }
    if (query.has(name)) throw invalid(`query.${name}`, 'it twice', 'it once')
    query.set(name, value)
  }
  return Object.fromEntries(query)
}

/** `any`: overwrite whatever is there. Undefined: no If-Match was sent. */
export type ExpectedVersion = number | 'any' | undefined

const VERSION_TAG = /^(?:W\/)?"([0-9]{1,15})"$|^([0-9]{1,15})$/

export function readIfMatch(header: string | undefined): ExpectedVersion {
  if (header === undefined) return undefined
  const text = header.trim()
  if (text === '*') return 'any'
  const match = VERSION_TAG.exec(text)
  if (match === null) throw invalid('If-Match', `"${show(text)}"`, 'one version such as "12", or *')
  return Number(match[1] ?? match[2])
}
