/** Many nodes, one budget: never one too many, under any interleaving. */
import { createLimiter } from '@sluice/limiter'
import { redisStore } from '@sluice/limiter/redis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RedisCluster, startCluster } from '../../tools/redis/cluster.js'
import { propertyRuns } from '../../tools/property-runs.js'
import { type RedisServer, scanWithoutTtl, startRedis } from '../../tools/redis/server.mjs'
import { runNodes } from './decision-nodes.test-helper.js'

const NODES = 8
const DECISIONS = propertyRuns(1_000_000)
const LIMIT = 10_000

/** A window that does not end during the test. */
const rules = [
  {
    id: 'all',
    by: ['user'],
    limits: [{ algorithm: 'fixed-window', max: LIMIT, window: '366d', name: 'all' }],
  },
]

interface Place {
  readonly url: string
  readonly servers: readonly RedisServer[]
  stop(): Promise<void>
}

const places = [
  {
    name: 'standalone',
    async open(): Promise<Place> {
      const server = await startRedis()
      return { url: server.url, servers: [server], stop: () => server.stop() }
    },
  },
  {
    name: 'a Cluster of six',
    async open(): Promise<Place> {
      const cluster: RedisCluster = await startCluster({ primaries: 3, replicas: 3 })
      return { url: cluster.url, servers: await cluster.primaries(), stop: () => cluster.stop() }
    },
  },
]

describe.each(places)('$name', (kind) => {
  let place: Place

  beforeAll(async () => {
    place = await kind.open()
  })
  afterAll(() => place.stop())

  test(`${NODES} processes, ${DECISIONS} decisions, exactly ${LIMIT} admitted`, async () => {
    const results = await runNodes(NODES, {
      url: place.url,
      rules,
      calls: DECISIONS / NODES,
      waiting: 128,
      attributes: { user: 'u1' },
    })
    const total = (of: (result: (typeof results)[number]) => number) =>
      results.reduce((sum, result) => sum + of(result), 0)
    expect(total(({ sources }) => sources['store'] ?? 0)).toBe(DECISIONS)
    expect(total(({ allowed }) => allowed)).toBe(LIMIT)
    const limiter = createLimiter({
      rules,
      store: redisStore({ url: place.url, deadlineMs: 10_000 }),
    })
    try {
      await limiter.ready()
      const peeked = await limiter.peek({ attributes: { user: 'u1' } })
      expect([peeked.allowed, peeked.remaining]).toEqual([false, 0])
    } finally {
      await limiter.close()
    }
    const immortal = await Promise.all(place.servers.map((server) => scanWithoutTtl(server)))
    expect(immortal.flat()).toEqual([])
  }, 300_000)
})
