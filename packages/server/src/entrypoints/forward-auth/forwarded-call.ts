/**
 * Reads the call that a proxy wants to forward from its headers.
 *
 * Proxies forward headers of their clients. If a proxy writes one of these headers and its client
 * sent another, it cannot be decided here which is true, and a client could be counted for another
 * path than the one it requests. So all headers that are present must agree.
 */
import type { IncomingMessage } from 'node:http'
import { canonicalPath, type ErrorCode, MESSAGE, SluiceError, show } from '@sluice/core'
import { pathBelow } from '../decision-api/routes.js'

export interface ForwardedCall {
  /** In capitals. */
  readonly method: string
  /** Canonical. */
  readonly path: string
}

const METHOD_HEADERS = ['x-forwarded-method', 'x-original-method']
const PATH_HEADERS = ['x-forwarded-uri', 'x-original-uri']

/** Throws a SluiceError of status 400 if the call is ambiguous. */
export function readForwardedCall(request: IncomingMessage): ForwardedCall {
  const methods = readClaims(request, METHOD_HEADERS)
  const paths = readClaims(request, PATH_HEADERS)
  const below = pathBelow(request.url ?? '')
  if (below !== undefined) paths.push({ place: 'path', value: below })
  return {
    // The method of the proxy's own request says little: most always send GET.
    method: requireAgreement(methods, readMethod, 'CALL_INVALID') ?? request.method ?? 'GET',
    path: requireAgreement(paths, readPath, 'CALL_PATH_INVALID') ?? '/',
  }
}

interface HeaderClaim {
  readonly place: string
  readonly value: string
}

/** The values of the headers that were sent; one that was sent twice is refused. */
function readClaims({ headersDistinct }: IncomingMessage, names: readonly string[]): HeaderClaim[] {
  return names.flatMap((place) => {
    const [value, ...more] = headersDistinct[place] ?? []
    if (more.length === 0) return value === undefined ? [] : { place, value }
    throw new SluiceError('CALL_INVALID', `The ${place} header was sent more than once.`)
  })
}

function requireAgreement(
  all: readonly HeaderClaim[],
  read: (claim: HeaderClaim) => string,
  code: ErrorCode,
): string | undefined {
  const [first, ...others] = all
  if (first === undefined) return undefined
  const value = read(first)
  for (const other of others) {
    const otherValue = read(other)
    if (otherValue === value) continue
    throw new SluiceError(
      code,
      `${other.place}: found "${show(otherValue)}"; accepted: "${show(value)}", as in ${first.place}`,
    )
  }
  return value
}

/** A token of RFC 9110; no registered method is as long. */
const METHOD = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$/

function readMethod({ place, value }: HeaderClaim): string {
  const method = value.toUpperCase()
  // This method stands for WebSocket messages, which most rules do not cover.
  if (METHOD.test(value) && method !== MESSAGE) return method
  const accepted = 'a method of 1 to 32 characters such as GET'
  throw new SluiceError('CALL_INVALID', `${place}: found "${show(value)}"; accepted: ${accepted}`)
}

function readPath({ place, value }: HeaderClaim): string {
  const canonical = canonicalPath(value)
  if (canonical.ok) return canonical.path
  throw new SluiceError('CALL_PATH_INVALID', `${place}: ${canonical.reason}`)
}
