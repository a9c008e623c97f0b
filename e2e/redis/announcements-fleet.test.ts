/**
 * Refunds and resets on one node, and refusals remembered on another. The clock of that node stands
 * still, so that no remembered refusal expires: only an announcement removes it.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { createLimiter, type Limiter } from '@sluice/limiter'
import { redisStore, storeAcl } from '@sluice/limiter/redis'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type RedisCluster, startCluster } from '../../tools/redis/cluster.js'
import { type RedisSentinelSet, startSentinel } from '../../tools/redis/sentinel.js'
import { startRedis, type RedisServer } from '../../tools/redis/server.mjs'
import { waitFor } from '../../tools/redis/wait-for.js'

const CLIENTS = ['ioredis', 'iovalkey', 'node-redis'] as const
const PASSWORD = 'a-password-for-tests'
const rules = [
  {
    id: 'all',
    by: ['user'],
    limits: [{ algorithm: 'fixed-window', max: 10, window: '366d', name: 'all' }],
  },
]
const callOf = (user: string) => ({ attributes: { user } })
const ann = callOf('ann')

interface Node {
  readonly limiter: Limiter
  readonly problems: string[]
  /** The time of its deny cache. */
  nowMs: number
}

const nodes: Node[] = []
let prefixes = 0

async function openNode(
  url: string,
  prefix: string,
  client: (typeof CLIENTS)[number] = 'ioredis',
): Promise<Node> {
  const problems: string[] = []
  const observer = { problem: (text: string) => void problems.push(text) }
  const store = redisStore({ url, prefix, client, deadlineMs: 10_000, observer })
  const node: Node = {
    limiter: createLimiter({ rules, store, monotonicMs: () => node.nowMs }),
    problems,
    nowMs: 1000,
  }
  nodes.push(node)
  await node.limiter.ready()
  return node
}

afterEach(async () => {
  await Promise.all(nodes.splice(0).map(({ limiter }) => limiter.close()))
})

/** Uses up the limit of a caller, and makes a node remember the refusal. */
async function useUp(node: Node, call: typeof ann): Promise<void> {
  await node.limiter.check({ ...call, cost: 10 })
  // An earlier announcement may still arrive and remove it once more.
  await waitFor('a memory', async () => (await node.limiter.check(call)).source === 'deny-cache')
}

async function expectRemembered({ limiter }: Node, call: typeof ann): Promise<void> {
  expect(await limiter.check(call)).toMatchObject({ allowed: false, source: 'deny-cache' })
}

/** Waits for the announcement; until then every refusal comes from the deny cache. */
const admits = ({ limiter }: Node, call: typeof ann) =>
  waitFor('an admission', async () => {
    const { allowed, source } = await limiter.check(call)
    if (!allowed) expect(source).toBe('deny-cache')
    return allowed
  })

/** Two nodes that receive each other's announcements. */
async function openPair(
  url: string,
  clients: readonly (typeof CLIENTS)[number][] = ['ioredis', 'ioredis'],
): Promise<readonly [here: Node, there: Node]> {
  prefixes += 1
  const prefix = `test${prefixes}`
  const nodeA = await openNode(url, prefix, clients[0])
  const nodeB = await openNode(url, prefix, clients[1])
  const probe = callOf('probe')
  for (const [one, other] of [
    [nodeA, nodeB],
    [nodeB, nodeA],
  ] as const) {
    await one.limiter.reset(probe)
    await useUp(one, probe)
    // The first may be sent before the other is subscribed.
    await waitFor('a subscribed node', async () => {
      await other.limiter.refund(probe)
      return (await one.limiter.check(probe)).allowed
    })
  }
  return [nodeA, nodeB]
}

