import { describe, expect, test } from 'vitest'
import { type SnapshotExchange, singleNodeExchange } from './snapshot-exchange.js'
import { FleetStats } from './fleet-stats.js'
import { makeFleet, TestTimers } from './fleet-stats.test-helper.js'
import { HASHED } from './name-protection.test-helper.js'
import {
  type NodeSnapshot,
  RULE_BUCKET_MS,
  type CallerSnapshot,
  BUCKET_MS,
} from './node-snapshot.js'
import { decodeSnapshot, encodeSnapshot } from './node-snapshot-codec.js'
import { BEGAN_MS, makeNode, WELL } from './stats.test-helper.js'

describe('the stats of a fleet', () => {
  test('cover all nodes that have published', async () => {
    const { nodes, one, two } = makeFleet({}, {})
    for (const node of nodes) {
      node.pass(20, () => node.call('u1'))
      await node.post()
    }
    two.pass(2)
    const stats = await one.fleet.stats()
    expect(stats).toMatchObject({
      at: new Date(BEGAN_MS + 20_000).toISOString(),
      nodes: 2,
      rulesVersion: 7,
      series: { stepMs: BUCKET_MS, endMs: BEGAN_MS + 20_000 },
      minutes: { stepMs: 60_000, endMs: BEGAN_MS, allowed: [] },
      store: WELL,
    })
    expect(stats.series.refused).toEqual([0, 4, 4, 4, 4, 4, 4, 4, 4, 4])
    const [tight] = stats.rules
    expect(tight).toMatchObject({ rule: 'tight', series: { stepMs: RULE_BUCKET_MS } })
    expect(tight?.series.refused).toEqual([16, 20])
    expect(tight?.refusingSince).toBe(new Date(BEGAN_MS + 3000).toISOString())
    expect(tight?.left).toEqual([36 + 2, 0, 0, 2, 0, 0])
  })

  test('have the calls of each priority on all nodes, in the order of this node', async () => {
    const optionsOf = (...names: readonly string[]) => {
      let calls = 0
      const priorities = () =>
        names.map((name) => [name, { admitted: calls++, shed: 1, shadowShed: 2 }] as const)
      return { deps: { priorities } }
    }
    const { one, two, three } = makeFleet(
      optionsOf('critical', 'reads'),
      optionsOf('reads', 'old'),
      {},
    )
    for (const node of [one, two, three]) node.pass(4)
    await Promise.all([two.post(), three.post()])
    const { priorities, series } = await one.fleet.stats()
    expect(priorities.map(({ priority }) => priority)).toEqual(['critical', 'reads', 'old'])
    expect(priorities.map(({ shed }) => shed)).toEqual([
      [1, 0],
      [2, 0],
      [1, 0],
    ])
    expect(priorities[1]?.shadowShed).toEqual([4, 0])
    expect(series.allowed).toHaveLength(2)
    const { shed } = await one.fleet.top('refusals', { limit: 1 })
    expect(shed).toEqual([
      { priority: 'critical', perSecond: 0.3, share: expect.any(Number) },
      { priority: 'reads', perSecond: 0.6, share: expect.any(Number) },
      { priority: 'old', perSecond: 0.3, share: expect.any(Number) },
    ])
    const tick = await one.fleet.tick()
    expect(tick.priorities[0]).toMatchObject({ priority: 'critical', shed: 0, shadowShed: 0 })
  })

  test('leave out buckets that a node has not published yet', async () => {
    const { one, two } = makeFleet({}, {})
    one.pass(10, () => one.call('u1'))
    two.pass(8, () => two.call('u1'))
    await two.post()
    const { series } = await one.fleet.stats()
    expect(series.endMs).toBe(BEGAN_MS + 8000)
    expect(series.refused).toEqual([0, 4, 4, 4])
  })

  test('do not wait for a node that is far behind, and include what it published', async () => {
    const { one, two } = makeFleet({}, {})
    one.pass(20, () => one.call('u1'))
    two.pass(6, () => two.call('u1'))
    await two.post()
    const { series } = await one.fleet.stats()
    expect(series.endMs).toBe(BEGAN_MS + 20_000)
    expect(series.refused).toEqual([0, 4, 4, 2, 2, 2, 2, 2, 2, 2])
  })

  test('do not wait for the clock of a node that runs ahead', async () => {
    const { one, two } = makeFleet({}, { nowMs: BEGAN_MS + 60_000 })
    one.pass(4)
    two.pass(4)
    await two.post()
    expect((await one.fleet.stats()).series.endMs).toBe(BEGAN_MS + 4000)
  })

  test('of one rule are available even if it is not among the busiest', async () => {
    const { one, two } = makeFleet({}, {})
    for (const node of [one, two]) {
      node.call('u1', 1, { plan: 'trial' })
      node.pass(10)
      await node.post()
    }
    const { rules } = await one.fleet.stats('trial')
    expect(rules.map(({ rule, series }) => [rule, series.allowed])).toEqual([['trial', [2]]])
    expect((await one.fleet.stats('nobody')).rules).toEqual([])
  })

  test('have latencies of all nodes together, in milliseconds', async () => {
    const { one, two } = makeFleet({}, {})
    one.decisionTimes.observe(0.0005, 98)
    two.decisionTimes.observe(0.005, 2)
    for (const node of [one, two]) node.pass(4)
    await two.post()
    const { decisionLatency, storeLatency } = await one.fleet.stats()
    expect(decisionLatency).toEqual({ p50Ms: [0.51, null], p99Ms: [5.5, null] })
    expect(storeLatency).toEqual({ p50Ms: [null, null], p99Ms: [null, null] })
  })

  test('say that the store is well only if it is for all nodes', async () => {
    const { one, two } = makeFleet({}, { storeHealth: () => ({ ...WELL, isWell: false }) })
    expect((await one.fleet.stats()).store.isWell).toBe(true)
    await two.post()
    one.pass(1)
    const { store } = await one.fleet.stats()
    expect(store).toEqual({ ...WELL, isWell: false })
  })

  test('count each node once, and leave out unreadable snapshots', async () => {
    const { board, one, two } = makeFleet({}, {})
    for (const node of [one, two]) {
      node.call('u1')
      node.pass(4)
      await node.post()
    }
    board.texts.set('again', await encodeSnapshot({ ...two.snapshot(), atMs: BEGAN_MS }))
    board.texts.set('damaged', 'what is this')
    const { nodes, series } = await one.fleet.stats()
    expect([nodes, series.allowed]).toEqual([2, [2, 0]])
  })
})

