/** Parses `gateway`: its listener, its upstreams, and its timeouts. */
import { type PathPattern, parsePattern } from '@sluice/core'
import {
  reportAt,
  reportProblemAt,
  type MapNode,
  readBoolean,
  readOptional,
  readRequired,
  readText,
  type Located,
} from '@sluice/core/config-reader'
import type { GatewayConfig, ListenAddress, Upstream } from './config.js'
import type { Overrides } from './environment.js'
import { readFields, readExplicit, readSection, type Setting, resolveSetting } from './fields.js'
import { readListen } from './listen.js'
import { readOrigin } from './outbound-urls.js'
import { readCors } from './parse-cors.js'
import { readUsage, USAGE_FIELDS } from './parse-usage.js'
import { readDuration, readItems, readTls, readInteger, readWord } from './values.js'

const LISTEN: ListenAddress = { host: '127.0.0.1', port: 8080 }
const UPSTREAMS = { items: 'upstreams', most: 1000 }
const PATTERNS = { items: 'paths', most: 1000 }
const UPSTREAM_FIELDS = ['prefix', 'url', 'host', 'connections', 'websockets', ...USAGE_FIELDS]
const HOSTS = ['preserve', 'upstream'] as const
const CONNECTIONS = { least: 1, most: 10_000 }
const CONNECTIONS_DEFAULT = 256
const WEBSOCKETS = { least: 1, most: 100_000 }
const MAX_CONNECTIONS = { least: 1, most: 1_000_000 }
const MAX_CONNECTIONS_DEFAULT = 10_000
const MAX_CONNECTIONS_PER_ADDRESS_DEFAULT = 1000
const MAX_CALLS_PER_ADDRESS = { least: 1, most: 1_000_000 }
/** Fewer than the connections to an upstream, so that one address cannot take all of them. */
const MAX_CALLS_PER_ADDRESS_DEFAULT = 200
const MAX_HELD = { least: 0, most: 100_000 }
const MAX_HELD_DEFAULT = 1000
const TIMEOUT = { least: '100ms', most: '1h' }
const WEBSOCKET_IDLE = { least: '100ms', most: '24h' }
/** The default of Envoy; applications that ping, usually every half minute, never reach it. */
const WEBSOCKET_IDLE_MS_DEFAULT = 300_000
const ACCEPTED_PREFIX = 'a plain path such as /v1, which is for /v1 and all below it'
const ACCEPTED_REQUIRE_USER = 'true, false, or a list of paths such as /v1/*'

/** Every path: `/*` is everything below `/`, not `/` itself. */
const EVERY_PATH: readonly PathPattern[] = [
  { text: '/', segments: [{ literal: '' }], wildcard: false },
  { text: '/*', segments: [], wildcard: true },
]

const FIELDS: readonly string[] = [
  'listen',
  'tls',
  'upstreams',
  'headers',
  'cors',
  'requireUser',
  'maxConnections',
  'maxConnectionsPerAddress',
  'maxCallsPerAddress',
  'maxHeld',
  'timeouts',
]

export interface ParsedGateway {
  readonly config: GatewayConfig
  readonly listen: Setting<ListenAddress>
}

export function readGateway(
  root: Located<MapNode>,
  { folder, overrides }: { readonly folder: string; readonly overrides: Overrides },
): ParsedGateway {
  const map = readSection(root, 'gateway', FIELDS)
  const listen = resolveSetting(
    overrides.gatewayListen,
    readExplicit(map, 'listen', readListen),
    LISTEN,
  )
  const upstreams = readOptional(map, 'upstreams', readUpstreams) ?? []
  const origin = overrides.upstream?.value
  const number = (key: string, bounds: typeof CONNECTIONS, fallback: number) =>
    readOptional(map, key, (located) => readInteger(located, bounds)) ?? fallback
  const config: GatewayConfig = {
    listen: listen.value,
    tls: readOptional(map, 'tls', (located) => readTls(located, folder)),
    upstreams: origin === undefined ? upstreams : [upstreamAt(origin)],
    headers: readOptional(map, 'headers', readBoolean) ?? true,
    cors: readOptional(map, 'cors', readCors),
    requireUser: readOptional(map, 'requireUser', readRequireUser) ?? [],
    maxConnections: number('maxConnections', MAX_CONNECTIONS, MAX_CONNECTIONS_DEFAULT),
    maxConnectionsPerAddress: number(
      'maxConnectionsPerAddress',
      MAX_CONNECTIONS,
      MAX_CONNECTIONS_PER_ADDRESS_DEFAULT,
    ),
    maxCallsPerAddress: number(
      'maxCallsPerAddress',
      MAX_CALLS_PER_ADDRESS,
      MAX_CALLS_PER_ADDRESS_DEFAULT,
    ),
    maxHeld: number('maxHeld', MAX_HELD, MAX_HELD_DEFAULT),
    timeouts: readTimeouts(map),
  }
  return { config, listen }
}