describe('on one Redis', () => {
  let server: RedisServer
  beforeAll(async () => {
    server = await startRedis()
  })
  afterAll(() => server.stop())

  test.each(CLIENTS)(
    'a refund and a reset end remembered refusals of other nodes, by %s',
    async (client) => {
      const [nodeA, nodeB] = await openPair(server.url, [client, 'ioredis'])
      await useUp(nodeA, ann)
      await nodeB.limiter.refund(ann)
      await admits(nodeA, ann)
      await nodeB.limiter.reset(ann)
      await useUp(nodeA, ann)
      await nodeB.limiter.reset(ann)
      await admits(nodeA, ann)
    },
    60_000,
  )

  test('refunds of many callers at once make few messages', async () => {
    const [nodeA, nodeB] = await openPair(server.url)
    const calls = Array.from({ length: 300 }, (_, i) => callOf(`u${i}`))
    for (const call of calls) await useUp(nodeA, call)
    const published = async () => {
      const { cmdstat_publish: stats = '' } = await server.info('commandstats')
      return Number(/calls=(\d+)/.exec(stats)?.[1] ?? 0)
    }
    const before = await published()
    await Promise.all(calls.map((call) => nodeB.limiter.refund(call)))
    for (const call of calls) await admits(nodeA, call)
    // The refunds are answered in a few batches, and the announcements of each are sent together.
    expect((await published()) - before).toBeLessThanOrEqual(calls.length / 10)
  })

  test('messages of other publishers are harmless', async () => {
    const [nodeA, nodeB] = await openPair(server.url)
    await useUp(nodeA, ann)
    const channel = `test${prefixes}:{home}:announcements`
    for (const text of [
      '',
      'garbage',
      '\u0001'.repeat(9),
      '\u0002'.repeat(9),
      'x'.repeat(100_000),
    ]) {
      expect(await server.call('PUBLISH', channel, text)).toBe(2)
    }
    // A later message on the same connection is read after them.
    const probe = callOf('bob')
    await useUp(nodeA, probe)
    await nodeB.limiter.refund(probe)
    await admits(nodeA, probe)
    await expectRemembered(nodeA, ann)
    expect(nodeA.problems.filter((text) => !/maxmemory/.test(text))).toEqual([])
  })

  test('a node subscribes again after its connections were cut', async () => {
    const [nodeA, nodeB] = await openPair(server.url)
    await useUp(nodeA, ann)
    await server.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await waitFor('a node that is subscribed again', async () => {
      await nodeB.limiter.refund(ann)
      return (await nodeA.limiter.check(ann)).allowed
    })
  })

  test('without the right to publish a refusal is remembered for a second, which is reported once', async () => {
    prefixes += 1
    const prefix = `test${prefixes}`
    const rights = storeAcl(prefix)
      .split(' ')
      .filter((word) => !/publish|subscribe|&/.test(word))
    await server.call('ACL', 'SETUSER', 'old', 'reset', 'on', `>${PASSWORD}`, ...rights)
    const url = `redis://old:${PASSWORD}@${server.address}`
    const nodeA = await openNode(url, prefix)
    const nodeB = await openNode(url, prefix)
    await useUp(nodeA, ann)
    await nodeB.limiter.refund(ann)
    await nodeB.limiter.reset(ann)
    const said = () => nodeB.problems.filter((text) => text.includes('up to 1 s'))
    await waitFor('a report', async () => said().length > 0)
    await expectRemembered(nodeA, ann)
    nodeA.nowMs += 1000
    expect(await nodeA.limiter.check(ann)).toMatchObject({ allowed: true, source: 'store' })
    expect(said()).toHaveLength(1)
  })
})

describe('on a Cluster', () => {
  let cluster: RedisCluster
  beforeAll(async () => {
    cluster = await startCluster({ primaries: 3, replicas: 0 })
  })
  afterAll(() => cluster?.stop())

  test('a refund and a reset end remembered refusals of other nodes', async () => {
    const [nodeA, nodeB] = await openPair(cluster.url)
    for (const user of ['ann', 'bob', 'cyd', 'dan']) {
      const call = callOf(user)
      await useUp(nodeA, call)
      await nodeB.limiter.refund(call)
      await admits(nodeA, call)
      await nodeB.limiter.reset(call)
      await admits(nodeA, call)
    }
  })
})

describe('behind Sentinel', () => {
  let set: RedisSentinelSet
  beforeAll(async () => {
    set = await startSentinel()
  })
  afterAll(() => set?.stop())

  test('nodes subscribe at the new primary after a failover', async () => {
    const [nodeA, nodeB] = await openPair(set.url)
    await set.failOver()
    await waitFor('nodes that count and are subscribed again', async () => {
      // Units that were lost with the old primary are used up again.
      await nodeA.limiter.check({ ...ann, cost: 10 })
      const { allowed, source } = await nodeA.limiter.check(ann)
      if (allowed || source === 'posture') return false
      const isRefunded = await nodeB.limiter.refund({ ...ann, cost: 10 }).then(
        () => true,
        () => false,
      )
      // A message that was lost with the old primary is not repeated; the next round sends a new
      // one.
      for (let looks = 0; isRefunded && looks < 40; looks++) {
        if ((await nodeA.limiter.check(ann)).allowed) return true
        await sleep(25)
      }
      return false
    })
  })
})
