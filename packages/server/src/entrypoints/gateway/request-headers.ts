/** Builds the request headers that are sent to the upstream. */
import type { IncomingMessage } from 'node:http'
import type { FlatHeaders } from '../http/responses.js'

/** Valid for one connection only. Headers listed in `Connection` are dropped as well. */
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
  // The gateway answers it itself when it admits the call.
  'expect',
]

/** Written by the gateway only; values of the client are dropped. */
const REWRITTEN = ['x-forwarded-for', 'forwarded', 'x-real-ip', 'x-sluice-over']

/** Kept from a trusted proxy, otherwise written by the gateway. */
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
 * Headers that make an upstream serve another method or path than the one that was counted. They
 * are dropped from trusted proxies too, since many forward those of their clients.
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
    // A client must not remove headers of a trusted proxy through `Connection`.
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
  // Framing headers must not be removed through `Connection`.
  tokens.delete('content-length')
  return tokens
}

/** CGI, WSGI and similar servers read `X_Forwarded_For` as `X-Forwarded-For`. */
function isAlias(lower: string, aliased: ReadonlySet<string>): boolean {
  if (!lower.includes('_') && !lower.includes('.')) return false
  return aliased.has(lower.replace(/[_.]/g, '-'))
}
