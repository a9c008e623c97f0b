/** The headers of a call as the upstream sees them. */
import type { IncomingMessage } from 'node:http'
import type { FlatHeaders } from '../http/responses.js'

/** Of one connection, never of the next. What a client lists in `Connection` goes as well. */
const HOP_BY_HOP = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
  // Answered by the gateway itself, when the call is admitted.
  'expect',
]

/** Written by the gateway alone: what the client sent under these names is not true. */
const REWRITTEN = ['x-forwarded-for', 'forwarded', 'x-real-ip', 'x-sluice-over']

/** Kept as a trusted proxy wrote them, else written by the gateway. */
const TRUSTED_ONLY = [
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-forwarded-port',
  'x-forwarded-prefix',
  'x-forwarded-server',
  'x-forwarded-scheme',
  'x-forwarded-protocol',
  'x-forwarded-ssl',
  'x-url-scheme',
  'front-end-https',
  'forwarded-for',
  'x-original-forwarded-for',
  'x-client-ip',
  'x-cluster-client-ip',
  'x-remote-addr',
  'x-envoy-external-address',
  'x-azure-clientip',
  'true-client-ip',
  'cf-connecting-ip',
  'fastly-client-ip',
  'fly-client-ip',
]

/**
 * With these, an upstream would serve another method or path than the one that was counted. They
 * are dropped from trusted proxies as well: many pass on what their client wrote.
 */
const OVERRIDES = [
  'x-http-method-override',
  'x-http-method',
  'x-method-override',
  'x-original-url',
  'x-rewrite-url',
  'x-original-uri',
  'x-original-method',
  'x-forwarded-uri',
  'x-forwarded-method',
  'x-forwarded-path',
  'x-envoy-original-path',
]

export interface HeaderRules {
  /** Identity headers that only a trusted proxy may set. */
  readonly proxyHeaders: readonly string[]
  /** Names whose spelling with `_` or `.` some upstreams read as the name itself. */
  readonly identityHeaders: readonly string[]
}

export interface HeaderWriter {
  write(request: IncomingMessage, context: UpstreamHeaderContext): FlatHeaders
}

export interface UpstreamHeaderContext {
  readonly trusted: boolean
  readonly forwardedFor: string
  readonly host: string
  readonly proto: 'http' | 'https'
  /** Shadow rules with a tag that would have refused. */
  readonly tags: readonly string[]
}

const DROP = 1
const DROP_UNLESS_TRUSTED = 2

export function createHeaderWriter(rules: HeaderRules): HeaderWriter {
  const fates = new Map<string, number>()
  for (const name of [...HOP_BY_HOP, ...REWRITTEN, ...OVERRIDES, 'host']) {
    fates.set(name, DROP)
  }
  for (const name of [...TRUSTED_ONLY, ...rules.proxyHeaders]) fates.set(name, DROP_UNLESS_TRUSTED)
  const aliased = new Set([...fates.keys(), ...rules.identityHeaders, 'content-length'])
  return { write: (request, context) => writeHeaders(request, context, fates, aliased) }
}

function writeHeaders(
  { rawHeaders, headers }: IncomingMessage,
  context: UpstreamHeaderContext,
  fates: ReadonlyMap<string, number>,
  aliased: ReadonlySet<string>,
): FlatHeaders {
  const listed = connectionTokens(headers.connection)
  const flat: FlatHeaders = ['host', context.host]
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? ''
    const lower = name.toLowerCase()
    const fate = fates.get(lower)
    if (fate === DROP || (fate !== undefined && !context.trusted)) continue
    // What a trusted proxy says of its client is not the client's to remove either.
    if ((fate === undefined && listed?.has(lower)) || isAlias(lower, aliased)) continue
    flat.push(name, rawHeaders[i + 1] ?? '')
  }
  if (/\btrailers\b/i.test(String(headers.te ?? ''))) flat.push('te', 'trailers')
  // After everything that `Connection` could remove.
  flat.push('x-forwarded-for', context.forwardedFor)
  if (!context.trusted || headers['x-forwarded-proto'] === undefined) {
    flat.push('x-forwarded-proto', context.proto)
  }
  if (!context.trusted || headers['x-forwarded-host'] === undefined) {
    flat.push('x-forwarded-host', headers.host ?? context.host)
  }
  if (context.tags.length > 0) flat.push('x-sluice-over', context.tags.join(', '))
  return flat
}

/** Headers that `Connection` lists, in lower case; undefined where it lists none of interest. */
export function connectionTokens(connection: string | undefined): ReadonlySet<string> | undefined {
  if (connection === undefined) return undefined
  const lower = connection.toLowerCase()
  if (lower === 'keep-alive' || lower === 'close') return undefined
  const tokens = new Set(lower.split(',').map((token) => token.trim()))
  // They say how long the message is, and are never the client's to remove.
  tokens.delete('content-length')
  return tokens
}

/** `X_Forwarded_For` becomes `X-Forwarded-For` in CGI, WSGI and their heirs. */
function isAlias(lower: string, aliased: ReadonlySet<string>): boolean {
  if (!lower.includes('_') && !lower.includes('.')) return false
  return aliased.has(lower.replace(/[_.]/g, '-'))
}
