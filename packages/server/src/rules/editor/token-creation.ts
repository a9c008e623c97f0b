/** Generates tokens of the admin API. A token is returned once; the store holds its hash. */
import {
  reportAt,
  createDiagnostics,
  DOCUMENT,
  readChoice,
  readMap,
  readOptional,
  readRequired,
  readText,
  readTime,
  readValue,
  type Located,
} from '@sluice/core/config-reader'
import { sha256Of } from '../store/key-hash.js'
import type { Role, TokenDocument } from '../store/records.js'
import { isPrintable } from './key-registration.js'
import { EditError, invalidError } from './edit-errors.js'

export const TOKENS_MAX = 1000
const TOKEN_BYTES = 32
const ID_BYTES = 10
const NAME_LENGTH_MAX = 64
const ROLES: readonly Role[] = ['read', 'edit', 'admin']

export interface NewToken {
  readonly id: string
  readonly document: TokenDocument
  /** Returned only now: the store holds its hash. */
  readonly token: string
}

/** Throws an `EditError` that names every problem. */
export function makeToken(
  source: unknown,
  nowMs: number,
  random: (count: number) => Buffer,
): NewToken {
  const collector = createDiagnostics({ file: undefined, strict: false, text: undefined })
  const { root } = readValue(source)
  if (root === undefined) throw new EditError('token_invalid', 'found no token')
  const fields = readToken({ node: root, field: DOCUMENT, report: collector.report }, nowMs)
  const { errors } = collector.finish()
  if (fields === undefined || errors.length > 0) throw invalidError('token_invalid', errors)
  const token = `slt_${random(TOKEN_BYTES).toString('base64url')}`
  const createdAt = new Date(nowMs).toISOString()
  const document = { hash: sha256Of(token), ...fields, createdAt }
  return { id: `t_${random(ID_BYTES).toString('hex')}`, document, token }
}

function readToken(
  spot: Located,
  nowMs: number,
): Pick<TokenDocument, 'name' | 'role' | 'expiresAt'> | undefined {
  const map = readMap(spot, ['name', 'role', 'expiresAt'])
  if (map === undefined) return undefined
  const accepted = `a name of 1 to ${NAME_LENGTH_MAX} printable characters`
  const name = readRequired(map, 'name', { accepted, read: (field) => readName(field, accepted) })
  const role = readRequired(map, 'role', {
    accepted: ROLES.join(', '),
    read: (field) => readChoice(field, ROLES),
  })
  const expiresMs = readOptional(map, 'expiresAt', (field) => readFuture(field, nowMs))
  if (name === undefined || role === undefined) return undefined
  if (expiresMs === undefined) return { name, role }
  return { name, role, expiresAt: new Date(expiresMs).toISOString() }
}

function readName(spot: Located, accepted: string): string | undefined {
  const name = readText(spot, { accepted, most: NAME_LENGTH_MAX })
  if (name === undefined || isPrintable(name)) return name
  return reportAt(spot, 'bad-value', { accepted })
}

function readFuture(spot: Located, nowMs: number): number | undefined {
  const ms = readTime(spot)
  if (ms === undefined || ms > nowMs) return ms
  return reportAt(spot, 'bad-time', { accepted: `a time after ${new Date(nowMs).toISOString()}` })
}
