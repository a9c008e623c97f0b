/**
 * Everything that Sluice keeps in Redis, made by a real limiter with a fixed secret, clock and
 * rules. A set of `conformance/formats` has the result: the name of each counter, and all of Redis
 * as data.
 */
import type { Attributes } from '@sluice/core'
import type { RedisServer } from '../../../../../tools/redis/server.mjs'
import { createLimiter, type Limiter } from '../../index.js'
import { manualClock } from '../../testing/index.js'
import { fingerprintOf } from '../server/hash-secret.js'
import { redisStore, type RedisStore } from '../index.js'
import { storeKeys } from './redis-keys.js'
import type { Layout } from '../redis-options.js'
import { PARTITION_TAGS } from '../request/partitions.js'

/** The name of one counter. */
export interface CounterName {
  readonly rule: string
  readonly limit: string
  /** `limits`, `tiers.plan.pro`, `override`, `candidate.limits`. */
  readonly where: string
  readonly attributes: Attributes
  readonly key: string
}

/** `redis-keys.json`. */
export interface KeysFile {
  readonly prefix: string
  readonly secret: string
  readonly fingerprint: string
  readonly tags: readonly string[]
  readonly others: Readonly<Record<string, string>>
  readonly rules: readonly object[]
  readonly counters: Readonly<Record<Layout, readonly CounterName[]>>
}

/** One key with all that it holds; bytes are hex. */
export type DumpedKey = { readonly key: string; readonly ttlMs: number } & (
  | { readonly type: 'string'; readonly value: string }
  | { readonly type: 'hash'; readonly fields: readonly (readonly [string, string])[] }
  | { readonly type: 'zset'; readonly members: readonly (readonly [string, string])[] }
)

/** The units that one limit has left for one caller. */
export interface Left {
  readonly attributes: Attributes
  readonly policies: readonly {
    readonly rule: string
    readonly remaining: number
    readonly resetAfterMs: number
  }[]
}

/** `redis-plain.json` and `redis-packed.json`. */
export interface DumpFile {
  readonly layout: Layout
  readonly prefix: string
  /** The time of the limiter that wrote it, in microseconds since 1970. */
  readonly clock: number
  readonly rules: readonly object[]
  readonly left: readonly Left[]
  readonly keys: readonly DumpedKey[]
}

const PREFIX = 'sluice'
const SECRET = '000102030405060708090a0b0c0d0e0f'
const CLOCK = 1_767_225_600_000_000 + 12_345_678
const POSTED = 'what a node posts'

const RULES: readonly object[] = [
  { id: 'token-bucket', by: ['user'], limits: ['10/minute'] },
  { id: 'gcra', by: ['user'], limits: [{ algorithm: 'gcra', max: 10, window: '1m', burst: 9 }] },
  {
    id: 'leaky-bucket',
    by: ['user'],
    limits: [{ algorithm: 'leaky-bucket', max: 10, window: '1m', queue: 9 }],
  },
  {
    id: 'fixed-window',
    by: ['user'],
    limits: [{ algorithm: 'fixed-window', max: 10, window: '1m' }],
  },
  {
    id: 'sliding-window-counter',
    by: ['user'],
    limits: [{ algorithm: 'sliding-window-counter', max: 10, window: '1m' }],
  },
  {
    id: 'sliding-window-log',
    by: ['user'],
    limits: [{ algorithm: 'sliding-window-log', max: 10, window: '1m' }],
  },
  { id: 'together', by: [], limits: [{ max: 1000, window: '1h', name: 'all' }] },
  { id: 'address', by: ['ip'], limits: ['100/minute'] },
  {
    id: 'varied',
    by: ['user', 'api_key'],
    limits: ['10/second', { max: 100, window: '1d', name: 'daily' }],
    tiers: { plan: { pro: [{ max: 50, window: '1s' }] } },
    overrides: [{ caller: { user: 'u2', api_key: 'k2' }, limits: ['7/minute'] }],
    candidate: { limits: ['5/minute'] },
  },
  { id: 'shadowed', by: ['user'], mode: 'shadow', limits: ['3/minute'] },
  {
    id: 'caller-window',
    by: ['user'],
    limits: [{ algorithm: 'fixed-window', start: 'call', max: 10, window: '1m' }],
  },
  {
    // In shadow, because a refusal would charge nothing to the other rules.
    id: 'blocking',
    by: ['user'],
    mode: 'shadow',
    limits: [{ max: 1, window: '1m', block: { first: '10m', factor: 2, max: '1d', forget: '7d' } }],
  },
]

const CALLERS: readonly Attributes[] = [
  { user: 'u1', ip: '192.0.2.7' },
  { user: 'u1', api_key: 'k1', plan: 'pro', ip: '2001:db8:1:2:3:4:5:6' },
  { user: 'u2', api_key: 'k2' },
  { user: 'Zoë 日本', api_key: 'a/b:c{d}' },
]
/** How many times each of them calls. */
const CALLS = 2

/** A limiter on this server, with the clock of the file and the secret that is stored there. */
export async function openFormatLimiter(
  url: string,
  { layout, prefix, clock, rules }: Pick<DumpFile, 'layout' | 'prefix' | 'clock' | 'rules'>,
): Promise<{ readonly limiter: Limiter; readonly store: RedisStore }> {
  const time = manualClock(clock)
  const store = redisStore({ url, prefix, layout, deadlineMs: 10_000, denyCacheMs: 0, clock: time })
  const limiter = createLimiter({ store, rules: [...rules], clock: time })
  await limiter.ready()
  return { limiter, store }
}

