/** Secrets that a server generates and stores in its data directory, readable by its user only. */
import { randomBytes } from 'node:crypto'
import {
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../config/config.js'
import type { Log } from '../observability/log/logger.js'
import { messageOf } from '../lib/message-of.js'

export const ADMIN_TOKEN_FILE = 'admin-token'
const KEY_SECRET_FILE = 'key-secret'
const REDIS_SECRET_FILE = 'redis-key-secret'
const SECRET = /^[0-9a-f]{32,128}$/

export interface StoredSecret {
  readonly text: string
  /** Where it is stored. */
  readonly file: string | undefined
  /** `ephemeral`: it could not be written, and is lost when the process exits. */
  readonly state: 'configured' | 'stored' | 'ephemeral'
}

/** The bearer token of the admin API: 256 bits. */
export function loadOrCreateAdminToken(dataDir: string, log: Log): StoredSecret {
  return loadOrCreate(dataDir, ADMIN_TOKEN_FILE, 32, log)
}

/** The key of all hashes; stored so that a caller has the same hash in the logs after a restart. */
export function loadOrCreateKeySecret(dataDir: string, log: Log): Uint8Array {
  return Buffer.from(loadOrCreate(dataDir, KEY_SECRET_FILE, 16, log).text.slice(0, 32), 'hex')
}

/** Secrets that could not be written and that all workers of a server must share. */
export interface EphemeralSecrets {
  readonly adminToken?: string
  /** Hex digits. */
  readonly keySecret?: string
}

/** Generates the secrets that workers need, except those that each can read from a file. */
export function createEphemeralSecrets(
  config: Pick<Config, 'dataDir' | 'admin' | 'keySecret' | 'redis'>,
  log: Log,
): EphemeralSecrets {
  const ephemeral = (isNeeded: boolean, name: string, bytes: number) => {
    const stored = isNeeded ? loadOrCreate(config.dataDir, name, bytes, log) : undefined
    return stored?.state === 'ephemeral' ? stored.text : undefined
  }
  const adminToken = ephemeral(config.admin.token === undefined, ADMIN_TOKEN_FILE, 32)
  // With Redis, the key secret is stored there.
  const isOwn = config.keySecret === undefined && config.redis === undefined
  const keySecret = ephemeral(isOwn, KEY_SECRET_FILE, 16)
  return { ...(adminToken && { adminToken }), ...(keySecret && { keySecret }) }
}

/**
 * The key secret as last read from Redis; undefined if there is none. An invalid file does not
 * prevent a start: the secret is read from Redis again.
 */
export function readLastRedisSecret(dataDir: string, log: Log): Uint8Array | undefined {
  try {
    const stored = readSecret(join(dataDir, REDIS_SECRET_FILE), log)
    return stored === undefined ? undefined : Buffer.from(stored.slice(0, 32), 'hex')
  } catch (error) {
    log.warn(
      { problem: messageOf(error) },
      'stored key secret is invalid; the one in Redis will replace it',
    )
    return undefined
  }
}

/** Stores the key secret of Redis, so that a start without Redis uses the same counter names. */
export function saveRedisSecret(dataDir: string, secret: Uint8Array, log: Log): void {
  const file = join(dataDir, REDIS_SECRET_FILE)
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 })
    replaceFile(file, `${Buffer.from(secret).toString('hex')}\n`)
  } catch (error) {
    log.warn(
      { file, error: String(error) },
      'cannot persist key secret; a start without Redis will fail',
    )
  }
}

/** Replaces the file atomically: a reader gets the old or the new content, never a part. */
function replaceFile(file: string, text: string): void {
  const draft = draftOf(file)
  try {
    writeFileSync(draft, text, { mode: 0o600, flag: 'wx' })
    renameSync(draft, file)
  } catch (error) {
    rmSync(draft, { force: true })
    throw error
  }
}

function loadOrCreate(dataDir: string, name: string, bytes: number, log: Log): StoredSecret {
  const file = join(dataDir, name)
  const stored = readSecret(file, log)
  if (stored !== undefined) return { text: stored, file, state: 'stored' }
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 })
    return { text: writeOnce(file, bytes, log), file, state: 'stored' }
  } catch (error) {
    // A server can run on a read-only disk.
    log.warn(
      { file, error: String(error) },
      'cannot persist secret; a new one will be generated on every start',
    )
    return { text: randomBytes(bytes).toString('hex'), file: undefined, state: 'ephemeral' }
  }
}

/** Throws if the file contains something else, which an operator may have written. */
function readSecret(file: string, log: Log): string | undefined {
  let text: string
  try {
    if ((statSync(file).mode & 0o077) !== 0) {
      log.warn({ file }, 'secret file is readable or writable by others; chmod 600 it')
    }
    text = readFileSync(file, 'utf8').trim()
  } catch {
    return undefined
  }
  if (SECRET.test(text)) return text
  const found = `${text.length} characters that are no secret of Sluice`
  throw new Error(`${file}: found ${found}; accepted: 32 to 128 hex digits, or no file`)
}

/** Two processes that start at once get the same secret: the first link wins. */
function writeOnce(file: string, bytes: number, log: Log): string {
  const draft = draftOf(file)
  try {
    writeFileSync(draft, `${randomBytes(bytes).toString('hex')}\n`, { mode: 0o600, flag: 'wx' })
    linkSync(draft, file)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
  } finally {
    // Also if a full disk stored only part of it.
    rmSync(draft, { force: true })
  }
  const stored = readSecret(file, log)
  // The file exists and this process cannot read it. An empty secret would be known to everyone.
  if (stored === undefined) throw new Error('there is one that cannot be read')
  return stored
}

function draftOf(file: string): string {
  return `${file}.${randomBytes(6).toString('hex')}`
}
