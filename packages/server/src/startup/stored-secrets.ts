/** Secrets that a server makes for itself and keeps in its data directory, for its owner alone. */
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
  /** Where it is kept. */
  readonly file: string | undefined
  /** `unkept`: it could not be written, and is gone when the process ends. */
  readonly state: 'configured' | 'stored' | 'ephemeral'
}

/** The bearer token of the admin API: 256 bits. */
export function loadOrCreateAdminToken(dataDir: string, log: Log): StoredSecret {
  return loadOrCreate(dataDir, ADMIN_TOKEN_FILE, 32, log)
}

/** The key of all hashes: the same after a restart, so that logs of two runs name callers alike. */
export function loadOrCreateKeySecret(dataDir: string, log: Log): Uint8Array {
  return Buffer.from(loadOrCreate(dataDir, KEY_SECRET_FILE, 16, log).text.slice(0, 32), 'hex')
}

/** Secrets that could not be written, which all workers of a server must have alike. */
export interface EphemeralSecrets {
  readonly adminToken?: string
  /** Hex digits. */
  readonly keySecret?: string
}

/** Makes the secrets that workers need; those that could be written each reads from its file. */
export function createEphemeralSecrets(
  config: Pick<Config, 'dataDir' | 'admin' | 'keySecret' | 'redis'>,
  log: Log,
): EphemeralSecrets {
  const ephemeral = (isNeeded: boolean, name: string, bytes: number) => {
    const stored = isNeeded ? loadOrCreate(config.dataDir, name, bytes, log) : undefined
    return stored?.state === 'ephemeral' ? stored.text : undefined
  }
  const adminToken = ephemeral(config.admin.token === undefined, ADMIN_TOKEN_FILE, 32)
  // With Redis, the secret is kept there.
  const isOwn = config.keySecret === undefined && config.redis === undefined
  const keySecret = ephemeral(isOwn, KEY_SECRET_FILE, 16)
  return { ...(adminToken && { adminToken }), ...(keySecret && { keySecret }) }
}

/**
 * The key of all hashes as Redis told it last; undefined: it never did. What else stands there is
 * no reason not to start: Redis tells it again, unless it is gone as well.
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

/** Kept for a start without Redis, so that this node then names counters as the others do. */
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

/** Whoever reads it meanwhile finds the old one or the new one, whole. */
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
    // A read-only disk is no reason not to serve.
    log.warn(
      { file, error: String(error) },
      'cannot persist secret; a new one will be generated on every start',
    )
    return { text: randomBytes(bytes).toString('hex'), file: undefined, state: 'ephemeral' }
  }
}

/** Throws where something else stands in the file: what an operator wrote is not passed over. */
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

/** Two processes that start at once end up with the same one: the first link wins. */
function writeOnce(file: string, bytes: number, log: Log): string {
  const draft = draftOf(file)
  try {
    writeFileSync(draft, `${randomBytes(bytes).toString('hex')}\n`, { mode: 0o600, flag: 'wx' })
    linkSync(draft, file)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
  } finally {
    // Also where a full disk took only half of it.
    rmSync(draft, { force: true })
  }
  const stored = readSecret(file, log)
  // It is there, and closed to this process: an empty secret would be known to everybody.
  if (stored === undefined) throw new Error('there is one that cannot be read')
  return stored
}

function draftOf(file: string): string {
  return `${file}.${randomBytes(6).toString('hex')}`
}