/** Fills an empty Redis, and returns what it holds then. */
export async function playCounters(
  server: RedisServer,
  layout: Layout,
): Promise<{ readonly dump: DumpFile; readonly names: readonly CounterName[] }> {
  const file = { layout, prefix: PREFIX, clock: CLOCK, rules: RULES }
  await server.call('SET', storeKeys(PREFIX).secret, SECRET)
  const { limiter, store } = await openFormatLimiter(server.url, file)
  try {
    for (let n = 0; n < CALLS; n++) {
      for (const attributes of CALLERS) await limiter.check({ attributes })
    }
    await store.exchange.post(POSTED)
    const left = await leftOf(limiter, CALLERS)
    const names = await namesOf(limiter, RULES, CALLERS)
    return { dump: { ...file, left, keys: await dumpKeys(server) }, names }
  } finally {
    await limiter.close()
  }
}

export function keysFile(counters: KeysFile['counters']): KeysFile {
  return {
    prefix: PREFIX,
    secret: SECRET,
    fingerprint: fingerprintOf(Buffer.from(SECRET, 'hex')),
    tags: PARTITION_TAGS,
    others: { ...storeKeys(PREFIX) },
    rules: RULES,
    counters,
  }
}

export async function leftOf(
  limiter: Limiter,
  callers: readonly Attributes[],
): Promise<readonly Left[]> {
  const all: Left[] = []
  for (const attributes of callers) {
    const policies = await limiter.limits({ attributes })
    all.push({
      attributes,
      policies: policies.map(({ rule, remaining, resetAfterMs }) => {
        return { rule, remaining, resetAfterMs }
      }),
    })
  }
  return all
}

/** The name of each counter of each caller, for every rule that counts it. */
export async function namesOf(
  limiter: Limiter,
  rules: readonly object[],
  callers: readonly Attributes[],
): Promise<readonly CounterName[]> {
  const names: CounterName[] = []
  for (const rule of rules as readonly { readonly id: string; readonly by: readonly string[] }[]) {
    for (const attributes of callers) {
      if (!rule.by.every((name) => attributes[name] !== undefined)) continue
      const { counters } = await limiter.inspect(rule.id, { attributes })
      for (const { limit, where, key } of counters) {
        names.push({ rule: rule.id, limit, where, attributes, key })
      }
    }
  }
  return names
}

/** Everything that a Redis holds, in the order of the names. */
export async function dumpKeys(server: RedisServer): Promise<readonly DumpedKey[]> {
  const keys = ((await server.call('KEYS', '*')) as readonly string[]).toSorted()
  const dumped: DumpedKey[] = []
  for (const key of keys) {
    const type = String(await server.call('TYPE', key))
    const head = { key, ttlMs: Number(await server.call('PTTL', key)) }
    if (type === 'string') dumped.push({ ...head, type, value: await hexOf(server, key) })
    else if (type === 'hash') dumped.push({ ...head, type, fields: await fieldsOf(server, key) })
    else if (type === 'zset') dumped.push({ ...head, type, members: await membersOf(server, key) })
    else throw new Error(`${key}: found a ${type}; accepted: string, hash or zset`)
  }
  return dumped
}

/** Redis turns bytes into hex itself, because the connection of the tests is for text. */
const TO_HEX = `local function hex(text)
  return (string.gsub(text, '.', function(c) return string.format('%02x', string.byte(c)) end))
end
`
const HEX_OF_STRING = `${TO_HEX}return hex(redis.call('GET', KEYS[1]))`
const HEX_OF_HASH = `${TO_HEX}local all = redis.call('HGETALL', KEYS[1])
for i, each in ipairs(all) do all[i] = hex(each) end
return all`
const FROM_HEX = `local function bytes(hex)
  return (string.gsub(hex, '..', function(c) return string.char(tonumber(c, 16)) end))
end
`
const STRING_OF_HEX = `${FROM_HEX}redis.call('SET', KEYS[1], bytes(ARGV[1]))`
const FIELD_OF_HEX = `${FROM_HEX}redis.call('HSET', KEYS[1], bytes(ARGV[1]), bytes(ARGV[2]))`

async function hexOf(server: RedisServer, key: string): Promise<string> {
  return String(await server.call('EVAL', HEX_OF_STRING, '1', key))
}

async function fieldsOf(
  server: RedisServer,
  key: string,
): Promise<readonly (readonly [string, string])[]> {
  const all = (await server.call('EVAL', HEX_OF_HASH, '1', key)) as readonly string[]
  return pairs(all)
}

async function membersOf(
  server: RedisServer,
  key: string,
): Promise<readonly (readonly [string, string])[]> {
  const all = await server.call('ZRANGE', key, '0', '-1', 'WITHSCORES')
  return pairs(all as readonly string[])
}

function pairs(all: readonly string[]): readonly (readonly [string, string])[] {
  const found = Array.from({ length: all.length / 2 }, (_, i) => {
    return [all[2 * i] ?? '', all[2 * i + 1] ?? ''] as const
  })
  return found.toSorted(([a], [b]) => (a < b ? -1 : 1))
}

/** A key must not expire during a test, however long ago it was dumped. */
const TTL_MS_MIN = 600_000

/** Writes dumped keys to a Redis, with TTLs that begin now. */
export async function loadKeys(server: RedisServer, keys: readonly DumpedKey[]): Promise<void> {
  for (const dumped of keys) {
    const { key, ttlMs } = dumped
    if (dumped.type === 'string') {
      await server.call('EVAL', STRING_OF_HEX, '1', key, dumped.value)
    } else if (dumped.type === 'hash') {
      for (const [field, value] of dumped.fields) {
        await server.call('EVAL', FIELD_OF_HEX, '1', key, field, value)
      }
    } else {
      for (const [member, score] of dumped.members) await server.call('ZADD', key, score, member)
    }
    await server.call('PEXPIRE', key, String(Math.max(ttlMs, TTL_MS_MIN)))
  }
}
