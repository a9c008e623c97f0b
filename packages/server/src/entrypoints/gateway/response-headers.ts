/** Builds the response headers that are sent to the client. */
import type { FlatHeaders } from '../http/responses.js'
import { exposeRateLimit } from './cors.js'
import { connectionTokens } from './request-headers.js'

const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
])

/** Replaced by those of the gateway if a rule matched. */
const RATE_LIMIT: ReadonlySet<string> = new Set([
  'ratelimit',
  'ratelimit-policy',
  'ratelimit-limit',
  'ratelimit-remaining',
  'ratelimit-reset',
  'x-ratelimit-limit',
  'x-ratelimit-remaining',
  'x-ratelimit-reset',
])

/** A link in the form that Node accepts; it throws on others. */
const LINK = /^<[^>]*>(?:\s*;\s*[^;"\s=]+(?:=(?:"[^;"\s]*"|[^;"\s=]*))?)*$/
const LINK_LENGTH_MAX = 1024

type RawHeaders = readonly (Buffer | string)[]

export interface ResponseHead {
  readonly headers: FlatHeaders
  /** The upstream sent a date of its own. */
  readonly hasDate: boolean
}

/** `raw`: names and values in turn; `own`: the rate limit headers, empty if no rule matched. */
export function readResponseHead(
  status: number,
  raw: RawHeaders,
  rateLimitHeaders: FlatHeaders,
  canTrail: boolean,
): ResponseHead {
  const listed = listedIn(raw)
  const headers: FlatHeaders = [...rateLimitHeaders]
  let hasDate = false
  let hasLength = false
  let hasCors = false
  let trailer: string | undefined
  for (let i = 0; i < raw.length; i += 2) {
    const name = textOf(raw[i])
    const lower = name.toLowerCase()
    if (HOP_BY_HOP.has(lower) || listed?.has(lower)) continue
    if (rateLimitHeaders.length > 0 && RATE_LIMIT.has(lower)) continue
    if (lower === 'content-length') {
      // A 204 has no length; one that says so makes some clients wait for a body.
      if (status === 204) continue
      hasLength = true
    }
    if (lower === 'trailer') {
      trailer = textOf(raw[i + 1])
      continue
    }
    if (lower === 'date') hasDate = true
    if (lower === 'access-control-allow-origin') hasCors = true
    headers.push(name, textOf(raw[i + 1]))
  }
  if (hasCors) exposeRateLimit(headers, rateLimitHeaders)
  if (trailer !== undefined && canTrail && !hasLength) headers.push('Trailer', trailer)
  return { headers, hasDate }
}

/** The early hints of a 103 response; undefined if there are none that Node accepts. */
export function readEarlyHints(
  status: number,
  raw: RawHeaders,
): Record<string, string[]> | undefined {
  if (status !== 103) return undefined
  const links: string[] = []
  for (let i = 0; i < raw.length; i += 2) {
    if (textOf(raw[i]).toLowerCase() === 'link') links.push(textOf(raw[i + 1]))
  }
  const isTaken =
    links.length > 0 && links.every((link) => link.length <= LINK_LENGTH_MAX && LINK.test(link))
  return isTaken ? { link: links } : undefined
}

/** Trailers as pairs, without rate limit fields. */
export function readTrailers(raw: RawHeaders | null): [string, string][] {
  const trailers: [string, string][] = []
  for (let i = 0; raw !== null && i < raw.length; i += 2) {
    const name = textOf(raw[i])
    const lower = name.toLowerCase()
    if (HOP_BY_HOP.has(lower) || RATE_LIMIT.has(lower) || lower === 'content-length') continue
    trailers.push([name, textOf(raw[i + 1])])
  }
  return trailers
}

/** The value of a header that may be there once; empty if it is not. */
export function headerOf(raw: RawHeaders, name: string): string {
  for (let i = 0; i < raw.length; i += 2) {
    if (raw[i]?.length === name.length && textOf(raw[i]).toLowerCase() === name) {
      return textOf(raw[i + 1])
    }
  }
  return ''
}

/** What all `Connection` lines list. */
function listedIn(raw: RawHeaders): ReadonlySet<string> | undefined {
  let lines: string | undefined
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]
    if (name?.length !== 10 || textOf(name).toLowerCase() !== 'connection') continue
    const value = textOf(raw[i + 1])
    lines = lines === undefined ? value : `${lines}, ${value}`
  }
  return connectionTokens(lines)
}

/** Bytes of headers are Latin-1, whatever they mean. */
function textOf(bytes: Buffer | string | undefined): string {
  if (bytes === undefined) return ''
  return typeof bytes === 'string' ? bytes : bytes.toString('latin1')
}
