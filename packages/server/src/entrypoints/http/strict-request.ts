/**
 * What the parser of Node lets through and a gateway must not: a request that the next server could
 * read in another way than this one did. Whoever finds a problem answers it and closes the
 * connection.
 */
import { type IncomingMessage, METHODS } from 'node:http'
import { show } from '@sluice/core'

export interface RequestProblem {
  readonly status: 400 | 405 | 417 | 505
  readonly detail: string
  /** Names and values in turn. */
  readonly headers?: string[] | undefined
}

const HEADER_LINES_MAX = 100
const HOST_LENGTH_MAX = 261

/** A name, an IPv4 or a bracketed IPv6 address, and a port. */
const HOST = /^(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?$/i
const ABSOLUTE = /^https?:\/\/([^/?]*)/i
/** Some servers read a leading zero as octal. */
const LENGTH = /^(?:0|[1-9][0-9]{0,15})$/
/** The parser also takes those of RTSP and ICE, whose versions it then calls HTTP/1.0. */
const HTTP_METHODS: ReadonlySet<string> = new Set(METHODS.filter((name) => name !== 'SOURCE'))
/** Once or several times over. */
const CONTINUE = /^100-continue(?:, *100-continue)*$/i
const ALLOWED = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'

/** Undefined: the request means one thing. */
export function findRequestProblem(request: IncomingMessage): RequestProblem | undefined {
  const { httpVersion, method = '', rawHeaders } = request
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    return { status: 505, detail: `version: found ${httpVersion}; accepted: HTTP/1.1, HTTP/1.0` }
  }
  if (!HTTP_METHODS.has(method)) return badRequest('method', method, 'methods of HTTP')
  if (method === 'TRACE' || method === 'CONNECT') return refuseMethod(method)
  const framing: FramingHeaders = {
    host: undefined,
    length: undefined,
    encoding: undefined,
    authorizations: 0,
  }
  return (
    findHeaderProblem(rawHeaders, framing) ??
    findHostProblem(framing.host, httpVersion) ??
    findFramingProblem(framing, httpVersion) ??
    findExpectationProblem(request.headers.expect) ??
    findTargetProblem(request.url ?? '', framing.host)
  )
}

export function refuseMethod(method: string): RequestProblem {
  const detail = `method: found ${method}; accepted: ${ALLOWED}`
  return { status: 405, detail, headers: ['Allow', ALLOWED] }
}

/** The headers that say where a message ends and whose it is. */
interface FramingHeaders {
  host: string | undefined
  length: string | undefined
  encoding: string | undefined
  authorizations: number
}

/**
 * One pass over all lines; also notes in `seen` those that decide what the message is. Values are
 * not looked through for control characters and folds: the parser has refused those, and looking
 * at every character again would cost more than all the rest.
 */
function findHeaderProblem(
  raw: readonly string[],
  framing: FramingHeaders,
): RequestProblem | undefined {
  if (raw.length > HEADER_LINES_MAX * 2) {
    return badRequest('headers', `${raw.length / 2} lines`, `up to ${HEADER_LINES_MAX}`)
  }
  for (let i = 0; i < raw.length; i += 2) {
    const duplicate = recordHeader(framing, raw[i] ?? '', raw[i + 1] ?? '')
    if (duplicate !== undefined) return badRequest(`header ${duplicate}`, 'it twice', 'one')
  }
  return undefined
}

/** The name of a header that may not come twice and did. */
function recordHeader(framing: FramingHeaders, name: string, value: string): string | undefined {
  // Few names have these lengths, so few are looked at.
  switch (name.length) {
    case 4:
      if (name.toLowerCase() !== 'host') return undefined
      if (framing.host !== undefined) return 'host'
      framing.host = value
      return undefined
    case 13:
      if (name.toLowerCase() !== 'authorization') return undefined
      return ++framing.authorizations > 1 ? 'authorization' : undefined
    case 14:
      if (name.toLowerCase() !== 'content-length') return undefined
      if (framing.length !== undefined) return 'content-length'
      framing.length = value
      return undefined
    case 17:
      if (name.toLowerCase() !== 'transfer-encoding') return undefined
      if (framing.encoding !== undefined) return 'transfer-encoding'
      framing.encoding = value
      return undefined
    default:
      return undefined
  }
}

function findHostProblem(host: string | undefined, version: string): RequestProblem | undefined {
  if (host === undefined) {
    return version === '1.0'
      ? undefined
      : badRequest('header host', 'none', 'one: example.com:8080')
  }
  if (host.length <= HOST_LENGTH_MAX && HOST.test(host)) return undefined
  return badRequest('header host', host, 'a name or an address, and a port')
}

function findFramingProblem(
  { length, encoding }: FramingHeaders,
  version: string,
): RequestProblem | undefined {
  if (encoding !== undefined) {
    if (encoding.toLowerCase() !== 'chunked')
      return badRequest('transfer-encoding', encoding, 'chunked')
    if (version === '1.0')
      return badRequest('transfer-encoding', 'it with HTTP/1.0', 'it with HTTP/1.1')
    if (length !== undefined)
      return badRequest('transfer-encoding', 'content-length too', 'one of them')
  }
  if (length === undefined) return undefined
  if (LENGTH.test(length) && Number.isSafeInteger(Number(length))) return undefined
  return badRequest('content-length', length, 'a whole number')
}

function findExpectationProblem(expect: string | undefined): RequestProblem | undefined {
  if (expect === undefined || CONTINUE.test(expect)) return undefined
  return { ...badRequest('header expect', expect, '100-continue'), status: 417 }
}

/** `/path`, or `http://host/path` where the host is that of the header. */
function findTargetProblem(url: string, host: string | undefined): RequestProblem | undefined {
  if (url.includes('#')) return badRequest('target', url, 'no fragment')
  if (url.startsWith('/')) return undefined
  const authority = ABSOLUTE.exec(url)?.[1]
  if (authority === undefined) return badRequest('target', url, '/path, or http://host/path')
  if (host === undefined ? HOST.test(authority) : isSameHost(authority, host)) return undefined
  return badRequest('target', url, 'the host of the header host')
}

function isSameHost(authority: string, host: string): boolean {
  return authority.toLowerCase() === host.toLowerCase()
}

function badRequest(place: string, found: string, accepted: string): RequestProblem {
  return { status: 400, detail: `${place}: found ${show(found)}; accepted: ${accepted}` }
}