describe('a read of the exchange', () => {
  test('serves all requests within a second', async () => {
    const { board, one } = makeFleet({})
    await Promise.all([one.fleet.stats(), one.fleet.tick(), one.fleet.nodes()])
    await one.fleet.stats('tight')
    expect(board.reads).toBe(1)
    one.pass(1)
    await one.fleet.stats()
    expect(board.reads).toBe(2)
  })

  test('is shared by all requests that arrive while it lasts', async () => {
    const { one } = makeFleet({})
    let answer: (texts: readonly string[]) => void = () => {}
    let reads = 0
    const board: SnapshotExchange = {
      post: async () => {},
      read: () => {
        reads++
        return new Promise((resolve) => (answer = resolve))
      },
    }
    const fleet = new FleetStats({
      own: one.stats,
      exchange: board,
      names: HASHED,
      clock: { now: () => one.nowMs },
    })
    const first = fleet.stats()
    one.pass(5)
    const second = fleet.stats()
    answer([])
    expect(await second).toBe(await first)
    expect(reads).toBe(1)
  })

  test('leaves a node with its own snapshot if it fails', async () => {
    const { board, one, two } = makeFleet({}, {})
    one.call('u1')
    for (const node of [one, two]) {
      node.pass(2)
      await node.post()
    }
    board.isGone = true
    const { nodes, series } = await one.fleet.stats()
    expect([nodes, series.allowed]).toEqual([1, [1]])
  })

  test('marks the statistics as incomplete if it fails', async () => {
    const { board, one } = makeFleet({}, {})
    const coverage = async () => [
      (await one.fleet.stats()).isWhole,
      (await one.fleet.stats('a')).isWhole,
      (await one.fleet.tick()).isWhole,
      (await one.fleet.top('use', { limit: 1 })).isWhole,
    ]
    expect(await coverage()).toEqual([true, true, true, true])
    board.isGone = true
    one.pass(2)
    expect(await coverage()).toEqual([false, false, false, false])
    board.isGone = false
    one.pass(2)
    expect(await coverage()).toEqual([true, true, true, true])
  })

  test('is skipped for a single node', async () => {
    const node = makeNode()
    const timers = new TestTimers()
    const clock = { now: () => node.nowMs }
    const fleet = new FleetStats({
      own: node.stats,
      exchange: singleNodeExchange(),
      names: HASHED,
      clock,
      timers,
    })
    fleet.start()
    expect(timers.waiting.size).toBe(0)
    expect(await fleet.stats()).toMatchObject({ nodes: 1, isWhole: true })
    await fleet.close()
  })
})

