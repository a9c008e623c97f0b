/**
 * The configuration of `sluice serve --as-envoy-ratelimit`: the variables, defaults and ports of
 * envoyproxy/ratelimit, so that only the name of an image changes. A value that cannot be honoured
 * is an error.
 */
import { join } from 'node:path'
import type {
  Config,
  EnvoyServiceConfig,
  ListenAddress,
  ReferenceHeaders,
  ServerTlsFiles,
} from '../config.js'
import { VARIABLES } from '../environment.js'
import { formatListen, isClash, readListen } from '../listen.js'
import { parseConfig } from '../parse-config.js'
import { readPrefix } from '../parse-redis.js'
import type { Environment } from '../variables.js'
import { findIgnored, type IgnoredVariables } from './ratelimit-ignored.js'
import { type RatelimitRedis, readRatelimitRedis, requirePair } from './ratelimit-redis.js'
import { RatelimitVariables } from './ratelimit-variables.js'
import { readRatelimitXds } from './ratelimit-xds.js'

/** What `--as-envoy-ratelimit` listens on, beside the rate limit service. */
interface RatelimitListeners {
  /** `/healthcheck` and `/json`. */
  readonly http: ListenAddress
  /** `/rlconfig`. */
  readonly debug: ListenAddress
  /** Undefined: metrics are not served. */
  readonly metrics: { readonly listen: ListenAddress; readonly path: string } | undefined
}

export interface RatelimitConfig {
  readonly config: Config
  readonly listeners: RatelimitListeners
  /** Whether the node is unhealthy until it has a configuration. */
  readonly waitsForConfig: boolean
}

export interface ParsedRatelimitConfig {
  /** Undefined if there are errors. */
  readonly config: RatelimitConfig | undefined
  readonly errors: readonly string[]
  readonly ignored: readonly IgnoredVariables[]
}

/** Those of Sluice that have no counterpart; all others have no effect. */
const OWN_VARIABLES: readonly string[] = [
  'SLUICE_STORE_DEADLINE_MS',
  'SLUICE_KEY_SECRET',
  'SLUICE_DATA_DIR',
]
const HOST = '0.0.0.0'
const PORTS = { http: '8080', grpc: '8081', debug: '6070' }
const METRICS_ADDRESS = ':9090'
const METRICS_PATH = '/metrics'
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/
const PATH = /^\/[A-Za-z0-9._~/-]{0,255}$/
const RUNTIME_ROOT = '/srv/runtime_data/current'
const RUNTIME_APP_DIRECTORY = 'config'
const NEAR_LIMIT_RATIO = 0.8
const AGE = { leastMs: 1000, mostMs: 8_760 * 3_600_000 }
const LOG_LEVELS: Readonly<Record<string, Config['log']['level']>> = {
  trace: 'debug',
  debug: 'debug',
  info: 'info',
  warn: 'warn',
  warning: 'warn',
  error: 'error',
  fatal: 'error',
  panic: 'error',
}

/** Never throws. */
export function parseRatelimitEnvironment(env: Environment): ParsedRatelimitConfig {
  const variables = new RatelimitVariables(env)
  const redis = readBackend(variables)
  const base = parseBase(env, redis?.url)
  const listeners = readListeners(variables)
  const envoy = base.config && readService(variables, base.config.envoy, listeners.grpc)
  const level = readLogLevel(variables)
  const prefix = variables.read('CACHE_KEY_PREFIX', readPrefix)
  const mayStartWithout = variables.boolean('FORCE_START_WITHOUT_INITIAL_CONFIG')
  const isHealthyWith = variables.boolean('HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED')
  const waitsForConfig = !mayStartWithout || isHealthyWith
  refuseUnsupported(variables)
  const errors = [...variables.errors(), ...base.errors].map(({ message }) => message)
  const ignored = [...findIgnored(env), ...findOwnIgnored(env)]
  if (base.config === undefined || envoy === undefined || errors.length > 0) {
    return { config: undefined, errors, ignored }
  }
  const { redis: baseRedis } = base.config
  const config: Config = {
    ...base.config,
    redis: baseRedis && {
      ...baseRedis,
      tls: redis?.tls,
      prefix: prefix ?? baseRedis.prefix,
    },
    envoy,
    log: { ...base.config.log, level },
  }
  return { config: { config, listeners, waitsForConfig }, errors, ignored }
}

