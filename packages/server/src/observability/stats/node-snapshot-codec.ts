/** A sight as the text that is left on a board: JSON, made smaller, and none of it is believed. */
import { deflateRaw, inflateRaw } from 'node:zlib'
import { POST_LENGTH_MAX } from './snapshot-exchange.js'
import type { NodeSnapshot } from './node-snapshot.js'
import { isNodeSnapshot, dropUnknownAlerts } from './validate-snapshot.js'

/** More is not even made smaller: it would hold up decisions for too long. */
const JSON_LENGTH_MAX = 4 * POST_LENGTH_MAX
/** A short text may stand for a very long one. */
const READ_BYTES_MAX = 16 * 1024 * 1024
/** So much of it is zeros that the fastest is nearly as good as the best. */
const LEVEL = 1
/** Of what would fit if all rules took as much as each other. */
const TAKEN_SHARE = 0.8

export interface EncodeOptions {
  /** @default POST_LENGTH_MAX */
  readonly lengthMax?: number | undefined
  /** What is done to the snapshot before it is written. @default nothing */
  readonly hide?: ((snapshot: NodeSnapshot) => NodeSnapshot) | undefined
}

/**
 * Below `lengthMax`: where it is too much, the callers that would have been refused are left out
 * first, then rules from the tail, the least busy first, and with them their callers.
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
      throw new Error(`a sight without rules: found ${json.length} characters; accepted: fewer`)
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

/** Undefined: damaged, or of another format. Never rejects. */
export async function decodeSnapshot(text: string): Promise<NodeSnapshot | undefined> {
  try {
    const json = await inflate(Buffer.from(text, 'base64'))
    const value = dropUnknownAlerts(JSON.parse(json.toString()))
    return isNodeSnapshot(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Beside decisions: other threads do it. */
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
