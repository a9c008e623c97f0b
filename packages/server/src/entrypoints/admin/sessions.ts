/**
 * Browser sessions, started with a token. The browser holds a cookie that no script can read: the
 * id of the token, the expiry, and an HMAC over both. The server stores nothing, so a session
 * outlives a restart; the HMAC key is derived from the token's hash and the server's token, so that
 * a session is invalid once either is gone.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { digestOf } from '../decision-api/api-authorization.js'
import type { WallClock } from '../../lib/wall-clock.js'
import type { TokenAuthenticator, Principal, KnownPrincipal } from './principals.js'

export const COOKIE = 'sluice_session'
export const CSRF_HEADER = 'X-Sluice-Csrf'
const SESSION_MS = 12 * 3_600_000
const FORMAT = '1'
const NONCE_BYTES = 16
/** Other sites of the same host may set cookies of the same name. */
const COOKIES_READ_MAX = 4
const ID_LENGTH_MAX = 400
const VALUE = new RegExp(
  `^${FORMAT}\\.([\\w-]{1,${ID_LENGTH_MAX}})\\.(\\d{1,15})\\.([\\w-]{22})\\.([\\w-]{43})$`,
)

export interface Session {
  readonly principal: Principal
  readonly expiresAtMs: number
  /** The value that scripts of the dashboard send with every change. */
  readonly csrf: string
}

export interface Sessions {
  /** Starts a session of a valid token. */
  begin(id: string): { readonly session: Session; readonly value: string } | undefined
  /** Reads the header `Cookie`; undefined if it has no valid session. */
  read(cookies: string | undefined): Session | undefined
}

export interface SessionsDeps {
  readonly rootToken: string
  readonly tokenAuthenticator: Pick<TokenAuthenticator, 'find'>
  readonly clock: WallClock
}

export function createSessions({ rootToken, tokenAuthenticator, clock }: SessionsDeps): Sessions {
  const server = digestOf(rootToken)
  const keyOf = ({ digest }: KnownPrincipal) =>
    createHmac('sha256', server).update(`sluice session ${FORMAT}\n`).update(digest).digest()
  const readValue = (value: string): Session | undefined => {
    const [, id = '', expiry = '', nonce = '', seal = ''] = VALUE.exec(value) ?? []
    const known =
      id === '' ? undefined : tokenAuthenticator.find(Buffer.from(id, 'base64url').toString())
    if (known === undefined) return undefined
    const key = keyOf(known)
    const expiresAtMs = Number(expiry)
    if (!equalInConstantTime(seal, sealOf(key, `session.${id}.${expiry}.${nonce}`)))
      return undefined
    if (!(expiresAtMs > clock.now())) return undefined
    return { principal: known.principal, expiresAtMs, csrf: sealOf(key, `csrf.${nonce}`) }
  }
  return {
    begin(id) {
      const known = tokenAuthenticator.find(id)
      if (known === undefined) return undefined
      const key = keyOf(known)
      const end = Math.min(clock.now() + SESSION_MS, known.endsAtMs ?? Number.POSITIVE_INFINITY)
      const expiresAtMs = Math.floor(end)
      const nonce = randomBytes(NONCE_BYTES).toString('base64url')
      const payload = `${Buffer.from(id).toString('base64url')}.${expiresAtMs}.${nonce}`
      const value = `${FORMAT}.${payload}.${sealOf(key, `session.${payload}`)}`
      return {
        value,
        session: { principal: known.principal, expiresAtMs, csrf: sealOf(key, `csrf.${nonce}`) },
      }
    },
    read(cookies) {
      for (const value of valuesIn(cookies)) {
        const session = readValue(value)
        if (session !== undefined) return session
      }
      return undefined
    },
  }
}

/** Compares in constant time, since the sender may be guessing. */
export function equalInConstantTime(sent: string, right: string): boolean {
  return timingSafeEqual(digestOf(sent), digestOf(right))
}

/** Whether the request has a session cookie, valid or not. */
export function hasCookie(cookies: string | undefined): boolean {
  return valuesIn(cookies).length > 0
}

function sealOf(key: Buffer, text: string): string {
  return createHmac('sha256', key).update(text).digest('base64url')
}

function valuesIn(cookies = ''): readonly string[] {
  const named = cookies.split(';').map((pair) => pair.trim())
  const own = named.filter((pair) => pair.startsWith(`${COOKIE}=`)).slice(0, COOKIES_READ_MAX)
  return own.map((pair) => pair.slice(COOKIE.length + 1))
}

/** The `Set-Cookie` header; `seconds` of 0 or less removes the cookie. */
export function setCookie(value: string, seconds: number, isEncrypted: boolean): string {
  const age = Math.max(0, Math.floor(seconds))
  const secure = isEncrypted ? '; Secure' : ''
  return `${COOKIE}=${value}; Path=/admin; Max-Age=${age}; HttpOnly; SameSite=Strict${secure}`
}
