/** Parses `envoy`: the listener of the rate limit service and the settings of its domains. */
import { ALGORITHM_NAMES } from '@sluice/core'
import {
  reportAt,
  fieldOf,
  isWithin,
  type Located,
  locateEntry,
  type MapNode,
  readAnyMap,
  readBoolean,
  readOptional,
} from '@sluice/core/config-reader'
import type { EnvoyServiceConfig, EnvoyDomain, ListenAddress } from './config.js'
import { hideLongText, readExplicit, readFields, readSection, resolveSetting } from './fields.js'
import type { Setting } from './fields.js'

import { readListen } from './listen.js'
import type { ConfigSources } from './parse-listeners.js'
import { readXds } from './parse-xds.js'
import { readDuration, readFileName, readServerTls, readWord } from './values.js'

const LISTEN: ListenAddress = { host: '127.0.0.1', port: 8082 }
const DEADLINE = { least: '1ms', most: '10s' }
/** Envoy waits 20 ms for the whole call unless it is configured otherwise. */
const DEADLINE_MS_DEFAULT = 15
const SERVERS = ['grpc-js', 'own'] as const
const HEADERS = ['all', 'standard', 'refusals', 'none'] as const
const COUNTINGS = ['sluice', 'reference'] as const
/** Requests have a number for a unit of time, so nothing counts calls in flight. */
const ALGORITHMS = ALGORITHM_NAMES.filter((name) => name !== 'concurrency')
const POSTURES = ['open', 'closed', 'local'] as const
/** Each domain is one rate limit filter, or a few, of a fleet of proxies. */
const DOMAINS = { items: 'domains', most: 1000 }
const DOMAIN_LENGTH_MAX = 256

const DOMAIN_DEFAULTS: EnvoyDomain = {
  counting: 'sluice',
  requireMatch: false,
  algorithm: undefined,
  posture: undefined,
}
const NEAR_LIMIT_RATIO = 0.8
/** So that clients spread over new processes. */
const MAX_AGE_MS = 24 * 60 * 60 * 1000

export interface EnvoySettings {
  readonly config: EnvoyServiceConfig
  readonly listen: Setting<ListenAddress>
  readonly reflection: Setting<boolean>
}

export function readEnvoy(
  root: Located<MapNode>,
  { overrides, folder }: ConfigSources,
): EnvoySettings {
  const map = readSection(root, 'envoy', [
    'listen',
    'tls',
    'insecure',
    'config',
    'xds',
    'deadline',
    'server',
    'reflection',
    'shadow',
    'quota',
    'headers',
    'metadata',
    'mergeDomains',
    'domains',
  ])
  const listen = resolveSetting(
    overrides.grpcListen,
    readExplicit(map, 'listen', readListen),
    LISTEN,
  )
  const directory = resolveSetting<string | undefined>(
    overrides.envoyConfig,
    readExplicit(map, 'config', (located) => readFileName(located, folder)),
    undefined,
  )
  const xds = readExplicit(map, 'xds', (located) => readXds(located, folder))
  refuseTwoSources(directory, xds?.located)
  const reflection = resolveSetting(undefined, readExplicit(map, 'reflection', readBoolean), false)
  const config: EnvoyServiceConfig = {
    listen: listen.value,
    tls: readOptional(map, 'tls', (located) => readServerTls(located, folder)),
    insecure: readOptional(map, 'insecure', readBoolean) ?? false,
    config: directory.value,
    xds: xds?.value,
    deadlineMs:
      readOptional(map, 'deadline', (located) => readDuration(located, DEADLINE)) ??
      DEADLINE_MS_DEFAULT,
    server: readOptional(map, 'server', (located) => readWord(located, SERVERS)) ?? 'grpc-js',
    reflection: reflection.value,
    shadow: readOptional(map, 'shadow', readBoolean) ?? false,
    quota: readOptional(map, 'quota', readBoolean) ?? false,
    headers: readOptional(map, 'headers', (located) => readWord(located, HEADERS)) ?? 'all',
    metadata: readOptional(map, 'metadata', readBoolean) ?? false,
    mergeDomains: readOptional(map, 'mergeDomains', readBoolean) ?? false,
    domains: readOptional(map, 'domains', readDomains) ?? new Map(),
    defaults: DOMAIN_DEFAULTS,
    nearLimitRatio: NEAR_LIMIT_RATIO,
    maxAgeMs: MAX_AGE_MS,
  }
  return { config, listen, reflection }
}

function refuseTwoSources(directory: Setting<unknown>, xds: Located | undefined): void {
  if (directory.located === undefined || xds === undefined) return
  const { field } = directory.located
  const accepted =
    'one of the two: a control plane, or a directory in config or SLUICE_ENVOY_CONFIG'
  reportAt(xds, 'bad-value', { found: `beside ${field}`, accepted })
}

function readDomains(located: Located): ReadonlyMap<string, EnvoyDomain> | undefined {
  const accepted = 'a map of domains to their settings, such as { edge: { counting: reference } }'
  const map = readAnyMap(hideLongText(located), accepted)
  if (map === undefined || !isWithin(located, map.node.entries.size, DOMAINS)) return undefined
  const domains = new Map<string, EnvoyDomain>()
  for (const entry of map.node.entries.values()) {
    const { at, key } = entry
    const isName = key.length > 0 && key.length <= DOMAIN_LENGTH_MAX
    const found = `a name of ${key.length} characters`
    const acceptedName = `the name of a domain, 1 to ${DOMAIN_LENGTH_MAX} characters`
    if (!isName) reportAt(map, 'bad-key', { at, found, accepted: acceptedName })
    const domain = readDomain(locateEntry(map, entry))
    if (domain !== undefined) domains.set(key, domain)
  }
  return domains
}

function readDomain(located: Located): EnvoyDomain | undefined {
  const map = readFields(located, ['counting', 'requireMatch', 'algorithm', 'posture'])
  if (map === undefined) return undefined
  const counting = readOptional(map, 'counting', (field) => readWord(field, COUNTINGS))
  const algorithm = readOptional(map, 'algorithm', (field) => readWord(field, ALGORITHMS))
  const algorithmField = fieldOf(map, 'algorithm')
  if (counting === 'reference' && algorithmField !== undefined) {
    const accepted = 'no algorithm with counting: reference, which is a fixed window'
    reportAt(algorithmField, 'bad-value', { accepted })
  }
  return {
    counting: counting ?? 'sluice',
    requireMatch: readOptional(map, 'requireMatch', readBoolean) ?? false,
    algorithm,
    posture: readOptional(map, 'posture', (field) => readWord(field, POSTURES)),
  }
}
