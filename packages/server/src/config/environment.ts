/**
 * The variables that override the file. Each is parsed like the same value in the file, so that
 * both get the same checks and messages; the name of the variable is the field.
 */
import { type Cidr, show } from '@sluice/core'
import {
  createDiagnostics,
  nearest,
  type Problem,
  readBoolean,
  type Located,
} from '@sluice/core/config-reader'
import type { ListenAddress, RingPeers } from './config.js'
import { readDatabaseUrl } from './database-url.js'
import type { ExplicitValue } from './fields.js'
import { readListen } from './listen.js'
import { readProxies } from './trusted-proxies.js'
import { readRedisUrl } from './redis-url.js'
import { readKeySecret, readToken } from './secrets.js'
import { readRegionName } from './parse-regions.js'
import { readPeers } from './parse-ring.js'
import { readOrigin } from './outbound-urls.js'
import { readFileName, readInteger, WORKERS } from './values.js'
import { asBoolean, type Environment, locateVariable, numeric } from './variables.js'

/** All variables, in the order of the documentation. */
export const VARIABLES = [
  'SLUICE_CONFIG',
  'SLUICE_REDIS_URL',
  'SLUICE_STORE_DEADLINE_MS',
  'SLUICE_KEY_SECRET',
  'SLUICE_REGION',
  'SLUICE_RING_LISTEN',
  'SLUICE_RING_PEERS',
  'SLUICE_DATABASE_URL',
  'SLUICE_RULES',
  'SLUICE_ALLOW_NO_RULES',
  'SLUICE_UPSTREAM',
  'SLUICE_GATEWAY_LISTEN',
  'SLUICE_API_LISTEN',
  'SLUICE_API_TOKEN',
  'SLUICE_GRPC_LISTEN',
  'SLUICE_ENVOY_CONFIG',
  'SLUICE_ADMIN_LISTEN',
  'SLUICE_ADMIN_TOKEN',
  'SLUICE_ADMIN_URL',
  'SLUICE_DATA_DIR',
  'SLUICE_TRUSTED_PROXIES',
  'SLUICE_WORKERS',
] as const

type Variable = (typeof VARIABLES)[number]

/** File names in variables are relative to the working directory. */
const OWN_FOLDER = '.'
const PREFIX = 'SLUICE_'
const STORE_DEADLINE_MS = { least: 1, most: 10_000 }
const UNKNOWN_SHOWN_MAX = 100
/** Kubernetes sets these in every container, for each service whose name begins with sluice. */
const SERVICE_LINK =
  /_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_\d+_[A-Z]+(_(ADDR|PORT|PROTO))?)?)$/

/** The value from the environment that overrides the file; undefined: none. */
export interface Overrides {
  readonly redisUrl: ExplicitValue<string> | undefined
  readonly storeDeadlineMs: ExplicitValue<number> | undefined
  readonly keySecret: ExplicitValue<Uint8Array> | undefined
  /** The region of this node. */
  readonly region: ExplicitValue<string> | undefined
  readonly ringListen: ExplicitValue<ListenAddress> | undefined
  readonly ringPeers: ExplicitValue<RingPeers> | undefined
  readonly databaseUrl: ExplicitValue<string> | undefined
  readonly rules: ExplicitValue<string> | undefined
  readonly allowNoRules: ExplicitValue<boolean> | undefined
  /** The origin of the only upstream. */
  readonly upstream: ExplicitValue<string> | undefined
  readonly gatewayListen: ExplicitValue<ListenAddress> | undefined
  readonly apiListen: ExplicitValue<ListenAddress> | undefined
  readonly apiToken: ExplicitValue<string> | undefined
  readonly grpcListen: ExplicitValue<ListenAddress> | undefined
  /** The directory with the configuration of envoyproxy/ratelimit. */
  readonly envoyConfig: ExplicitValue<string> | undefined
  readonly adminListen: ExplicitValue<ListenAddress> | undefined
  readonly adminToken: ExplicitValue<string> | undefined
  readonly dataDir: ExplicitValue<string> | undefined
  readonly trustedProxies: ExplicitValue<readonly Cidr[]> | undefined
  readonly workers: ExplicitValue<number> | undefined
}

