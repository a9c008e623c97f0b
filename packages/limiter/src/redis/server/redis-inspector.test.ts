/** An inspected counter, compared with what a real Redis has. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RedisCluster, startCluster } from '../../../../../tools/redis/cluster.js'
import { type RedisServer, startRedis } from '../../../../../tools/redis/server.mjs'
import { createLimiter, type Limiter } from '../../index.js'
import { redisStore, type RedisStoreOptions, STORE_ACL } from '../index.js'
import { PARTITION_TAGS, slotOf } from '../request/partitions.js'

const ALGORITHMS = [
  'token-bucket',
  'gcra',
  'leaky-bucket',
  'fixed-window',
  'sliding-window-counter',
  'sliding-window-log',
] as const
const RULES = ALGORITHMS.map((algorithm) => ({
  id: algorithm,
  by: ['user'],
  limits: [{ algorithm, max: 100, window: '1h', name: 'all' }],
}))
const call = { attributes: { user: 'u1' } }

async function connect(options: RedisStoreOptions): Promise<Limiter> {
  const limiter = createLimiter({
    rules: RULES,
    store: redisStore({ deadlineMs: 10_000, ...options }),
  })
  await limiter.ready()
  return limiter
}

const STATES = {
  'token-bucket': ['at', 'part', 'used'],
  gcra: ['at', 'part', 'used'],
  'leaky-bucket': ['next', 'oldest', 'part', 'vacated'],
  'fixed-window': ['count', 'start'],
  'sliding-window-counter': ['curr', 'prev', 'start'],
  'sliding-window-log': ['instants', 'newest', 'oldest', 'units'],
} as const

/** Whether a hash has a field, which is given in hex. */
const HAS_FIELD = `
  local field = string.gsub(ARGV[1], '..', function(hex) return string.char(tonumber(hex, 16)) end)
  return redis.call('HEXISTS', KEYS[1], field)`

async function inspectOne(limiter: Limiter, rule: string) {
  const { counters } = await limiter.inspect(rule, call)
  const [counter] = counters
  if (counter === undefined || counters.length !== 1) throw new Error('not one counter')
  return counter
}

