/** Parses `redis`: the counter store that nodes share. */
import {
  reportAt,
  fieldOf,
  type MapNode,
  readBoolean,
  readOptional,
  readText,
  type Located,
} from '@sluice/core/config-reader'
import { DEFAULT_DEADLINE_MS, parseRedisUrl } from '@sluice/limiter/redis'
import { readClientTls, requirePair } from './client-tls.js'
import type { ClientTlsFiles, RedisConfig } from './config.js'
import type { Overrides } from './environment.js'
import { readExplicit, readSection, type Setting, resolveSetting } from './fields.js'
import { readRedisUrl } from './redis-url.js'
import { readDuration, readInteger, readWord } from './values.js'

const DEADLINE = { least: '1ms', most: '10s' }
const DENY_CACHE = { least: '0ms', most: '1s' }
const DENY_CACHE_MS_DEFAULT = 1000
const CLOCK_TOLERANCE = { least: '0ms', most: '60s' }
const CLOCK_TOLERANCE_MS_DEFAULT = 100
const FLEET_SIZE = { least: 1, most: 100_000 }
const LAYOUTS = ['plain', 'packed'] as const
const CLIENTS = ['ioredis', 'iovalkey', 'node-redis'] as const
const PREFIX_DEFAULT = 'sluice'
/** Excludes what Redis reads as a hash tag or a pattern, and what ends a word in its commands. */
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
  root: Located<MapNode>,
  { folder, overrides }: { readonly folder: string; readonly overrides: Overrides },
): ParsedRedis {
  const map = readSection(root, 'redis', FIELDS)
  const fromFile = readExplicit(map, 'url', readRedisUrl)
  const url = resolveSetting<string | undefined>(overrides.redisUrl, fromFile, undefined)
  const deadline = readExplicit(map, 'deadline', (located) => readDuration(located, DEADLINE))
  const tls = readExplicit(map, 'tls', (located) => readRedisTls(located, folder))
  const config: Omit<RedisConfig, 'url'> = {
    deadlineMs: resolveSetting(overrides.storeDeadlineMs, deadline, DEFAULT_DEADLINE_MS).value,
    prefix: readOptional(map, 'prefix', readPrefix) ?? PREFIX_DEFAULT,
    layout: readOptional(map, 'layout', (located) => readWord(located, LAYOUTS)) ?? 'plain',
    client: readOptional(map, 'client', (located) => readWord(located, CLIENTS)) ?? 'ioredis',
    denyCacheMs:
      readOptional(map, 'denyCache', (located) => readDuration(located, DENY_CACHE)) ??
      DENY_CACHE_MS_DEFAULT,
    clockToleranceMs:
      readOptional(map, 'clockTolerance', (located) => readDuration(located, CLOCK_TOLERANCE)) ??
      CLOCK_TOLERANCE_MS_DEFAULT,
    fleetSize: readOptional(map, 'fleetSize', (located) => readInteger(located, FLEET_SIZE)) ?? 1,
    allowEviction: readOptional(map, 'allowEviction', readBoolean) ?? false,
    tls: tls?.value,
  }
  const { value } = url
  if (value === undefined) {
    if (url.isRead) requireUrl(root, map)
    return { config: undefined, url }
  }
  if (tls !== undefined && !parseRedisUrl(value).tls) refuseTls(tls.located)
  return { config: { url: value, ...config }, url }
}

/** Settings of a Redis without its URL would silently mean separate limits for each node. */
function requireUrl(root: Located<MapNode>, map: Located<MapNode>): void {
  const located = fieldOf(root, 'redis')
  if (located === undefined || map.node.entries.size === 0) return
  reportAt(located, 'missing-field', {
    field: 'redis.url',
    found: 'nothing',
    accepted:
      'where Redis is, here or in SLUICE_REDIS_URL; without it counters live in memory, ' +
      'and each node counts for itself: then leave redis out',
  })
}

/** Refuses PEM files that a URL would ignore. */
export function refuseTls(located: Located): void {
  reportAt(located, 'bad-value', {
    found: 'beside a URL without TLS',
    accepted: 'a URL that begins with rediss, or no tls',
  })
}

export function readPrefix(located: Located): string | undefined {
  const text = readText(located, { accepted: ACCEPTED_PREFIX, most: Number.POSITIVE_INFINITY })
  if (text === undefined || PREFIX.test(text)) return text
  return reportAt(located, 'bad-value', { accepted: ACCEPTED_PREFIX })
}

/** Reads PEM files for a connection to Redis. */
export function readRedisTls(located: Located, folder: string): ClientTlsFiles | undefined {
  const read = readClientTls(located, { folder, peer: 'Redis' })
  if (read === undefined) return undefined
  requirePair(read)
  return read.files
}
