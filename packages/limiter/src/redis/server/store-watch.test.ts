import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type RedisServer, startRedis } from '../../../../../tools/redis/server.mjs'
import {
  FakeScheduler,
  openChannel,
  settled,
  type TestChannel,
} from '../connection/channel.test-helper.js'
import { parseInfo } from './store-info.js'
import { RedisReplyError } from '../connection/driver.js'
import { StoreWatch, type WatchedNode } from './store-watch.js'

const MB = 1_048_576

interface Figures {
  readonly used?: number
  readonly max?: number
  readonly evicted?: number
  readonly keys?: number
  readonly aof?: number
  readonly policy?: string
}

function infoOf(figures: Figures): string {
  const { used = 0, max = 0, evicted = 0, keys = 0, aof = 0, policy = 'noeviction' } = figures
  const lines = [
    'redis_version:7.0.15',
    `used_memory:${used}`,
    `maxmemory:${max}`,
    `evicted_keys:${evicted}`,
    `maxmemory_policy:${policy}`,
    `aof_enabled:${aof}`,
    '# Keyspace',
    `db0:keys=${keys},expires=1,avg_ttl=1`,
  ]
  return lines.join('\r\n')
}

describe('the store watch', () => {
  function makeWatch(figures: Map<string, Figures | Error>) {
    const scheduler = new FakeScheduler()
    const problems: string[] = []
    let asked = 0
    const primaries = (): WatchedNode[] =>
      [...figures.keys()].map((address) => ({
        address,
        run: ([name]) => {
          if (name === 'INFO') asked += 1
          const found = figures.get(address)
          if (found instanceof Error) return Promise.reject(found)
          return Promise.resolve(Buffer.from(infoOf(found ?? {})))
        },
      }))
    const onProblem = (text: string) => void problems.push(text)
    const watch = new StoreWatch({ primaries, scheduler, onProblem })
    return { watch, scheduler, problems, asked: () => asked }
  }

  test('polls every current primary at once and every 5 s', async () => {
    const figures = new Map([['a:1', { used: 10, max: 100, keys: 3, aof: 1 }]])
    const { watch, scheduler, asked } = makeWatch(figures)
    expect(watch.stats()).toMatchObject({ usedBytes: 0, keys: 0, aof: false, nodes: [] })
    watch.start()
    await scheduler.advance(0)
    expect(watch.stats()).toMatchObject({ usedBytes: 10, maxBytes: 100, keys: 3, aof: true })
    figures.set('b:1', { used: 20, max: 200, keys: 4, aof: 0 })
    await scheduler.advance(5000)
    expect(asked()).toBe(3)
    expect(watch.stats()).toMatchObject({ usedBytes: 30, maxBytes: 300, keys: 7, aof: false })
    expect(watch.stats().nodes.map(({ address }) => address)).toEqual(['a:1', 'b:1'])
    figures.delete('a:1')
    await scheduler.advance(5000)
    expect(watch.stats()).toMatchObject({ usedBytes: 20, keys: 4 })
    watch.stop()
    await scheduler.advance(60_000)
    expect([asked(), scheduler.waiting]).toEqual([4, 0])
  })

  test('has no bound if one node has none', async () => {
    const figures = new Map<string, Figures>([
      ['a:1', { max: 100 }],
      ['b:1', { max: 0 }],
    ])
    const { watch } = makeWatch(figures)
    watch.start()
    await settled()
    expect(watch.stats().maxBytes).toBe(0)
  })

  test('keeps the statistics of a node that does not answer', async () => {
    const figures = new Map<string, Figures | Error>([['a:1', { used: 10 }]])
    const { watch, scheduler, problems } = makeWatch(figures)
    watch.start()
    await settled()
    figures.set('a:1', new Error('gone'))
    await scheduler.advance(5000)
    expect([watch.stats().usedBytes, problems]).toEqual([10, []])
  })

  test('reports once that keys are evicted, and once that they no longer are', async () => {
    const figures = new Map<string, Figures>()
    const { watch, scheduler, problems } = makeWatch(figures)
    watch.start()
    const poll = async (evicted: number, polls = 1) => {
      figures.set('a:1', { evicted })
      await scheduler.advance(5000 * polls)
    }
    await poll(7)
    expect(problems).toEqual([])
    await poll(10)
    await poll(15)
    await poll(15, 11)
    expect(problems).toEqual([
      'Redis at a:1: evicted 3 keys since the last poll: each may be a counter whose whole budget ' +
        'is handed out again; accepted: maxmemory-policy noeviction',
    ])
    await poll(15)
    expect(problems.splice(0)).toEqual([
      expect.any(String),
      'Redis at a:1: no longer evicts keys; it had evicted 8',
    ])
    // The server was restarted and counts from 0.
    await poll(0, 3)
    expect(problems).toEqual([])
    await poll(2)
    expect(problems).toEqual([expect.stringContaining('evicted 2 keys')])
  })

  test('reports a changed policy, or a wrong one of a new primary', async () => {
    const figures = new Map<string, Figures>([['a:1', {}]])
    const { watch, scheduler, problems } = makeWatch(figures)
    watch.start()
    await scheduler.advance(5000)
    figures.set('b:1', { policy: 'allkeys-lru' })
    await scheduler.advance(10_000)
    figures.set('b:1', {})
    await scheduler.advance(10_000)
    expect(problems).toEqual([
      'Redis at b:1: maxmemory-policy is allkeys-lru now; accepted: noeviction',
      'Redis at b:1: maxmemory-policy is noeviction again',
    ])
  })

  test('reports a right that was removed, and that it is back, once each', async () => {
    const scheduler = new FakeScheduler()
    const problems: string[] = []
    let isAllowed = true
    const run = ([name]: readonly unknown[]) =>
      name === 'TIME' && !isAllowed
        ? Promise.reject(new RedisReplyError("NOPERM no permissions to run the 'time' command"))
        : Promise.resolve(Buffer.from(infoOf({})))
    const primaries = () => [{ address: 'a:1', run }]
    const onProblem = (text: string) => void problems.push(text)
    const watch = new StoreWatch({ primaries, scheduler, onProblem })
    watch.start()
    await scheduler.advance(0)
    expect([...watch.stats().refusals]).toEqual([])
    isAllowed = false
    await scheduler.advance(20_000)
    expect([...watch.stats().refusals.keys()]).toEqual(['a:1'])
    isAllowed = true
    await scheduler.advance(20_000)
    expect([...watch.stats().refusals]).toEqual([])
    expect(problems).toEqual([
      "Redis at a:1: refuses this node: NOPERM no permissions to run the 'time' command; " +
        'accepted: a user with the rights in STORE_ACL',
      'Redis at a:1: accepts this node again',
    ])
  })

  test('survives a listener that throws', async () => {
    const scheduler = new FakeScheduler()
    let looks = 0
    const run = ([name]: readonly unknown[]) => {
      if (name === 'INFO') looks += 1
      return Promise.resolve(Buffer.from(infoOf({ evicted: looks })))
    }
    const onProblem = () => {
      throw new Error('no')
    }
    const primaries = () => [{ address: 'a:1', run }]
    new StoreWatch({ primaries, scheduler, onProblem }).start()
    await scheduler.advance(20_000)
    expect(looks).toBe(5)
  })
})

