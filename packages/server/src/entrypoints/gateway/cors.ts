/**
 * What browsers need to let a page of another origin read rate limit headers. Whether a page may
 * read the responses of an upstream is the upstream's decision alone; `gateway.cors` is the same
 * decision for the responses that the gateway makes itself.
 */
import type { IncomingMessage } from 'node:http'
import { ALLOW_CREDENTIALS, EXPOSE_HEADERS, exposeHeaders } from '@sluice/core'
import type { GatewayConfig } from '../../config/config.js'
import type { FlatHeaders } from '../http/responses.js'

/**
 * Adds the rate limit headers to the exposed headers of a response of an upstream that allows
 * other origins. Several lines of them become one.
 */
export function exposeRateLimit(headers: FlatHeaders, rateLimitHeaders: FlatHeaders): void {
  if (rateLimitHeaders.length === 0) return
  let listed: string | undefined
  let allowsCredentials = false
  for (let i = headers.length - 2; i >= 0; i -= 2) {
    const lower = headers[i]?.toLowerCase()
    if (lower === ALLOW_CREDENTIALS.toLowerCase()) allowsCredentials = headers[i + 1] === 'true'
    if (lower !== EXPOSE_HEADERS.toLowerCase()) continue
    const value = headers[i + 1] ?? ''
    listed = listed === undefined ? value : `${value}, ${listed}`
    headers.splice(i, 2)
  }
  headers.push(EXPOSE_HEADERS, exposeHeaders(listed, rateLimitHeaders, allowsCredentials))
}

/**
 * Returns the headers of a response that the gateway makes itself, with those of CORS if `cors`
 * names the origin of the request.
 */
export function withCors(
  cors: GatewayConfig['cors'],
  { headers: { origin } }: IncomingMessage,
  headers: FlatHeaders,
): FlatHeaders {
  if (cors === undefined) return headers
  const { origins, credentials } = cors
  if (origins === '*') {
    if (origin === undefined) return headers
    return [...headers, 'Access-Control-Allow-Origin', '*', EXPOSE_HEADERS, exposedBy(headers)]
  }
  // Also without an origin: a cache must not pass the response on to a page.
  const varied = [...headers, 'Vary', 'Origin']
  if (origin === undefined || !origins.has(origin)) return varied
  varied.push('Access-Control-Allow-Origin', origin, EXPOSE_HEADERS, exposedBy(headers))
  if (credentials) varied.push(ALLOW_CREDENTIALS, 'true')
  return varied
}

/** `Retry-After` too: a response without a rule may have it, such as that of a busy upstream. */
function exposedBy(headers: FlatHeaders): string {
  return exposeHeaders('Retry-After', headers, false)
}
