/** Encodes a node snapshot as compressed text, and decodes and validates those of other nodes. */
import { deflateRaw, inflateRaw } from 'node:zlib'
import { POST_LENGTH_MAX } from './snapshot-exchange.js'
import type { NodeSnapshot } from './node-snapshot.js'
import { isNodeSnapshot, dropUnknownAlerts } from './validate-snapshot.js'

/** Longer JSON is shortened before compression, because serializing it delays decisions. */
const JSON_LENGTH_MAX = 4 * POST_LENGTH_MAX
/** Bounds decompression, because a short text may expand to a very long one. */
const READ_BYTES_MAX = 16 * 1024 * 1024
/** The fastest level: most counts are zeros, so a higher one gains little. */
const LEVEL = 1
/** The share of rules kept of those that would fit if all had the same size. */
const TAKEN_SHARE = 0.8

export interface EncodeOptions {
  /** @default POST_LENGTH_MAX */
  readonly lengthMax?: number | undefined
  /** Removes names from the snapshot before it is written. @default nothing */
  readonly hide?: ((snapshot: NodeSnapshot) => NodeSnapshot) | undefined
}

/**
 * Encodes a snapshot within `lengthMax`. If it is too long, leaves out shadow callers first, then
 * the least busy rules with their callers.
 */
export async function encodeSnapshot(
  snapshot: NodeSnapshot,
  options: EncodeOptions = {},
): Promise<string> {
  const { lengthMax = POST_LENGTH_MAX, hide = (whole) => whole } = options
  let rest = snapshot
  for (;;) {
    const json = JSON.stringify(hide(rest))
    const isLong = json.length > JSON_LENGTH_MAX
    const text = isLong ? undefined : (await deflate(Buffer.from(json))).toString('base64')
    if (text !== undefined && text.length <= lengthMax) return text
    if (rest.rules.length === 0 && rest.callers.length === 0) {
      throw new Error(`node snapshot too long even without rules: ${json.length} characters`)
    }
    if (rest.shadowCallers !== undefined && rest.shadowCallers.length > 0) {
      rest = { ...rest, shadowCallers: [] }
      continue
    }
    const share = text === undefined ? JSON_LENGTH_MAX / json.length : lengthMax / text.length
    rest = shorten(rest, Math.floor(rest.rules.length * share * TAKEN_SHARE))
  }
}

function shorten(snapshot: NodeSnapshot, most: number): NodeSnapshot {
  const rules = snapshot.rules.slice(0, most)
  const ids = new Set(rules.map(({ rule }) => rule))
  return { ...snapshot, rules, callers: snapshot.callers.filter(({ rule }) => ids.has(rule)) }
}

/** Returns undefined if the text is damaged or of another format. Never rejects. */
export async function decodeSnapshot(text: string): Promise<NodeSnapshot | undefined> {
  try {
    const json = await inflate(Buffer.from(text, 'base64'))
    const value = dropUnknownAlerts(JSON.parse(json.toString()))
    return isNodeSnapshot(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Asynchronous, so that it runs on another thread and does not delay decisions. */
function deflate(bytes: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    deflateRaw(bytes, { level: LEVEL }, (error, result) => {
      if (error === null) resolve(result)
      else reject(error)
    })
  })
}

function inflate(bytes: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    inflateRaw(bytes, { maxOutputLength: READ_BYTES_MAX }, (error, result) => {
      if (error === null) resolve(result)
      else reject(error)
    })
  })
}
