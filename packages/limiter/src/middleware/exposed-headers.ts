/**
 * Lets pages of other origins read the rate limit headers. Which pages may read a response at all
 * is up to the application: nothing here allows an origin.
 */
import { ALLOW_CREDENTIALS, EXPOSE_HEADERS, exposeHeaders, type FlatHeaders } from '@sluice/core'

/** A response whose headers can be read: of Node, of Fastify, or by `fetchResponse`. */
interface ReadableHeaders {
  getHeader(name: string): number | string | readonly string[] | null | undefined
}

/**
 * Returns the headers with `Access-Control-Expose-Headers`, if the request has an origin: the list
 * that the response has already, and the names of these headers. Without the response's permission
 * for the origin browsers ignore the list.
 */
export function withExposed(
  headers: FlatHeaders,
  origin: string | string[] | null | undefined,
  response: ReadableHeaders,
): FlatHeaders {
  if (origin === undefined || origin === null || headers.length === 0) return headers
  const listed = response.getHeader(EXPOSE_HEADERS)
  const allowsCredentials = response.getHeader(ALLOW_CREDENTIALS) === 'true'
  const text = listed === undefined || listed === null ? undefined : listed.toString()
  return [...headers, EXPOSE_HEADERS, exposeHeaders(text, headers, allowsCredentials)]
}

/** The headers of a Fetch response, for `withExposed`. */
export function fetchResponse(headers: Headers): ReadableHeaders {
  return { getHeader: (name) => headers.get(name) }
}