/** One upstream for all paths, with the defaults. */
export function upstreamAt(origin: string): Upstream {
  const most = CONNECTIONS_DEFAULT
  return {
    prefix: '/',
    origin,
    host: 'preserve',
    connections: most,
    websockets: most,
    usage: undefined,
  }
}

function readUpstreams(located: Located): readonly Upstream[] | undefined {
  const prefixes = new Set<string>()
  return readItems(located, UPSTREAMS, (item) => readUpstream(item, prefixes))
}

function readUpstream(located: Located, prefixes: Set<string>): Upstream | undefined {
  const map = readFields(located, UPSTREAM_FIELDS)
  if (map === undefined) return undefined
  const given = readExplicit(map, 'prefix', readPrefix)
  const origin = readRequired(map, 'url', {
    accepted: 'where the upstream is, such as http://127.0.0.1:3000',
    read: readOrigin,
  })
  const host = readOptional(map, 'host', (field) => readWord(field, HOSTS))
  const connections =
    readOptional(map, 'connections', (field) => readInteger(field, CONNECTIONS)) ??
    CONNECTIONS_DEFAULT
  const websockets = readOptional(map, 'websockets', (field) => readInteger(field, WEBSOCKETS))
  const usage = readUsage(map)
  const prefix = given === undefined ? '/' : given.value
  if (prefix !== undefined && prefixes.has(prefix)) {
    reportAt(given?.located ?? located, 'duplicate-value', {
      found: `the prefix "${prefix}"`,
      accepted: 'a prefix of its own for each upstream',
    })
  }
  if (prefix === undefined || origin === undefined) return undefined
  prefixes.add(prefix)
  return {
    prefix,
    origin,
    host: host ?? 'preserve',
    connections,
    websockets: websockets ?? connections,
    usage,
  }
}

function readPrefix(located: Located): string | undefined {
  const text = readText(located, { accepted: ACCEPTED_PREFIX, most: Number.POSITIVE_INFINITY })
  if (text === undefined) return undefined
  const pattern = parsePattern(text)
  if ('problem' in pattern) return reportProblemAt(located, 'bad-path', pattern.problem)
  if (pattern.wildcard || pattern.segments.some((segment) => 'param' in segment)) {
    return reportAt(located, 'bad-path', { accepted: ACCEPTED_PREFIX })
  }
  if (text === '/' || !text.endsWith('/')) return text
  const suggestion = text.slice(0, -1)
  return reportAt(located, 'bad-path', { accepted: ACCEPTED_PREFIX, suggestion })
}

function readRequireUser(located: Located): readonly PathPattern[] | undefined {
  const { node } = located
  if (node.kind === 'list') return readPatterns(located)
  if (node.kind === 'scalar' && typeof node.value === 'boolean') return node.value ? EVERY_PATH : []
  return reportAt(located, 'wrong-type', { accepted: ACCEPTED_REQUIRE_USER })
}

function readPatterns(located: Located): readonly PathPattern[] | undefined {
  const texts = new Set<string>()
  return readItems(located, PATTERNS, (item) => {
    const accepted = 'a path such as /v1/orders/:id or /v1/*'
    const text = readText(item, { accepted, most: Number.POSITIVE_INFINITY })
    if (text === undefined) return undefined
    const pattern = parsePattern(text)
    if ('problem' in pattern) return reportProblemAt(item, 'bad-path', pattern.problem)
    if (texts.has(text)) return reportAt(item, 'duplicate-value', { accepted: 'each path once' })
    texts.add(text)
    return pattern
  })
}

function readTimeouts(gateway: Located<MapNode>): GatewayConfig['timeouts'] {
  const keys = ['headers', 'request', 'connect', 'queue', 'response', 'stall', 'websocketIdle']
  const map = readSection(gateway, 'timeouts', keys)
  const read = (key: string, fallbackMs: number, bounds = TIMEOUT) =>
    readOptional(map, key, (located) => readDuration(located, bounds)) ?? fallbackMs
  return {
    headersMs: read('headers', 9000),
    requestMs: read('request', 300_000),
    connectMs: read('connect', 5000),
    queueMs: read('queue', 30_000),
    responseMs: read('response', 30_000),
    stallMs: read('stall', 60_000),
    websocketIdleMs: read('websocketIdle', WEBSOCKET_IDLE_MS_DEFAULT, WEBSOCKET_IDLE),
  }
}
