/** Authorization of the decision API: by bearer token; requests of web pages are refused. */
import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { bearerToken } from '../../lib/bearer-token.js'

/**
 * What the sender of a request may do. `anybody`: it sent no token and none is required; undefined:
 * nothing that requires a token.
 */
export type Rights = 'anybody' | 'api' | 'admin' | undefined

export interface Tokens {
  rightsOf(authorization: string | undefined): Rights
}

export interface TokenOptions {
  /** Undefined: every client of the listener has the rights of the API. */
  readonly apiToken: string | undefined
  readonly adminToken: string
}

/** Longer tokens are refused without hashing; no valid token is as long. */
const TOKEN_LENGTH_MAX = 1024

/**
 * Compares hashes of tokens, always with both tokens, so that the time reveals neither the length
 * of a token nor how much of it was right.
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

/** A token that is never valid: no header contains a line end. */
const NO_TOKEN = '\n'

export function bearerOf(authorization = ''): string {
  const token = bearerToken(authorization)
  return token === undefined || token.length > TOKEN_LENGTH_MAX ? NO_TOKEN : token
}

export function digestOf(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}

/**
 * A web page can send requests to any address that its browser reaches, including loopback.
 * Browsers mark such requests with headers that a page cannot remove.
 */
export function isFromPage(headers: IncomingHttpHeaders): boolean {
  if (headers.origin !== undefined) return true
  const site = headers['sec-fetch-site']
  return site !== undefined && site !== 'none' && site !== 'same-origin'
}
