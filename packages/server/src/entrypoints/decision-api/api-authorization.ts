/** Who may use the decision API: whoever has the token, and no web page. */
import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { bearerToken } from '../../lib/bearer-token.js'

/**
 * What the sender of a request may do. `anybody` showed no token where none is needed; undefined:
 * nothing that needs a token.
 */
export type Rights = 'anybody' | 'api' | 'admin' | undefined

export interface Tokens {
  rightsOf(authorization: string | undefined): Rights
}

export interface TokenOptions {
  /** Undefined: everybody who reaches the listener has the rights of the API. */
  readonly apiToken: string | undefined
  readonly adminToken: string
}

/** A longer one is wrong without the work of a hash; no token of ours is as long. */
const TOKEN_LENGTH_MAX = 1024

/**
 * Tokens are compared as hashes, each with both, whatever was sent: how long it takes says neither
 * how long a token is nor how much of it was right.
 */
export function createTokens({ apiToken, adminToken }: TokenOptions): Tokens {
  const admin = digestOf(adminToken)
  const api = apiToken === undefined ? undefined : digestOf(apiToken)
  const anybody: Rights = api === undefined ? 'anybody' : undefined
  return {
    rightsOf(authorization) {
      if (authorization === undefined && api === undefined) return anybody
      const digest = digestOf(bearerOf(authorization))
      const isAdmin = timingSafeEqual(digest, admin)
      const isApi = timingSafeEqual(digest, api ?? admin)
      return isAdmin ? 'admin' : isApi ? 'api' : anybody
    },
  }
}

/** Stands for a token that cannot be right. No header carries a line end. */
const NO_TOKEN = '\n'

export function bearerOf(authorization = ''): string {
  const token = bearerToken(authorization)
  return token === undefined || token.length > TOKEN_LENGTH_MAX ? NO_TOKEN : token
}

export function digestOf(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}

/**
 * A page that somebody opens may send requests to any address that the browser reaches, this
 * machine's own included. Browsers say so in headers that no page can leave out.
 */
export function isFromPage(headers: IncomingHttpHeaders): boolean {
  if (headers.origin !== undefined) return true
  const site = headers['sec-fetch-site']
  return site !== undefined && site !== 'none' && site !== 'same-origin'
}