/** `memory` is an addition of Sluice, to try it without Redis. */
function readBackend(variables: RatelimitVariables): RatelimitRedis | undefined {
  const accepted = 'redis; memory for a single process; memcache is not supported'
  const backend = variables.choice('BACKEND_TYPE', ['redis', 'memory'], accepted)
  return backend !== 'redis' ? undefined : readRatelimitRedis(variables)
}

/** The settings of Sluice that have no variable of the program, with their defaults. */
function parseBase(env: Environment, redisUrl: string | undefined) {
  const own = Object.fromEntries(OWN_VARIABLES.map((name) => [name, env[name]]))
  return parseConfig(undefined, {
    file: undefined,
    env: { ...own, SLUICE_REDIS_URL: redisUrl },
    readFile: () => '',
  })
}

function findOwnIgnored(env: Environment): readonly IgnoredVariables[] {
  const names: readonly string[] = VARIABLES
  const set = names.filter((name) => (env[name] ?? '') !== '' && !OWN_VARIABLES.includes(name))
  const why = 'the variables of envoyproxy/ratelimit decide'
  return set.length === 0 ? [] : [{ variables: set, why }]
}

function readListeners(variables: RatelimitVariables) {
  const http = readAddress(variables, { host: 'HOST', port: 'PORT', fallback: PORTS.http })
  const grpc = readAddress(variables, {
    host: 'GRPC_HOST',
    port: 'GRPC_PORT',
    fallback: PORTS.grpc,
  })
  const debug = readAddress(variables, {
    host: 'DEBUG_HOST',
    port: 'DEBUG_PORT',
    fallback: PORTS.debug,
  })
  const metrics = variables.boolean('USE_PROMETHEUS') ? readMetrics(variables) : undefined
  const all = [
    { name: 'PORT', listen: http },
    { name: 'GRPC_PORT', listen: grpc },
    { name: 'DEBUG_PORT', listen: debug },
    ...(metrics === undefined ? [] : [{ name: 'PROMETHEUS_ADDR', listen: metrics.listen }]),
  ]
  for (const [index, { name, listen }] of all.entries()) {
    const other = all.slice(0, index).find((earlier) => isClash(earlier.listen, listen))
    if (other === undefined) continue
    const accepted = `another port than ${other.name} has, ${formatListen(other.listen)}`
    variables.refuse(name, accepted, 'duplicate-value')
  }
  return { http, grpc, debug, metrics }
}

/** The defaults are used where a value was reported. */
function readAddress(
  variables: RatelimitVariables,
  { host, port, fallback }: { readonly host: string; readonly port: string; fallback: string },
): ListenAddress {
  const digits = variables.text(port) ?? fallback
  if (!/^\d{1,5}$/.test(digits)) {
    variables.refuse(port, 'a port from 0 to 65535')
    return { host: HOST, port: 0 }
  }
  const name = variables.text(host) ?? HOST
  const bracketed = name.includes(':') && !name.startsWith('[') ? `[${name}]` : name
  const text = `${bracketed}:${Number(digits)}`
  const at = variables.has(host) ? host : port
  return readListen(variables.locate(at, text)) ?? { host: HOST, port: 0 }
}

function readMetrics(variables: RatelimitVariables): RatelimitListeners['metrics'] {
  const name = 'PROMETHEUS_ADDR'
  const address = variables.text(name) ?? METRICS_ADDRESS
  const text = address.startsWith(':') ? `${HOST}${address}` : address
  const listen = readListen(variables.locate(name, text)) ?? { host: HOST, port: 0 }
  const path = variables.text('PROMETHEUS_PATH') ?? METRICS_PATH
  if (!PATH.test(path)) variables.refuse('PROMETHEUS_PATH', 'a path such as /metrics')
  return { listen, path }
}

