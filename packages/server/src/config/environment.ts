/**
 * The variables that override the file. Each is read as if it stood in the file, so that both are
 * held to the same and told of in the same words; its name is the field.
 */
import { type Cidr, show } from '@sluice/core'
import {
  createCollector,
  nearest,
  type Problem,
  readBoolean,
  type Spot,
} from '@sluice/core/reading'
import type { ListenAddress } from './config.js'
import { readDatabaseUrl } from './database-url.js'
import type { Given } from './fields.js'
import { readListen } from './listen.js'
import { readProxies } from './proxies.js'
import { readRedisUrl } from './redis-url.js'
import { readKeySecret, readToken } from './secrets.js'
import { readOrigin } from './urls.js'
import { readFileName, readWhole, WORKERS } from './values.js'

export type Environment = Readonly<Record<string, string | undefined>>

/** All there are, in the order of the documents. */
export const VARIABLES = [
  'SLUICE_CONFIG',
  'SLUICE_REDIS_URL',
  'SLUICE_STORE_DEADLINE_MS',
  'SLUICE_KEY_SECRET',
  'SLUICE_DATABASE_URL',
  'SLUICE_RULES',
  'SLUICE_ALLOW_NO_RULES',
  'SLUICE_UPSTREAM',
  'SLUICE_GATEWAY_LISTEN',
  'SLUICE_API_LISTEN',
  'SLUICE_API_TOKEN',
  'SLUICE_GRPC_LISTEN',
  'SLUICE_ADMIN_LISTEN',
  'SLUICE_ADMIN_TOKEN',
  'SLUICE_ADMIN_URL',
  'SLUICE_DATA_DIR',
  'SLUICE_TRUSTED_PROXIES',
  'SLUICE_WORKERS',
] as const

type Variable = (typeof VARIABLES)[number]

const PREFIX = 'SLUICE_'
const STORE_DEADLINE_MS = { least: 1, most: 10_000 }
const UNKNOWN_SHOWN_MAX = 100
/** Kubernetes sets these in every container, for each service whose name begins with sluice. */
const SERVICE_LINK =
  /_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_\d+_[A-Z]+(_(ADDR|PORT|PROTO))?)?)$/

/** What the environment gives instead of the file; undefined: nothing. */
export interface Overrides {
  readonly redisUrl: Given<string> | undefined
  readonly storeDeadlineMs: Given<number> | undefined
  readonly keySecret: Given<Uint8Array> | undefined
  readonly databaseUrl: Given<string> | undefined
  readonly rules: Given<string> | undefined
  readonly allowNoRules: Given<boolean> | undefined
  /** The origin of the only upstream. */
  readonly upstream: Given<string> | undefined
  readonly gatewayListen: Given<ListenAddress> | undefined
  readonly apiListen: Given<ListenAddress> | undefined
  readonly apiToken: Given<string> | undefined
  readonly adminListen: Given<ListenAddress> | undefined
  readonly adminToken: Given<string> | undefined
  readonly dataDir: Given<string> | undefined
  readonly trustedProxies: Given<readonly Cidr[]> | undefined
  readonly workers: Given<number> | undefined
}

interface ReadEnvironment {
  readonly overrides: Overrides
  /** Asked last: what is wrong between a variable and the file is told of as the variable's. */
  readonly finish: () => {
    readonly errors: readonly Problem[]
    readonly warnings: readonly Problem[]
  }
}

export function readEnvironment(env: Environment): ReadEnvironment {
  const collector = createCollector({ file: undefined, strict: false, text: undefined })
  const give = <T>(name: Variable, read: (spot: Spot) => T | undefined): Given<T> | undefined => {
    const value = env[name]
    if (value === undefined || value === '') return undefined
    const spot = spotOf(value, { field: name, report: collector.report })
    return { value: read(spot), spot }
  }
  // Checked, so that it is right on the day it counts: nothing speaks gRPC yet.
  give('SLUICE_GRPC_LISTEN', readListen)
  const overrides: Overrides = {
    redisUrl: give('SLUICE_REDIS_URL', readRedisUrl),
    storeDeadlineMs: give('SLUICE_STORE_DEADLINE_MS', (spot) =>
      readWhole(numeric(spot), STORE_DEADLINE_MS),
    ),
    keySecret: give('SLUICE_KEY_SECRET', readKeySecret),
    databaseUrl: give('SLUICE_DATABASE_URL', readDatabaseUrl),
    rules: give('SLUICE_RULES', readOwnFileName),
    allowNoRules: give('SLUICE_ALLOW_NO_RULES', (spot) => readBoolean(asBoolean(spot))),
    upstream: give('SLUICE_UPSTREAM', readOrigin),
    gatewayListen: give('SLUICE_GATEWAY_LISTEN', readListen),
    apiListen: give('SLUICE_API_LISTEN', readListen),
    apiToken: give('SLUICE_API_TOKEN', readToken),
    adminListen: give('SLUICE_ADMIN_LISTEN', readListen),
    adminToken: give('SLUICE_ADMIN_TOKEN', readToken),
    dataDir: give('SLUICE_DATA_DIR', readOwnFileName),
    trustedProxies: give('SLUICE_TRUSTED_PROXIES', readProxyList),
    workers: give('SLUICE_WORKERS', (spot) => readWhole(numeric(spot), WORKERS)),
  }
  return {
    overrides,
    finish: () => ({ errors: collector.finish().errors, warnings: warnOfUnknown(env) }),
  }
}

function spotOf(value: string, { field, report }: Pick<Spot, 'field' | 'report'>): Spot {
  return { node: { kind: 'scalar', at: -1, value }, field, report }
}

/** The same text as a file would have it without quotes. */
function numeric(spot: Spot): Spot {
  const { node } = spot
  if (node.kind !== 'scalar' || !/^-?\d{1,15}$/.test(String(node.value))) return spot
  return { ...spot, node: { ...node, value: Number(node.value), source: String(node.value) } }
}

/** The two words that a file would have without quotes, and no others such as 1 or yes. */
function asBoolean(spot: Spot): Spot {
  const { node } = spot
  if (node.kind !== 'scalar' || (node.value !== 'true' && node.value !== 'false')) return spot
  return { ...spot, node: { ...node, value: node.value === 'true' } }
}

/** Variables are set where the server is started, so their files are looked for there. */
function readOwnFileName(spot: Spot): string | undefined {
  return readFileName(spot, '.')
}

function readProxyList(spot: Spot): readonly Cidr[] | undefined {
  const { node } = spot
  const texts = node.kind === 'scalar' ? String(node.value).split(',') : []
  return readProxies(
    spot,
    texts.map((text) => spotOf(text.trim(), spot)),
  )
}

/** Ignored, because not every variable is ours; told of, because most of these are meant to be. */
function warnOfUnknown(env: Environment): readonly Problem[] {
  const known: readonly string[] = VARIABLES
  const names = Object.keys(env).filter(
    (name) => name.startsWith(PREFIX) && !known.includes(name) && !SERVICE_LINK.test(name),
  )
  return names.toSorted().slice(0, UNKNOWN_SHOWN_MAX).map(describeUnknown)
}

function describeUnknown(name: string): Problem {
  // What they all begin with would make any two of them look alike.
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
