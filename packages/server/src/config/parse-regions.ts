/** Parses `region` and `regions`: where this node is, and the Redis of each other region. */
import type { RegionPlace } from '@sluice/core'
import {
  ACCEPTED_REGION_NAME,
  fieldOf,
  locateEntry,
  type Located,
  type MapNode,
  quote,
  readAnyMap,
  readBoolean,
  readOptional,
  readRequired,
  readText,
  REGION_NAME,
  REGIONS_MAX,
  reportAt,
} from '@sluice/core/config-reader'
import { parseRedisUrl } from '@sluice/limiter/redis'
import { isLoopback } from '../lib/loopback.js'
import type { RegionLinkConfig, RegionsConfig } from './config.js'
import type { Overrides } from './environment.js'
import {
  hideLongText,
  readExplicit,
  readFields,
  SECRET_LENGTH_MIN,
  type Setting,
  resolveSetting,
} from './fields.js'
import { readRedisTls, refuseTls } from './parse-redis.js'
import { readRedisUrl } from './redis-url.js'
import { readDuration } from './values.js'

const SYNC_EVERY = { least: '20ms', most: '10s' }
const SYNC_EVERY_MS_DEFAULT = 100
/** What no region can be called, because it is a setting of all of them. */
const SYNC_EVERY_KEY = 'syncEvery'
const LINK_FIELDS: readonly string[] = ['redis', 'tls', 'insecure']
const ACCEPTED_REGIONS = 'a map of regions, such as { us-east: { redis: rediss://… } }'

interface RegionSources {
  readonly folder: string
  readonly overrides: Overrides
  readonly redisUrl: Setting<string | undefined>
}

/** Undefined if there is only one region, or none is named. */
export function readRegionsConfig(
  root: Located<MapNode>,
  { folder, overrides, redisUrl }: RegionSources,
): RegionsConfig | undefined {
  const fromFile = readExplicit(root, 'region', readRegionName)
  const own = resolveSetting<string | undefined>(overrides.region, fromFile, undefined)
  const field = fieldOf(root, 'regions')
  if (field === undefined) return undefined
  const map = readRegionMap(field)
  if (map === undefined) return undefined
  const syncEveryMs = readOptional(map, SYNC_EVERY_KEY, (located) =>
    readDuration(located, SYNC_EVERY),
  )
  const links = readLinks(map, folder)
  const others = links.filter(({ name }) => name !== own.value)
  if (others.length === 0) return undefined
  requireSettings(map, { own, redisUrl, keySecret: overrides.keySecret })
  return {
    own: own.value ?? '',
    syncEveryMs: syncEveryMs ?? SYNC_EVERY_MS_DEFAULT,
    others,
  }
}

export function readRegionName(located: Located): string | undefined {
  const name = readText(located, {
    accepted: ACCEPTED_REGION_NAME,
    most: Number.POSITIVE_INFINITY,
  })
  if (name === undefined || REGION_NAME.test(name)) return name
  return reportAt(located, 'bad-value', { accepted: ACCEPTED_REGION_NAME })
}

function readRegionMap(located: Located): Located<MapNode> | undefined {
  const map = readAnyMap(hideLongText(located), ACCEPTED_REGIONS)
  if (map === undefined) return undefined
  const names = [...map.node.entries.values()].filter(({ key }) => key !== SYNC_EVERY_KEY)
  if (names.length > REGIONS_MAX) {
    const found = `${names.length} regions`
    return reportAt(located, 'too-many', { found, accepted: `up to ${REGIONS_MAX} regions` })
  }
  for (const { at, key } of names) {
    if (REGION_NAME.test(key)) continue
    // What is no name may be a misplaced secret.
    const found = key.length < SECRET_LENGTH_MIN ? quote(key) : `of ${key.length} characters`
    const accepted = `${SYNC_EVERY_KEY}, or the name of a region: ${ACCEPTED_REGION_NAME}`
    reportAt(map, 'unknown-key', { at, found, accepted })
  }
  return map
}

function readLinks(map: Located<MapNode>, folder: string): readonly RegionLinkConfig[] {
  const links: RegionLinkConfig[] = []
  for (const entry of map.node.entries.values()) {
    if (entry.key === SYNC_EVERY_KEY || !REGION_NAME.test(entry.key)) continue
    const link = readLink(entry.key, locateEntry(map, entry), folder)
    if (link !== undefined) links.push(link)
  }
  return links.toSorted((a, b) => (a.name < b.name ? -1 : 1))
}

function readLink(name: string, located: Located, folder: string): RegionLinkConfig | undefined {
  const map = readFields(located, LINK_FIELDS)
  if (map === undefined) return undefined
  const url = readRequired(map, 'redis', {
    accepted: 'the URL of the Redis of that region',
    read: readRedisUrl,
  })
  const tls = readExplicit(map, 'tls', (field) => readRedisTls(field, folder))
  const insecure = readOptional(map, 'insecure', readBoolean) ?? false
  if (url === undefined) return undefined
  const target = parseRedisUrl(url)
  if (tls !== undefined && !target.tls) refuseTls(tls.located)
  const isLocal = target.addresses.every(({ host }) => isLoopback(host))
  if (!target.tls && !isLocal && !insecure) {
    reportAt(fieldOf(map, 'redis') ?? map, 'bad-value', {
      found: 'a URL without TLS',
      accepted:
        'a URL that begins with rediss, or insecure: true where the network between the regions ' +
        'is encrypted: who reads the password can charge and reset every counter',
    })
  }
  return { name, url, tls: tls?.value }
}

interface RequiredSettings {
  readonly own: Setting<string | undefined>
  readonly redisUrl: Setting<string | undefined>
  readonly keySecret: Overrides['keySecret']
}

function requireSettings(
  map: Located<MapNode>,
  { own, redisUrl, keySecret }: RequiredSettings,
): void {
  const refuse = (field: string, accepted: string) =>
    reportAt(map, 'missing-field', { field, found: 'nothing', accepted })
  if (own.isRead && own.value === undefined) {
    refuse('region', 'the region of this node, here or in SLUICE_REGION, beside regions')
  }
  if (redisUrl.isRead && redisUrl.value === undefined) {
    refuse('redis.url', 'the Redis of this region, here or in SLUICE_REDIS_URL, beside regions')
  }
  if (keySecret === undefined) {
    const why = 'with another one each would count the same callers under other names'
    refuse('SLUICE_KEY_SECRET', `the same secret in all regions, beside regions: ${why}`)
  }
}

/** The region of this node among all; undefined if there is only one. */
export function regionPlaceOf(regions: RegionsConfig | undefined): RegionPlace | undefined {
  return regions && { own: regions.own, names: [regions.own, ...regions.others.map(nameOf)] }
}

function nameOf({ name }: RegionLinkConfig): string {
  return name
}
