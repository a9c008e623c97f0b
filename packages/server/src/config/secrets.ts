/** Parses tokens, API keys and the key hash secret, none of which is ever shown. */
import { createHash } from 'node:crypto'
import { reportAt, readText, type Located } from '@sluice/core/config-reader'
import { hideText, lengthOf, SECRET_LENGTH_MIN } from './fields.js'
import { readFileName } from './values.js'

const TOKEN_LENGTH_MAX = 1024
const API_KEY_LENGTH_MAX = 512
const KEY_SECRET_BYTES = 16
/** Characters that a header can carry without being trimmed or split. */
const VISIBLE = /^[\x21-\x7e]+$/
const ACCEPTED_TOKEN = `${SECRET_LENGTH_MIN} to ${TOKEN_LENGTH_MAX} visible ASCII characters`
const ACCEPTED_API_KEY =
  `text of ${SECRET_LENGTH_MIN} to ${API_KEY_LENGTH_MAX} visible ASCII characters, ` +
  'in quotes if it looks like a number'
const ACCEPTED_KEY_SECRET =
  `${2 * KEY_SECRET_BYTES} hex digits, or any text ` +
  `of ${SECRET_LENGTH_MIN} to ${TOKEN_LENGTH_MAX} characters`

function isSecret(text: string, most: number): boolean {
  return text.length >= SECRET_LENGTH_MIN && text.length <= most && VISIBLE.test(text)
}

interface SecretText {
  readonly text: string | undefined
  /** Its messages show only the length of the text. */
  readonly located: Located
}

function readSecretText(located: Located, accepted: string): SecretText {
  const isText = located.node.kind === 'scalar' && typeof located.node.value === 'string'
  if (located.node.kind === 'scalar' && !isText) {
    reportAt(located, 'wrong-type', { found: 'a value that is no text, not shown', accepted })
    return { text: undefined, located }
  }
  const text = readText(located, { accepted, most: Number.POSITIVE_INFINITY })
  return { text, located: hideText(located, `of ${lengthOf(located)} characters, not shown`) }
}

/** Parses a bearer token of the environment. */
export function readToken(located: Located): string | undefined {
  const { text, located: hidden } = readSecretText(located, ACCEPTED_TOKEN)
  if (text === undefined || isSecret(text, TOKEN_LENGTH_MAX)) return text
  return reportAt(hidden, 'bad-value', { accepted: ACCEPTED_TOKEN })
}

export interface FileAccess {
  /** File names are relative to this folder. */
  readonly folder: string
  readonly readFile: (path: string) => string
}

/**
 * Reads a bearer token from its file, with or without a line end. The name of the file is not shown
 * either: sometimes the token itself is written there.
 */
export function readTokenFile(
  located: Located,
  { folder, readFile }: FileAccess,
): string | undefined {
  const path = readFileName(located, folder)
  if (path === undefined) return undefined
  const accepted = `the name of a file with a token of ${ACCEPTED_TOKEN}`
  const name = `of ${lengthOf(located)} characters`
  try {
    const text = readFile(path).trim()
    if (isSecret(text, TOKEN_LENGTH_MAX)) return text
    const found = `${name}, a file with ${text.length} characters in it`
    return reportAt(located, 'bad-value', { found, accepted })
  } catch (error) {
    const found = `${name}, a file that cannot be read: ${codeOf(error)}`
    return reportAt(located, 'bad-value', { found, accepted })
  }
}

/** Shows only a code such as `ENOENT`: the rest of an error may contain anything. */
function codeOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' && /^[A-Z]{1,12}$/.test(code) ? code : 'it failed'
}

/** SHA-256 of an API key in clear text. */
export function readApiKey(located: Located): string | undefined {
  const { text, located: hidden } = readSecretText(located, ACCEPTED_API_KEY)
  if (text === undefined) return undefined
  if (isSecret(text, API_KEY_LENGTH_MAX)) return sha256(text).toString('hex')
  return reportAt(hidden, 'bad-value', { accepted: ACCEPTED_API_KEY })
}

/** SHA-256 of an API key. An invalid value is not shown: it may be the key itself. */
export function readApiKeyHash(located: Located): string | undefined {
  const accepted = 'the SHA-256 of a key, 64 hex digits'
  const { text, located: hidden } = readSecretText(located, accepted)
  if (text === undefined) return undefined
  if (/^[0-9a-f]{64}$/i.test(text)) return text.toLowerCase()
  return reportAt(hidden, 'bad-value', { accepted })
}

/** 16 bytes: given directly, or hashed from a text. */
export function readKeySecret(located: Located): Uint8Array | undefined {
  const { text, located: hidden } = readSecretText(located, ACCEPTED_KEY_SECRET)
  if (text === undefined) return undefined
  if (/^[0-9a-f]{32}$/i.test(text)) return new Uint8Array(Buffer.from(text, 'hex'))
  if (text.length >= SECRET_LENGTH_MIN && text.length <= TOKEN_LENGTH_MAX) {
    return new Uint8Array(sha256(text).subarray(0, KEY_SECRET_BYTES))
  }
  return reportAt(hidden, 'bad-value', { accepted: ACCEPTED_KEY_SECRET })
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text, 'utf8').digest()
}
