/** The conformance suite of stores, on a real Redis of each kind. */
import { afterAll, beforeAll, describe, test } from 'vitest'
import { startCluster } from '../../../../tools/redis/cluster.js'
import { startRedis } from '../../../../tools/redis/server.mjs'
import { manualClock, storeConformance } from '../testing/index.js'
import { redisStore, type RedisStoreOptions, STORE_ACL } from './index.js'
import { REDIS_CLIENTS } from './redis-options.js'

interface Server {
  readonly url: string
  stop(): Promise<void>
}

/** A server whose only user has the rights of docs/guides/redis.md and no others. */
async function startRestricted(): Promise<Server> {
  const server = await startRedis()
  await server.call('ACL', 'SETUSER', 'sluice', 'on', '>secret', ...STORE_ACL.split(' '))
  await server.call('ACL', 'SETUSER', 'default', '-@all', '+shutdown', '+ping')
  const url = server.url.replace('://', '://sluice:secret@')
  return { url, stop: () => server.stop() }
}

const kinds: readonly {
  readonly name: string
  start(): Promise<Server>
  readonly options: Partial<RedisStoreOptions>
}[] = [
  ...REDIS_CLIENTS.map((client) => ({
    name: `plain, by ${client}`,
    start: () => startRedis(),
    options: { client },
  })),
  { name: 'packed', start: () => startRedis(), options: { layout: 'packed' } },
  { name: 'plain, with the least rights', start: startRestricted, options: {} },
  { name: 'packed, with the least rights', start: startRestricted, options: { layout: 'packed' } },
  {
    name: 'a Cluster of six',
    start: () => startCluster({ primaries: 3, replicas: 3 }),
    options: {},
  },
  {
    name: 'a Cluster of six, packed',
    start: () => startCluster({ primaries: 3, replicas: 3 }),
    options: { layout: 'packed' },
  },
]

describe.each(kinds)('$name', (kind) => {
  let server: Server
  let prefixes = 0

  beforeAll(async () => {
    server = await kind.start()
  })
  afterAll(() => server.stop())

  const cases = storeConformance(async () => {
    const clock = manualClock()
    prefixes += 1
    const store = redisStore({
      url: server.url,
      prefix: `sluice:test${prefixes}`,
      deadlineMs: 10_000,
      clock,
      ...kind.options,
    })
    await store.ready
    return { store, clock }
  })
  for (const { name, run } of cases) test(name, run)
})