describe('INFO', () => {
  test('names Valkey and the Redis it is compatible with', () => {
    const info = parseInfo('redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.0\r\n')
    expect(info).toMatchObject({ version: 'Valkey 8.1.0', major: 7 })
  })

  test('has the keys of all databases', () => {
    const info = parseInfo('db0:keys=3,expires=1\r\ndb11:keys=40,expires=0,avg_ttl=0\r\n')
    expect(info.keys).toBe(43)
  })
})

describe('the store watch of a real Redis that evicts', () => {
  let server: RedisServer
  let channel: TestChannel

  beforeAll(async () => {
    server = await startRedis({
      config: ['--maxmemory', String(8 * MB), '--maxmemory-policy', 'allkeys-lru'],
    })
    channel = await openChannel(server.port)
  })
  afterAll(async () => {
    channel?.close()
    await server?.stop()
  })

  test('reports evictions and the memory in use', async () => {
    const scheduler = new FakeScheduler()
    const problems: string[] = []
    const watch = new StoreWatch({
      primaries: () => [channel],
      scheduler,
      onProblem: (text) => void problems.push(text),
    })
    watch.start()
    await vi.waitFor(() => expect(watch.stats().nodes).toHaveLength(1), { timeout: 30_000 })
    expect(problems.splice(0)).toEqual([expect.stringContaining('maxmemory-policy is allkeys-lru')])
    expect(watch.stats()).toMatchObject({ maxBytes: 8 * MB, evictedKeys: 0, keys: 0, aof: false })
    const filler = 'x'.repeat(1000)
    const commands = Array.from({ length: 12_000 }, (_, i) => ['SET', `k${i}`, filler, 'EX', '99'])
    await server.pipeline(commands)
    await scheduler.advance(5000)
    await vi.waitFor(() => expect(watch.stats().evictedKeys).toBeGreaterThan(0), {
      timeout: 30_000,
    })
    expect(problems).toEqual([
      expect.stringMatching(/^Redis at 127\.0\.0\.1:\d+: evicted \d+ keys/),
    ])
    expect(watch.stats().usedBytes).toBeGreaterThan(0.8 * 8 * MB)
    // Redis evicts for a while after the last write.
    await vi.waitFor(
      async () => {
        await scheduler.advance(5000)
        const keys = Number(await server.call('DBSIZE'))
        await vi.waitFor(() => expect(watch.stats().keys).toBe(keys))
      },
      { timeout: 30_000 },
    )
  })
})
