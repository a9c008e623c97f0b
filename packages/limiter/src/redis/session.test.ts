/** What a store finds out when it starts. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startCluster } from '../../../../tools/redis/cluster.js'
import { type RedisServer, startRedis } from '../../../../tools/redis/server.mjs'
import { redisStore } from './index.js'

let server: RedisServer

beforeAll(async () => {
  server = await startRedis()
})
afterAll(() => server.stop())

async function problemOf(url: string, options = {}): Promise<unknown> {
  const store = redisStore({ url, ...options })
  try {
    await store.ready
    return undefined
  } catch (error) {
    expect(store.stats().state).toBe('unfit')
    return error
  } finally {
    await store.close()
  }
}

describe('a store that is not what its URL says does not start', () => {
  test.each([
    ['redis+cluster', '', 'found no node of a Cluster behind redis+cluster://'],
    ['redis+sentinel', '/sluice', 'found no Sentinel behind redis+sentinel://'],
  ])('%s', async (scheme, path, found) => {
    const error = await problemOf(`${scheme}://${server.address}${path}`)
    expect(error).toMatchObject({
      code: 'STORE_UNFIT',
      message: `Redis at ${server.address}: ${found}; accepted: redis://${server.address}`,
    })
  })

  test('redis', async () => {
    const cluster = await startCluster({ primaries: 3, replicas: 0 })
    try {
      const [node] = cluster.nodes
      const error = await problemOf(node?.url ?? '')
      expect(error).toMatchObject({
        code: 'STORE_UNFIT',
        message: expect.stringContaining('accepted: redis+cluster://'),
      })
    } finally {
      await cluster.stop()
    }
  }, 60_000)
})

test('a store that evicts counters is refused, unless that is asked for', async () => {
  await server.call('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru')
  try {
    expect(await problemOf(server.url)).toMatchObject({ code: 'STORE_UNFIT' })
    expect(await problemOf(server.url, { allowEviction: true })).toBeUndefined()
  } finally {
    await server.call('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
  }
})

test('a node with another secret does not start', async () => {
  const secret = (byte: number) => new Uint8Array(16).fill(byte)
  const prefix = 'two-secrets'
  expect(await problemOf(server.url, { prefix, secret: secret(1) })).toBeUndefined()
  expect(await problemOf(server.url, { prefix, secret: secret(2) })).toMatchObject({
    code: 'KEY_SECRET_DIFFERS',
  })
})
