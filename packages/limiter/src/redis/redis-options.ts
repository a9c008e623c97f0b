/** What a Redis store is made with. */
import { isCount, show, SluiceError } from '@sluice/core'
import type { Clock } from '../clock.js'
import { requireOptions } from '../limiter-options.js'
import { DEFAULT_DEADLINE_MS } from '../store.js'
import { requirePrefix } from './protocol/redis-keys.js'
import type { StoreObserver } from './pipeline/redis-observer.js'

/** Which client carries the commands; each is a package of its own that users install. */
export const REDIS_CLIENTS = ['ioredis', 'iovalkey', 'node-redis'] as const
export type RedisClient = (typeof REDIS_CLIENTS)[number]

const LAYOUTS = ['plain', 'packed'] as const
export type Layout = (typeof LAYOUTS)[number]

/** Certificates as text, as `node:tls` takes them. */
export interface RedisTls {
  readonly ca?: string | undefined
  readonly cert?: string | undefined
  readonly key?: string | undefined
  readonly servername?: string | undefined
  readonly rejectUnauthorized?: boolean | undefined
}

/**
 * Options of `redisStore`.
 *
 * @example
 * const options = {
 *   url: 'redis+cluster://10.0.0.1:6379,10.0.0.2:6379',
 *   client: 'node-redis',
 *   prefix: 'shop',
 *   deadlineMs: 5,
 * }
 */
export interface RedisStoreOptions {
  /** `redis://`, `rediss://`, `redis+cluster://h1,h2` or `redis+sentinel://h1,h2/name`. */
  readonly url: string
  /** The client library to connect with; install it as well. @default 'ioredis' */
  readonly client?: RedisClient | undefined
  /** The beginning of all keys; stores with different prefixes share nothing. @default 'sluice' */
  readonly prefix?: string | undefined
  /** `packed` keeps many counters in one hash: less memory, more CPU. @default 'plain' */
  readonly layout?: Layout | undefined
  /** How long a decision waits for the store, in milliseconds. @default 50 */
  readonly deadlineMs?: number | undefined
  /** How long this node remembers a refusal, in milliseconds; 0: not at all. @default 1000 */
  readonly denyCacheMs?: number | undefined
  /**
   * How uncertain this node may be of the store's time, in milliseconds. Above that, units counted
   * by this node near the edge of a window are charged to the earlier window. @default 100
   */
  readonly clockToleranceMs?: number | undefined
  /** The number of nodes to assume until the store has reported it. @default 1 */
  readonly fleetSize?: number | undefined
  /** The key of all counter hashes, 16 bytes. @default one that is kept in Redis */
  readonly secret?: Uint8Array | undefined
  /**
   * The secret that Redis kept when this node last read it, 16 bytes. Written back if Redis has
   * lost it, so that nodes that started without Redis keep sharing counters. @default none
   */
  readonly lastSecret?: Uint8Array | undefined
  /**
   * Whether the store is that of another region: this node does not join its fleet, writes no
   * secret there, and needs no right to run scripts by their source. Needs `secret`.
   *
   * @default false
   */
  readonly guest?: boolean | undefined
  /** Start even if Redis may evict counters, which resets their budgets. @default false */
  readonly allowEviction?: boolean | undefined
  /** Certificates for `rediss://`. @default those of the system */
  readonly tls?: RedisTls | undefined
  /** Callbacks for metrics and logs; they must be brief and are never awaited. */
  readonly observer?: Partial<StoreObserver> | undefined
  /** For tests: the time that the script decides with. @default the clock of Redis */
  readonly clock?: Clock | undefined
}

export interface RedisStoreSettings {
  readonly url: string
  readonly client: RedisClient
  readonly prefix: string
  readonly layout: Layout
  readonly deadlineMs: number
  readonly denyCacheMs: number
  readonly clockToleranceMs: number
  readonly fleetSize: number
  readonly secret: Uint8Array | undefined
  readonly lastSecret: Uint8Array | undefined
  readonly guest: boolean
  readonly allowEviction: boolean
  readonly tls: RedisTls | undefined
  readonly clock: Clock | undefined
}

const DEADLINE_MS = { default: DEFAULT_DEADLINE_MS, least: 1, most: 60_000 }
const DENY_CACHE_MS = { default: 1000, least: 0, most: 1000 }
const CLOCK_TOLERANCE_MS = { default: 100, least: 0, most: 60_000 }
const FLEET_SIZE = { default: 1, least: 1, most: 100_000 }

export function readRedisOptions(options: RedisStoreOptions): RedisStoreSettings {
  requireOptions(options, '{ url }')
  return {
    url: options.url,
    client: choice('client', options.client ?? 'ioredis', REDIS_CLIENTS),
    prefix: requirePrefix(options.prefix ?? 'sluice'),
    layout: choice('layout', options.layout ?? 'plain', LAYOUTS),
    deadlineMs: count('deadlineMs', options.deadlineMs, DEADLINE_MS),
    denyCacheMs: count('denyCacheMs', options.denyCacheMs, DENY_CACHE_MS),
    clockToleranceMs: count('clockToleranceMs', options.clockToleranceMs, CLOCK_TOLERANCE_MS),
    fleetSize: count('fleetSize', options.fleetSize, FLEET_SIZE),
    secret: bytes('secret', options.secret),
    lastSecret: bytes('lastSecret', options.lastSecret),
    guest: requireGuestSecret(options),
    allowEviction: options.allowEviction ?? false,
    tls: options.tls,
    clock: options.clock,
  }
}

function requireGuestSecret({ guest = false, secret }: RedisStoreOptions): boolean {
  if (guest && secret === undefined) throw invalid('secret', 'none beside guest', '16 bytes')
  return guest
}

function bytes(name: string, value: Uint8Array | undefined): Uint8Array | undefined {
  if (value === undefined || (value instanceof Uint8Array && value.length === 16)) return value
  throw invalid(name, 'another kind or length', '16 bytes')
}

interface Range {
  readonly default: number
  readonly least: number
  readonly most: number
}

function count(name: string, value: number | undefined, range: Range): number {
  const { least, most } = range
  const found = value ?? range.default
  if (isCount(found) && found >= least && found <= most) return found
  throw invalid(name, show(found), `a whole number from ${least} to ${most}`)
}

function choice<Name extends string>(name: string, value: string, accepted: readonly Name[]): Name {
  const found = accepted.find((each) => each === value)
  if (found !== undefined) return found
  throw invalid(name, show(value), accepted.join(', '))
}

function invalid(name: string, found: string, accepted: string): SluiceError {
  return new SluiceError('OPTION_INVALID', `${name}: found ${found}; accepted: ${accepted}`)
}
