/**
 * Calls on a Redis Cluster whose rules count in several slots. Units that a call holds while it is
 * decided must not refuse another for longer than that, nor be charged if the call is refused.
 */
import { createLimiter, type Decision, type Limiter } from '@sluice/limiter'
import { redisStore } from '@sluice/limiter/redis'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { type RedisCluster, startCluster } from '../../tools/redis/cluster.js'

/** `npm run test:long` runs the number of rounds that the published guarantee is based on. */
const ROUNDS = Number(process.env['SLUICE_RUNS'] ?? '1') > 1 ? 1000 : 40
/** Units are held for less than this; every window of these tests is a year. */
const HOLD_MS = 5000
const SOON = { timeout: 20_000 }

const window = (id: string, by: readonly string[], max: number) => ({
  id,
  by,
  limits: [{ algorithm: 'fixed-window', max, window: '366d', name: 'all' }],
})

let cluster: RedisCluster
const limiters: Limiter[] = []
let prefixes = 0

beforeAll(async () => {
  cluster = await startCluster({ primaries: 3, replicas: 0 })
})
afterAll(() => cluster.stop())
afterEach(async () => {
  await Promise.all(limiters.splice(0).map((limiter) => limiter.close()))
})

/** Nodes that share counters which nothing else has used. */
async function startNodes(count: number, rules: readonly unknown[], denyCacheMs?: number) {
  prefixes += 1
  const nodes = Array.from({ length: count }, () =>
    createLimiter({
      rules,
      store: redisStore({
        url: cluster.url,
        prefix: `held${prefixes}`,
        deadlineMs: HOLD_MS,
        ...(denyCacheMs === undefined ? {} : { denyCacheMs }),
      }),
    }),
  )
  limiters.push(...nodes)
  await Promise.all(nodes.map((node) => node.ready()))
  return nodes
}

/** Makes this many calls at once, spread over the nodes in turn. */
function burst(
  nodes: readonly Limiter[],
  calls: number,
  attributes: Record<string, string>,
): Promise<readonly Decision[]> {
  const asked = Array.from({ length: calls }, async (_, n) => {
    const node = nodes[n % nodes.length]
    if (node === undefined) throw new Error('there is no node')
    return node.check({ attributes })
  })
  return Promise.all(asked)
}

const admitted = (decisions: readonly Decision[]) =>
  decisions.filter(({ allowed }) => allowed).length

describe('a caller within its limit', () => {
  const rules = [window('users', ['user'], 50), window('addresses', ['ip'], 30)]

  test('gets no refusal from a deny cache after a burst that another of its rules refused', async () => {
    const nodes = await startNodes(2, rules)
    for (let round = 0; round < 20; round++) {
      const user = `u${round}`
      const decisions = await burst(nodes, 200, { user, ip: `203.0.113.${round}` })
      expect(admitted(decisions)).toBe(30)
      const byUser = decisions.filter(({ allowed, rule }) => !allowed && rule === 'users')
      // The user has 20 left, so only held units refuse it, for a moment.
      for (const { retryAfterMs } of byUser) expect(retryAfterMs).toBeLessThanOrEqual(HOLD_MS)
      const next = await Promise.all(
        nodes.map((node, n) =>
          node.check({ attributes: { user, ip: `198.51.100.${2 * round + n}` } }),
        ),
      )
      expect(next.map(({ allowed, source }) => [allowed, source])).toEqual([
        [true, 'store'],
        [true, 'store'],
      ])
    }
  })

  test('gets no refusal because other callers of a shared rule were refused by their address', async () => {
    const shared = [window('all', [], 50), window('addresses', ['ip'], 5)]
    const nodes = await startNodes(2, shared)
    for (let round = 0; round < 5; round++) {
      const bursts = await Promise.all(
        Array.from({ length: 4 }, (_, n) => burst(nodes, 50, { ip: `192.0.2.${4 * round + n}` })),
      )
      const passed = bursts.map(admitted)
      const stranger = await Promise.all(
        nodes.map((node, n) => node.check({ attributes: { ip: `198.51.100.${2 * round + n}` } })),
      )
      const hasRoom = 22 * (round + 1) <= 50
      expect(passed.every((calls) => calls <= 5)).toBe(true)
      if (hasRoom) expect(passed).toEqual([5, 5, 5, 5])
      if (hasRoom) expect(stranger.map(({ allowed }) => allowed)).toEqual([true, true])
    }
  })

  test('gets no refusal by units that other calls hold of its only rule', async () => {
    const nodes = await startNodes(2, [window('users', ['user'], 20), window('ips', ['ip'], 1)])
    for (let round = 0; round < 10; round++) {
      const user = `u${round}`
      const [both, alone] = await Promise.all([
        burst(nodes, 100, { user, ip: `203.0.113.${round}` }),
        burst(nodes, 19, { user }),
      ])
      expect([admitted(both), admitted(alone)]).toEqual([1, 19])
    }
  })

  test('is not blocked because of units that other calls hold, but is when it goes over', async () => {
    const users = {
      id: 'users',
      by: ['user'],
      limits: [{ algorithm: 'fixed-window', max: 20, window: '366d', block: '1h' }],
    }
    const nodes = await startNodes(2, [users, window('ips', ['ip'], 1)])
    for (let round = 0; round < 10; round++) {
      const user = `u${round}`
      const [both, alone] = await Promise.all([
        burst(nodes, 100, { user, ip: `203.0.113.${round}` }),
        burst(nodes, 18, { user }),
      ])
      expect([admitted(both), admitted(alone)]).toEqual([1, 18])
      const later = [...(await burst(nodes, 1, { user })), ...(await burst(nodes, 1, { user }))]
      expect(later.map(({ allowed }) => allowed)).toEqual([true, false])
      const { explain = [] } = (await nodes[0]?.explain({ attributes: { user } })) ?? {}
      expect(explain[0]?.limits[0]?.block).toMatchObject({ times: 1 })
    }
  })
})

