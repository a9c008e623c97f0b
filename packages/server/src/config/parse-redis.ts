/** `redis`: where counters live that several nodes share. */
import {
  complain,
  fieldOf,
  type MapNode,
  readBoolean,
  readOptional,
  readText,
  type Spot,
} from '@sluice/core/reading'
import { DEFAULT_DEADLINE_MS, parseRedisUrl } from '@sluice/limiter/redis'
import { readClientTls } from './client-tls.js'
import type { ClientTlsFiles, RedisConfig } from './config.js'
import type { Overrides } from './environment.js'
import { readGiven, readSection, type Setting, settle } from './fields.js'
import { readRedisUrl } from './redis-url.js'
import { readDuration, readWhole, readWord } from './values.js'

const DEADLINE = { least: '1ms', most: '10s' }
const DENY_CACHE = { least: '0ms', most: '1s' }
const DENY_CACHE_MS_DEFAULT = 1000
const CLOCK_TOLERANCE = { least: '0ms', most: '60s' }
const CLOCK_TOLERANCE_MS_DEFAULT = 100
const FLEET_SIZE = { least: 1, most: 100_000 }
const LAYOUTS = ['plain', 'packed'] as const
const CLIENTS = ['ioredis', 'iovalkey', 'node-redis'] as const
const PREFIX_DEFAULT = 'sluice'
/** Neither what Redis reads as a tag or a pattern, nor what ends a word in its commands. */
const PREFIX = /^[A-Za-z0-9._:-]{1,64}$/
const ACCEPTED_PREFIX = '1 to 64 letters, digits, ".", "_", ":" and "-"'

const FIELDS: readonly string[] = [
  'url',
  'deadline',
  'prefix',
  'layout',
  'client',
  'denyCache',
  'clockTolerance',
  'fleetSize',
  'allowEviction',
  'tls',
]

export interface ParsedRedis {
  /** Undefined: counters live in memory. */
  readonly config: RedisConfig | undefined
  readonly url: Setting<string | undefined>
}

export function readRedis(
  root: Spot<MapNode>,
  { folder, overrides }: { readonly folder: string; readonly overrides: Overrides },
): ParsedRedis {
  const map = readSection(root, 'redis', FIELDS)
  const given = readGiven(map, 'url', readRedisUrl)
  const url = settle<string | undefined>(overrides.redisUrl, given, undefined)
  const deadline = readGiven(map, 'deadline', (spot) => readDuration(spot, DEADLINE))
  const tls = readGiven(map, 'tls', (spot) => readRedisTls(spot, folder))
  const config: Omit<RedisConfig, 'url'> = {
    deadlineMs: settle(overrides.storeDeadlineMs, deadline, DEFAULT_DEADLINE_MS).value,
    prefix: readOptional(map, 'prefix', readPrefix) ?? PREFIX_DEFAULT,
    layout: readOptional(map, 'layout', (spot) => readWord(spot, LAYOUTS)) ?? 'plain',
    client: readOptional(map, 'client', (spot) => readWord(spot, CLIENTS)) ?? 'ioredis',
    denyCacheMs:
      readOptional(map, 'denyCache', (spot) => readDuration(spot, DENY_CACHE)) ??
      DENY_CACHE_MS_DEFAULT,
    clockToleranceMs:
      readOptional(map, 'clockTolerance', (spot) => readDuration(spot, CLOCK_TOLERANCE)) ??
      CLOCK_TOLERANCE_MS_DEFAULT,
    fleetSize: readOptional(map, 'fleetSize', (spot) => readWhole(spot, FLEET_SIZE)) ?? 1,
    allowEviction: readOptional(map, 'allowEviction', readBoolean) ?? false,
    tls: tls?.value,
  }
  const { value } = url
  if (value === undefined) {
    if (url.isRead) requireUrl(root, map)
    return { config: undefined, url }
  }
  if (tls !== undefined && !parseRedisUrl(value).tls) refuseTls(tls.spot)
  return { config: { url: value, ...config }, url }
}

/** Settings of a Redis that nobody names would quietly mean a limit for each node. */
function requireUrl(root: Spot<MapNode>, map: Spot<MapNode>): void {
  const spot = fieldOf(root, 'redis')
  if (spot === undefined || map.node.entries.size === 0) return
  complain(spot, 'missing-field', {
    field: 'redis.url',
    found: 'nothing',
    accepted:
      'where Redis is, here or in SLUICE_REDIS_URL; without it counters live in memory, ' +
      'and each node counts for itself: then leave redis out',
  })
}

function refuseTls(spot: Spot): void {
  complain(spot, 'bad-value', {
    found: 'beside a URL without TLS',
    accepted: 'a URL that begins with rediss, or no tls',
  })
}

function readPrefix(spot: Spot): string | undefined {
  const text = readText(spot, { accepted: ACCEPTED_PREFIX, most: Number.POSITIVE_INFINITY })
  if (text === undefined || PREFIX.test(text)) return text
  return complain(spot, 'bad-value', { accepted: ACCEPTED_PREFIX })
}

function readRedisTls(spot: Spot, folder: string): ClientTlsFiles | undefined {
  const read = readClientTls(spot, { folder, peer: 'Redis' })
  if (read === undefined) return undefined
  const { files, map } = read
  for (const [one, other] of [
    ['cert', 'key'],
    ['key', 'cert'],
  ] as const) {
    if (!map.node.entries.has(one) || map.node.entries.has(other)) continue
    const accepted = 'the name of a PEM file; a certificate needs both cert and key'
    complain(map, 'missing-field', { field: `${map.field}.${other}`, found: 'nothing', accepted })
  }
  return files
}