describe('a node', () => {
  const until = async (isTrue: () => boolean) => {
    while (!isTrue()) await new Promise(setImmediate)
  }

  test('posts its snapshot periodically, one post at a time, until it is closed', async () => {
    const { board, one } = makeFleet({})
    one.fleet.start()
    expect(board.posts).toBe(0)
    for (let i = 1; i <= 3; i++) {
      one.call('u1')
      one.pass(2)
      one.timers.run()
      expect(one.timers.waiting.size).toBe(0)
      await until(() => one.timers.waiting.size === 1)
      expect(board.posts).toBe(i)
    }
    const snapshot = await decodeSnapshot(board.texts.get('n1') ?? '')
    expect(snapshot).toEqual(one.snapshot())
    await one.fleet.close()
    expect(one.timers.waiting.size).toBe(0)
    one.fleet.start()
    expect(one.timers.waiting.size).toBe(0)
  })

  test('waits for a post in progress when it is closed, and posts no more', async () => {
    const { board, one } = makeFleet({})
    one.fleet.start()
    one.timers.run()
    await one.fleet.close()
    expect([board.posts, one.timers.waiting.size]).toEqual([0, 0])
  })

  test('keeps posting if the exchange fails, and reports that once', async () => {
    const { board, one } = makeFleet({})
    one.fleet.start()
    const turn = async (isGone: boolean) => {
      board.isGone = isGone
      one.timers.run()
      await until(() => one.timers.waiting.size === 1)
      return one.problems.length
    }
    expect([await turn(true), await turn(true), await turn(false), await turn(true)]).toEqual([
      1, 1, 1, 2,
    ])
    await one.fleet.close()
  })

  test('publishes what keeps it from the newest rules, and when that has ended', async () => {
    let problem: string | undefined = 'Postgres is gone'
    const { one, two } = makeFleet({}, { deps: { problem: () => problem } })
    const problems = async () => {
      for (const node of [one, two]) node.pass(2)
      await two.post()
      return (await one.fleet.nodes()).map((node) => node.problem)
    }
    expect(await problems()).toEqual([undefined, 'Postgres is gone'])
    problem = undefined
    expect(await problems()).toEqual([undefined, undefined])
    problem = 'x'.repeat(5000)
    expect((await problems())[1]).toHaveLength(500)
  })

  test('is listed with its rates of the last ten seconds and the clock furthest off', async () => {
    const storeNode = { address: 'a', isAnswering: true, isBreakerOpen: false }
    const storeHealth = () => ({
      ...WELL,
      state: 'redis: answering',
      nodes: [3, -30, null].map((clockOffsetMs) => ({ ...storeNode, clockOffsetMs })),
    })
    const { one, two } = makeFleet({}, { storeHealth })
    one.pass(30, () => one.call('u1', 3))
    two.pass(29)
    await two.post()
    const [own, other] = await one.fleet.nodes()
    expect(own).toEqual({
      id: 'n1',
      host: 'host',
      pid: 1,
      release: '1.0.0',
      rulesVersion: 7,
      startedAt: '2027-01-15T08:00:00.000Z',
      seenMsAgo: 0,
      decisionsPerSecond: 3,
      refusalsPerSecond: 3,
      clockOffsetMs: null,
      store: 'memory',
    })
    expect(other).toMatchObject({
      id: 'n2',
      seenMsAgo: 1000,
      decisionsPerSecond: 0,
      clockOffsetMs: -30,
      store: 'redis: answering',
    })
  })
})