describe('a caller that is really out of budget', () => {
  test('has to wait for the end of the window, and costs one store call a second', async () => {
    const rules = [window('users', ['user'], 5), window('addresses', ['ip'], 100)]
    const [node] = await startNodes(1, rules, 1000)
    const attributes = { user: 'ann', ip: '203.0.113.7' }
    const decisions: (Decision | undefined)[] = []
    for (let n = 0; n < 8; n++) decisions.push(await node?.check({ attributes }))
    const refused = decisions.slice(5)
    expect(refused.map((decision) => [decision?.rule, decision?.source])).toEqual([
      ['users', 'store'],
      ['users', 'deny-cache'],
      ['users', 'deny-cache'],
    ])
    for (const decision of refused) expect(decision?.retryAfterMs).toBeGreaterThan(60_000)
  })
})

describe('a burst that has room', () => {
  const rules = [window('users', ['user'], 30), window('addresses', ['ip'], 30)]

  test.each([60, 200])(
    'of %i calls over two nodes passes up to the limit',
    async (calls) => {
      const nodes = await startNodes(2, rules, 0)
      const rounds: number[] = []
      for (let round = 0; round < ROUNDS; round++) {
        const ip = `10.0.${round >> 8}.${round & 255}`
        rounds.push(admitted(await burst(nodes, calls, { user: `u${round}`, ip })))
      }
      expect(rounds.filter((passed) => passed !== 30)).toEqual([])
    },
    3_600_000,
  )

  test('over three slots and three nodes passes up to the limit', async () => {
    const three = [...rules, window('teams', ['team'], 30)]
    const nodes = await startNodes(3, three, 0)
    for (let round = 0; round < ROUNDS / 4; round++) {
      const attributes = { user: `u${round}`, ip: `10.1.0.${round}`, team: `t${round}` }
      expect(admitted(await burst(nodes, 90, attributes))).toBe(30)
    }
  }, 3_600_000)
})

describe('a call that is refused', () => {
  test('leaves the slot of an idle leaky bucket free', async () => {
    const rules = [
      window('blocklist', ['ip'], 1),
      {
        id: 'slow',
        by: ['user'],
        limits: [{ algorithm: 'leaky-bucket', max: 6, window: '1m', queue: 20, name: 'all' }],
      },
    ]
    const [node] = await startNodes(1, rules, 0)
    const check = async (user: string, ip: string) => node?.check({ attributes: { user, ip } })
    await check('eve', '203.0.113.7')
    const refused = [await check('ann', '203.0.113.7'), await check('ann', '203.0.113.7')]
    const together = Array.from({ length: 10 }, () => check('ann', '203.0.113.7'))
    refused.push(...(await Promise.all(together)))
    expect(refused.map((decision) => decision?.allowed)).not.toContain(true)
    await vi.waitFor(async () => {
      const [policy] = (await node?.limits({ attributes: { user: 'ann' } })) ?? []
      expect([policy?.rule, policy?.remaining, policy?.resetAfterMs]).toEqual(['slow', 20, 0])
    }, SOON)
    const innocent = await check('ann', '198.51.100.1')
    expect([innocent?.allowed, innocent?.delayMs]).toEqual([true, 0])
  })

  test.each([0, 3])(
    'does not charge a shadow limit that charges for refusals, cost %i more',
    async (more) => {
      const charging = {
        id: 'shadow',
        by: ['user'],
        mode: 'shadow',
        limits: [
          { algorithm: 'fixed-window', max: 5, window: '366d', name: 'all', onRefusal: 'charge' },
        ],
      }
      const rules = [window('addresses', ['ip'], 1), window('teams', ['team'], 100), charging]
      const [node] = await startNodes(1, rules, 0)
      const attributes = { user: 'ann', ip: '203.0.113.7', team: 'blue' }
      const decisions = [
        await node?.check({ attributes }),
        await node?.check({ attributes, cost: 1 + more }),
        await node?.check({ attributes, cost: 1 + 2 * more }),
      ]
      expect(decisions.map((decision) => decision?.allowed)).toEqual([true, false, false])
      const left = async () => {
        const explained = await node?.explain({ attributes })
        const rule = explained?.explain?.find(({ rule: id }) => id === 'shadow')
        return rule?.limits[0]?.remaining
      }
      await vi.waitFor(async () => expect(await left()).toBe(4), SOON)
    },
  )
})
