/** A call that several rules match is charged in all or in none, wherever they are counted. */
import { createLimiter, type Limiter } from '@sluice/limiter'
import { redisStore } from '@sluice/limiter/redis'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { startCluster } from '../../tools/redis/cluster.js'
import { scanWithoutTtl, startRedis, type RedisServer } from '../../tools/redis/server.mjs'

interface Place {
  readonly url: string
  servers(): Promise<readonly RedisServer[]>
  stop(): Promise<void>
}

const places = [
  {
    name: 'on one Redis',
    isCluster: false,
    async open(): Promise<Place> {
      const server = await startRedis()
      return { url: server.url, servers: async () => [server], stop: () => server.stop() }
    },
  },
  {
    name: 'on a Cluster of six',
    isCluster: true,
    async open(): Promise<Place> {
      const cluster = await startCluster()
      return {
        url: cluster.url,
        servers: () => cluster.primaries(),
        stop: () => cluster.stop(),
      }
    },
  },
]

const window = (id: string, by: string, max: number) => ({
  id,
  by: [by],
  limits: [{ algorithm: 'fixed-window', max, window: '366d', name: 'all' }],
})

const rules = [
  window('users', 'user', 100),
  window('addresses', 'ip', 100),
  window('teams', 'team', 3),
]
const SOON = { timeout: 20_000 }
const attributes = { user: 'ann', ip: '203.0.113.7', team: 'blue' }

describe.each(places)('$name', (kind) => {
  let place: Place
  let limiter: Limiter

  beforeAll(async () => {
    place = await kind.open()
    const store = redisStore({ url: place.url, deadlineMs: 10_000, denyCacheMs: 0 })
    limiter = createLimiter({ rules, store })
    await limiter.ready()
  })
  afterAll(async () => {
    await limiter.close()
    await place.stop()
  })

  const left = async () => {
    const policies = await limiter.limits({ attributes })
    return Object.fromEntries(policies.map(({ rule, remaining }) => [rule, remaining]))
  }

  test('three of 50 calls at once pass, and the two other rules are charged for these only', async () => {
    const calls = Array.from({ length: 50 }, () => limiter.check({ attributes }))
    const decisions = await Promise.all(calls)
    // On a Cluster a refused call holds the others' counters for a round trip; 100 have room.
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(3)
    const refusal = decisions.find(({ allowed }) => !allowed)
    expect([refusal?.rule, refusal?.reason, refusal?.source]).toEqual(['teams', 'over', 'store'])
    const expected = { users: 97, addresses: 97, teams: 0 }
    if (kind.isCluster) await vi.waitFor(async () => expect(await left()).toEqual(expected), SOON)
    else expect(await left()).toEqual(expected)
  })

  test('a refusal reports what is left of the rules with room as if nothing was taken', async () => {
    const decision = await limiter.check({ attributes })
    const remaining = decision.policies().map((policy) => [policy.rule, policy.remaining])
    expect(remaining).toEqual([
      ['users', 97],
      ['addresses', 97],
      ['teams', 0],
    ])
  })

  test('no key lives for ever', async () => {
    const servers = await place.servers()
    const immortal = await Promise.all(servers.map((server) => scanWithoutTtl(server)))
    expect(immortal.flat()).toEqual([])
  })
})