describe('a tick', () => {
  test('is the last bucket of the totals and of the busiest rules', async () => {
    const { one } = makeFleet({})
    expect(await one.fleet.tick()).toMatchObject({ allowed: 0, decisionP50Ms: null, rules: [] })
    one.pass(8)
    one.call('u1', 3, { plan: 'trial' })
    one.decisionTimes.observe(0.0005)
    one.pass(2)
    const tick = await one.fleet.tick()
    expect(tick).toMatchObject({
      nodes: 1,
      rulesVersion: 7,
      endMs: BEGAN_MS + 10_000,
      allowed: 1,
      refused: 1,
      shadowRefused: 1,
      degraded: 0,
      decisionP50Ms: 0.5,
      storeP99Ms: null,
      store: WELL,
    })
    const rule = { endMs: BEGAN_MS + 10_000, candidateAllowed: 0, candidateRefused: 0 }
    expect(tick.rules).toEqual([
      {
        ...rule,
        rule: 'tight',
        allowed: 2,
        refused: 1,
        shadowRefused: 0,
        refusingSince: new Date(BEGAN_MS + 9000).toISOString(),
      },
      {
        ...rule,
        rule: 'trial',
        allowed: 3,
        refused: 0,
        shadowRefused: 0,
        refusingSince: null,
        // Neither it nor `tried` decided the call that `tight` refused.
        candidateAllowed: 1,
        candidateRefused: 1,
      },
      { ...rule, rule: 'tried', allowed: 1, refused: 0, shadowRefused: 1, refusingSince: null },
    ])
  })
})

describe('top callers', () => {
  const caller = (hash: string, refusals: number): CallerSnapshot => ({
    rule: 'tight',
    hash,
    caller: { user: hash },
    plan: null,
    refusals,
    refusalsError: 0,
    use: 1,
    useError: 0,
    zeroSinceMs: null,
    lastSeenMs: BEGAN_MS,
    hours: 0,
  })

  test('are those of all nodes together', async () => {
    const { board, one, two } = makeFleet({}, {})
    const other: NodeSnapshot = {
      ...two.snapshot(),
      callersSinceMs: BEGAN_MS - 60_000,
      callers: [caller('aa', 5), caller('bb', 7)],
    }
    board.texts.set('n2', await encodeSnapshot(other))
    board.texts.set('n3', await encodeSnapshot({ ...other, node: { ...other.node, id: 'n3' } }))
    const top = await one.fleet.top('refusals', { rule: 'tight', limit: 1 })
    expect(top).toMatchObject({
      at: new Date(BEGAN_MS).toISOString(),
      since: new Date(BEGAN_MS - 60_000).toISOString(),
      by: 'refusals',
      nodes: 3,
      callers: [{ hash: 'bb', refusals: 14, caller: { user: 'bb' } }],
    })
    expect(top.callers).toHaveLength(1)
  })
})