/** Whoever reaches its port may connect, as with the program: that is what the flag means. */
function readService(
  variables: RatelimitVariables,
  base: EnvoyServiceConfig,
  listen: ListenAddress,
): EnvoyServiceConfig {
  const source = readSource(variables)
  const isExact = !variables.boolean('STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT')
  return {
    ...base,
    listen,
    tls: readServerTls(variables),
    insecure: true,
    config: 'directory' in source ? source.directory : undefined,
    xds: 'xds' in source ? source.xds : undefined,
    shadow: variables.boolean('SHADOW_MODE'),
    quota: variables.boolean('QUOTA_MODE'),
    headers: readHeaders(variables),
    metadata: variables.boolean('RESPONSE_DYNAMIC_METADATA'),
    mergeDomains: variables.boolean('MERGE_DOMAIN_CONFIG'),
    defaults: { ...base.defaults, counting: isExact ? 'reference' : 'sluice' },
    nearLimitRatio: variables.ratio('NEAR_LIMIT_RATIO') ?? NEAR_LIMIT_RATIO,
    maxAgeMs: variables.durationMs('GRPC_MAX_CONNECTION_AGE', AGE) ?? base.maxAgeMs,
  }
}

function readSource(variables: RatelimitVariables) {
  const type = variables.choice('CONFIG_TYPE', ['file', 'grpc_xds_sotw'], 'FILE, GRPC_XDS_SOTW')
  if (type === 'grpc_xds_sotw') return { xds: readRatelimitXds(variables) }
  const root = variables.file('RUNTIME_ROOT') ?? RUNTIME_ROOT
  const folder = variables.text('RUNTIME_SUBDIRECTORY') ?? ''
  const app = variables.text('RUNTIME_APPDIRECTORY') ?? RUNTIME_APP_DIRECTORY
  return { directory: join(root, folder, app) }
}

function readServerTls(variables: RatelimitVariables): ServerTlsFiles | undefined {
  const [cert, key] = ['GRPC_SERVER_TLS_CERT', 'GRPC_SERVER_TLS_KEY'] as const
  if (!variables.boolean('GRPC_SERVER_USE_TLS')) {
    if (variables.has('GRPC_CLIENT_TLS_CACERT')) {
      variables.refuse(
        'GRPC_CLIENT_TLS_CACERT',
        'nothing without GRPC_SERVER_USE_TLS=true; clients have certificates with TLS only',
      )
    }
    return undefined
  }
  requirePair(variables, cert, key)
  const certFile = variables.file(cert)
  const keyFile = variables.file(key)
  if (!variables.has(cert) && !variables.has(key)) {
    variables.missing(cert, 'the name of a PEM file, with GRPC_SERVER_USE_TLS=true')
  }
  if (certFile === undefined || keyFile === undefined) return undefined
  return { cert: certFile, key: keyFile, clientCa: variables.file('GRPC_CLIENT_TLS_CACERT') }
}

function readHeaders(variables: RatelimitVariables): EnvoyServiceConfig['headers'] {
  const name = (variable: string, fallback: string) => {
    const text = variables.text(variable) ?? fallback
    if (!HEADER_NAME.test(text)) variables.refuse(variable, `the name of a header, as ${fallback}`)
    return text
  }
  const headers: ReferenceHeaders = {
    limit: name('LIMIT_LIMIT_HEADER', 'RateLimit-Limit'),
    remaining: name('LIMIT_REMAINING_HEADER', 'RateLimit-Remaining'),
    reset: name('LIMIT_RESET_HEADER', 'RateLimit-Reset'),
  }
  return variables.boolean('LIMIT_RESPONSE_HEADERS_ENABLED') ? headers : 'none'
}

/** More than the default of the program, which says where it listens as a warning. */
function readLogLevel(variables: RatelimitVariables): Config['log']['level'] {
  const name = variables.text('LOG_LEVEL')?.toLowerCase()
  if (name === undefined) return 'info'
  const level = Object.hasOwn(LOG_LEVELS, name) ? LOG_LEVELS[name] : undefined
  if (level === undefined) variables.refuse('LOG_LEVEL', Object.keys(LOG_LEVELS).join(', '))
  return level ?? 'info'
}

function refuseUnsupported(variables: RatelimitVariables): void {
  if (variables.has('GRPC_UDS')) {
    variables.refuse('GRPC_UDS', 'nothing; the service listens on GRPC_HOST and GRPC_PORT')
  }
  if (variables.has('GRPC_CLIENT_TLS_SAN')) {
    const accepted =
      'nothing; the names of clients are not checked, so GRPC_CLIENT_TLS_CACERT has to be an ' +
      'authority that signs only the certificates of proxies'
    variables.refuse('GRPC_CLIENT_TLS_SAN', accepted)
  }
}
