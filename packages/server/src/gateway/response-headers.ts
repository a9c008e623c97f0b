/** The headers of an upstream's answer as the client sees them. */
import type { FlatHeaders } from '../http/answer.js'
import { connectionTokens } from './request-headers.js'

const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
])

/** Replaced by the gateway's own where a rule spoke. */
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

export interface ResponseHead {
  readonly headers: FlatHeaders
  /** The upstream sent a date of its own. */
  readonly hasDate: boolean
}

/** `raw` is names and values in turn; `own` is what the gateway adds, nothing if no rule spoke. */
export function readResponseHead(
  status: number,
  raw: readonly (Buffer | string)[],
  own: FlatHeaders,
): ResponseHead {
  const listed = listedIn(raw)
  const headers: FlatHeaders = [...own]
  let hasDate = false
  for (let i = 0; i < raw.length; i += 2) {
    const name = textOf(raw[i])
    const lower = name.toLowerCase()
    if (HOP_BY_HOP.has(lower) || listed?.has(lower)) continue
    if (own.length > 0 && RATE_LIMIT.has(lower)) continue
    // A 204 has no length; one that says so makes some clients wait for a body.
    if (status === 204 && lower === 'content-length') continue
    if (lower === 'date') hasDate = true
    headers.push(name, textOf(raw[i + 1]))
  }
  return { headers, hasDate }
}

/** Trailers as pairs; rate limit fields must not stand there. */
export function readTrailers(raw: readonly (Buffer | string)[] | null): [string, string][] {
  const trailers: [string, string][] = []
  for (let i = 0; raw !== null && i < raw.length; i += 2) {
    const name = textOf(raw[i])
    const lower = name.toLowerCase()
    if (HOP_BY_HOP.has(lower) || RATE_LIMIT.has(lower) || lower === 'content-length') continue
    trailers.push([name, textOf(raw[i + 1])])
  }
  return trailers
}

function listedIn(raw: readonly (Buffer | string)[]): ReadonlySet<string> | undefined {
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]
    if (name?.length === 10 && textOf(name).toLowerCase() === 'connection') {
      return connectionTokens(textOf(raw[i + 1]))
    }
  }
  return undefined
}

/** Bytes of headers are Latin-1, whatever they mean. */
function textOf(bytes: Buffer | string | undefined): string {
  if (bytes === undefined) return ''
  return typeof bytes === 'string' ? bytes : bytes.toString('latin1')
}