describe('on one Redis', () => {
  let server: RedisServer
  beforeAll(async () => {
    server = await startRedis()
  })
  afterAll(() => server.stop())

  test('a counter that does not exist has its key and nothing else', async () => {
    const limiter = await connect({ url: server.url, prefix: 'sluice:none' })
    const counter = await inspectOne(limiter, 'token-bucket')
    expect(counter).toMatchObject({
      node: server.address,
      state: null,
      ttlMs: null,
      bytes: null,
      remaining: 100,
      resetAfterMs: 0,
    })
    expect(counter.key).toMatch(/^sluice:none:\{\w+\}:[0-9a-f]{16}$/)
    await limiter.close()
  })

  test.each(ALGORITHMS)('%s, plain: the key is the one in Redis', async (algorithm) => {
    const prefix = `sluice:plain-${algorithm}`
    const limiter = await connect({ url: server.url, prefix })
    await limiter.check(call)
    const counter = await inspectOne(limiter, algorithm)
    expect(await server.call('EXISTS', counter.key)).toBe(1)
    expect(counter.key).toContain(`{${PARTITION_TAGS[counter.partition]}}`)
    expect(Object.keys(counter.state ?? {}).toSorted()).toEqual(STATES[algorithm])
    expect(counter.bytes).toBe(await server.call('MEMORY', 'USAGE', counter.key))
    const left = Number(await server.call('PTTL', counter.key))
    expect(counter.ttlMs).toBeGreaterThanOrEqual(left)
    await limiter.close()
  })

  test.each(ALGORITHMS)('%s, packed: the hash, and the field in it', async (algorithm) => {
    const prefix = `sluice:packed-${algorithm}`
    const limiter = await connect({ url: server.url, prefix, layout: 'packed' })
    await limiter.check(call)
    const counter = await inspectOne(limiter, algorithm)
    const [key = '', , field] = counter.key.split(' ')
    expect(Object.keys(counter.state ?? {}).toSorted()).toEqual(STATES[algorithm])
    expect(counter.ttlMs).toBeGreaterThan(0)
    if (algorithm === 'sliding-window-log') {
      expect(counter.key).toBe(key)
      expect(await server.call('TYPE', key)).toBe('string')
    } else {
      expect(await server.call('EVAL', HAS_FIELD, '1', key, field ?? '')).toBe(1)
      // Counters of other rules may share the hash, so the memory is that of each field.
      const usage = Number(await server.call('MEMORY', 'USAGE', key))
      expect(counter.bytes).toBe(Math.ceil(usage / Number(await server.call('HLEN', key))))
    }
    await limiter.close()
  })

  test('the memory of a field is its share of the hash', async () => {
    const prefix = 'sluice:share'
    const limiter = await connect({ url: server.url, prefix, layout: 'packed' })
    await limiter.check(call)
    const { key, bytes } = await inspectOne(limiter, 'gcra')
    const [hash = ''] = key.split(' ')
    await server.call('HSET', hash, 'another1', 'value')
    const whole = Number(await server.call('MEMORY', 'USAGE', hash))
    const shared = await inspectOne(limiter, 'gcra')
    expect(shared.bytes).toBe(Math.ceil(whole / 2))
    expect(shared.bytes).toBeLessThan(bytes ?? 0)
    await limiter.close()
  })

  test.each(['plain', 'packed'] as const)(
    'a user with the least rights sees the same, except for the memory (%s)',
    async (layout) => {
      await server.call(
        'ACL',
        'SETUSER',
        'least',
        'reset',
        'on',
        '>secret',
        ...STORE_ACL.split(' '),
      )
      const url = server.url.replace('://', '://least:secret@')
      const prefix = `sluice:least-${layout}`
      const limiter = await connect({ url, prefix, layout })
      await limiter.check(call)
      await server.call('ACL', 'LOG', 'RESET')
      const counter = await inspectOne(limiter, 'token-bucket')
      // The bytes of a bucket, and in the packed layout the 8 of its field.
      const valueBytes = 20
      expect(counter.bytes).toBe(layout === 'plain' ? valueBytes : 8 + valueBytes)
      expect(counter.ttlMs).toBeGreaterThan(0)
      expect(counter.state).not.toBeNull()
      // The right is tried once, because it cannot be known beforehand, and never again.
      await inspectOne(limiter, 'gcra')
      const log = (await server.call('ACL', 'LOG')) as readonly (readonly string[])[]
      expect(log.map((entry) => entry[entry.indexOf('count') + 1])).toEqual([1])
      await limiter.close()
    },
  )

  test('a silent store causes an error', async () => {
    const other = await startRedis()
    const limiter = await connect({ url: other.url, deadlineMs: 20 })
    other.pause()
    await expect(limiter.inspect('gcra', call)).rejects.toMatchObject({ code: 'STORE_FAILED' })
    await limiter.close()
    await other.stop()
  })

  test('a store that has not started causes an error, and callers have no name yet', async () => {
    const limiter = createLimiter({
      rules: RULES,
      store: redisStore({ url: 'redis://127.0.0.1:1' }),
    })
    await expect(limiter.inspect('gcra', call)).rejects.toMatchObject({ code: 'STORE_FAILED' })
    expect(() => limiter.callers(call)).toThrow('The store has not started')
    await limiter.close()
  })
})

describe('on a Cluster', () => {
  let cluster: RedisCluster
  beforeAll(async () => {
    cluster = await startCluster({ primaries: 3, replicas: 0 })
  })
  afterAll(() => cluster.stop())

  test('the node is the one that has the slot', async () => {
    const limiter = await connect({ url: cluster.url })
    const nodes = new Set<string>()
    for (let n = 0; n < 12; n++) {
      const own = { attributes: { user: `u${n}` } }
      await limiter.check(own)
      const [counter] = (await limiter.inspect('token-bucket', own)).counters
      const node = counter?.node ?? ''
      nodes.add(node)
      expect(node).toBe((await cluster.primaryOf(slotOf(counter?.key ?? ''))).address)
      expect(counter?.ttlMs).toBeGreaterThan(0)
      expect(counter?.bytes).toBeGreaterThan(0)
    }
    expect(nodes.size).toBe(3)
    await limiter.close()
  })
})
