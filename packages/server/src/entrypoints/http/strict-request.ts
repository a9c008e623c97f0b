/**
 * Refuses requests that Node's parser accepts and that an upstream could read differently from this
 * server. The caller sends the problem and closes the connection.
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
/** Without leading zeros, which some servers read as octal. */
const LENGTH = /^(?:0|[1-9][0-9]{0,15})$/
/** The parser also accepts methods of RTSP and ICE, and reports their version as HTTP/1.0. */
const HTTP_METHODS: ReadonlySet<string> = new Set(METHODS.filter((name) => name !== 'SOURCE'))
/** One or more times, in one list. */
const CONTINUE = /^100-continue(?:, *100-continue)*$/i
const ALLOWED = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'

/** Undefined where every server reads the request the same way. */
export function findRequestProblem(request: IncomingMessage): RequestProblem | undefined {
  const { httpVersion, method = '', rawHeaders } = request
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    return { status: 505, detail: `HTTP/${httpVersion} is not supported. Use HTTP/1.1.` }
  }
  if (!HTTP_METHODS.has(method)) return badRequest(`${show(method)} is not an HTTP method.`)
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
  const detail = `${method} is not allowed. Allowed methods: ${ALLOWED}.`
  return { status: 405, detail, headers: ['Allow', ALLOWED] }
}

/** The headers that decide where a message ends and which host it is for. */
interface FramingHeaders {
  host: string | undefined
  length: string | undefined
  encoding: string | undefined
  authorizations: number
}

/**
 * Reads all header lines once and records the framing headers. Values are not searched for control
 * characters and folds: the parser refuses those, and a second search would cost more than all
 * other checks together.
 */
function findHeaderProblem(
  raw: readonly string[],
  framing: FramingHeaders,
): RequestProblem | undefined {
  if (raw.length > HEADER_LINES_MAX * 2) {
    return badRequest(`Requests may have at most ${HEADER_LINES_MAX} header lines.`)
  }
  for (let i = 0; i < raw.length; i += 2) {
    const duplicate = recordHeader(framing, raw[i] ?? '', raw[i + 1] ?? '')
    if (duplicate !== undefined) {
      return badRequest(`The ${duplicate} header was sent more than once.`)
    }
  }
  return undefined
}

/** Returns the name of a header that was repeated and must not be. */
function recordHeader(framing: FramingHeaders, name: string, value: string): string | undefined {
  // Few names have these lengths, so few are compared.
  switch (name.length) {
    case 4:
      if (name.toLowerCase() !== 'host') return undefined
      if (framing.host !== undefined) return 'Host'
      framing.host = value
      return undefined
    case 13:
      if (name.toLowerCase() !== 'authorization') return undefined
      return ++framing.authorizations > 1 ? 'Authorization' : undefined
    case 14:
      if (name.toLowerCase() !== 'content-length') return undefined
      if (framing.length !== undefined) return 'Content-Length'
      framing.length = value
      return undefined
    case 17:
      if (name.toLowerCase() !== 'transfer-encoding') return undefined
      if (framing.encoding !== undefined) return 'Transfer-Encoding'
      framing.encoding = value
      return undefined
    default:
      return undefined
  }
}

function findHostProblem(host: string | undefined, version: string): RequestProblem | undefined {
  if (host === undefined) {
    return version === '1.0' ? undefined : badRequest('The Host header is missing.')
  }
  if (host.length <= HOST_LENGTH_MAX && HOST.test(host)) return undefined
  return badRequest(`The Host header is not a valid host and port: ${show(host)}`)
}

function findFramingProblem(
  { length, encoding }: FramingHeaders,
  version: string,
): RequestProblem | undefined {
  if (encoding !== undefined) {
    if (encoding.toLowerCase() !== 'chunked')
      return badRequest('Transfer-Encoding must be chunked.')
    if (version === '1.0') return badRequest('Transfer-Encoding is not allowed in HTTP/1.0.')
    if (length !== undefined)
      return badRequest('Content-Length and Transfer-Encoding must not be sent together.')
  }
  if (length === undefined) return undefined
  if (LENGTH.test(length) && Number.isSafeInteger(Number(length))) return undefined
  return badRequest(`Content-Length is not a whole number: ${show(length)}`)
}

function findExpectationProblem(expect: string | undefined): RequestProblem | undefined {
  if (expect === undefined || CONTINUE.test(expect)) return undefined
  return { status: 417, detail: 'The only supported expectation is 100-continue.' }
}

/** `/path`, or `http://host/path` where the host is that of the header. */
function findTargetProblem(url: string, host: string | undefined): RequestProblem | undefined {
  if (url.includes('#')) return badRequest('The request target contains a fragment.')
  if (url.startsWith('/')) return undefined
  const authority = ABSOLUTE.exec(url)?.[1]
  if (authority === undefined) {
    return badRequest(`The request target is neither /path nor http://host/path: ${show(url)}`)
  }
  if (host === undefined ? HOST.test(authority) : isSameHost(authority, host)) return undefined
  return badRequest('The host of the request target differs from the Host header.')
}

function isSameHost(authority: string, host: string): boolean {
  return authority.toLowerCase() === host.toLowerCase()
}

function badRequest(detail: string): RequestProblem {
  return { status: 400, detail }
}