interface ParsedEnvironment {
  readonly overrides: Overrides
  /** Called last: a conflict between a variable and the file is reported at the variable. */
  readonly finish: () => {
    readonly errors: readonly Problem[]
    readonly warnings: readonly Problem[]
  }
}

export function readEnvironment(env: Environment): ParsedEnvironment {
  const collector = createDiagnostics({ file: undefined, strict: false, text: undefined })
  const readVariable = <T>(
    name: Variable,
    read: (located: Located) => T | undefined,
  ): ExplicitValue<T> | undefined => {
    const value = env[name]
    if (value === undefined || value === '') return undefined
    const located = locateVariable(value, { field: name, report: collector.report })
    return { value: read(located), located }
  }
  const overrides: Overrides = {
    redisUrl: readVariable('SLUICE_REDIS_URL', readRedisUrl),
    storeDeadlineMs: readVariable('SLUICE_STORE_DEADLINE_MS', (located) =>
      readInteger(numeric(located), STORE_DEADLINE_MS),
    ),
    keySecret: readVariable('SLUICE_KEY_SECRET', readKeySecret),
    region: readVariable('SLUICE_REGION', readRegionName),
    ringListen: readVariable('SLUICE_RING_LISTEN', readListen),
    ringPeers: readVariable('SLUICE_RING_PEERS', (located) => readPeers(located, OWN_FOLDER)),
    databaseUrl: readVariable('SLUICE_DATABASE_URL', readDatabaseUrl),
    rules: readVariable('SLUICE_RULES', readOwnFileName),
    allowNoRules: readVariable('SLUICE_ALLOW_NO_RULES', (located) =>
      readBoolean(asBoolean(located)),
    ),
    upstream: readVariable('SLUICE_UPSTREAM', readOrigin),
    gatewayListen: readVariable('SLUICE_GATEWAY_LISTEN', readListen),
    apiListen: readVariable('SLUICE_API_LISTEN', readListen),
    apiToken: readVariable('SLUICE_API_TOKEN', readToken),
    grpcListen: readVariable('SLUICE_GRPC_LISTEN', readListen),
    envoyConfig: readVariable('SLUICE_ENVOY_CONFIG', readOwnFileName),
    adminListen: readVariable('SLUICE_ADMIN_LISTEN', readListen),
    adminToken: readVariable('SLUICE_ADMIN_TOKEN', readToken),
    dataDir: readVariable('SLUICE_DATA_DIR', readOwnFileName),
    trustedProxies: readVariable('SLUICE_TRUSTED_PROXIES', readProxyList),
    workers: readVariable('SLUICE_WORKERS', (located) => readInteger(numeric(located), WORKERS)),
  }
  return {
    overrides,
    finish: () => ({ errors: collector.finish().errors, warnings: warnOfUnknown(env) }),
  }
}

/** File names in variables are relative to the working directory of the server. */
function readOwnFileName(located: Located): string | undefined {
  return readFileName(located, '.')
}

function readProxyList(located: Located): readonly Cidr[] | undefined {
  const { node } = located
  const texts = node.kind === 'scalar' ? String(node.value).split(',') : []
  return readProxies(
    located,
    texts.map((text) => locateVariable(text.trim(), located)),
  )
}

/**
 * Unknown variables are ignored, because they may belong to other programs, and warned of, because
 * most are misspelled.
 */
function warnOfUnknown(env: Environment): readonly Problem[] {
  const known: readonly string[] = VARIABLES
  const names = Object.keys(env).filter(
    (name) => name.startsWith(PREFIX) && !known.includes(name) && !SERVICE_LINK.test(name),
  )
  return names.toSorted().slice(0, UNKNOWN_SHOWN_MAX).map(describeUnknown)
}

function describeUnknown(name: string): Problem {
  // The shared prefix would make any two names similar.
  const words = VARIABLES.map((known) => known.slice(PREFIX.length))
  const word = nearest(name.slice(PREFIX.length), words)
  const suggestion = word === undefined ? undefined : PREFIX + word
  const field = show(name)
  const accepted = VARIABLES.join(', ')
  const hint = suggestion === undefined ? '. ' : `; did you mean "${suggestion}"? `
  return {
    code: 'unknown-key',
    field,
    found: field,
    accepted,
    ...(suggestion === undefined ? {} : { suggestion }),
    message: `${field}: unknown variable, ignored${hint}Accepted: ${accepted}`,
  }
}
