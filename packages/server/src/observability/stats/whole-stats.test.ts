import { expect, test } from 'vitest'
import { createRemainingMetrics } from '../metrics/remaining-metrics.js'
import { createRegistry } from '../metrics/registry.js'
import { CallerTracker } from './callers/caller-tracker.js'
import { DistinctCallers } from './distinct-callers.js'
import { FleetStats } from './fleet-stats.js'
import { mergeCallers } from './callers/merge-callers.js'
import { mergeStats } from './merge-snapshots.js'
import { HASHED } from './name-protection.test-helper.js'
import { encodeSnapshot } from './node-snapshot-codec.js'
import { BEGAN_MS, makeNode } from './stats.test-helper.js'

/** With the caller tracker and remaining shares of a server. */
function makeWhole(id: string, rules?: string) {
  return makeNode({
    id,
    ...(rules !== undefined && { rules }),
    deps: {
      callers: new CallerTracker(BEGAN_MS),
      distinct: new DistinctCallers(),
      remaining: createRemainingMetrics(createRegistry()),
    },
  })
}

test('two nodes together list who is limited, by which rule, since when', async () => {
  const [one, two] = [makeWhole('n1'), makeWhole('n2')]
  for (const node of [one, two]) {
    for (let i = 0; i < 50; i++) node.call(`u${node === one ? i : i + 25}`)
    node.pass(20, () => node.call('scraper', 5, { plan: 'free' }))
  }
  const fleet = new FleetStats({
    own: one.stats,
    exchange: { post: async () => {}, read: async () => [await encodeSnapshot(two.snapshot())] },
    names: HASHED,
    clock: { now: () => one.nowMs },
  })
  const stats = await fleet.stats()
  const tight = stats.rules.find(({ rule }) => rule === 'tight')
  expect(tight?.callers).toBe(76)
  expect(tight?.left.reduce((sum, count) => sum + count, 0)).toBe(300)
  expect(tight?.refusingSince).toBe(new Date(BEGAN_MS + 1000).toISOString())
  const { callers } = await fleet.top('refusals', { rule: undefined, limit: 5 })
  expect(callers[0]).toMatchObject({
    rule: 'tight',
    caller: { user: 'scraper' },
    plan: 'free',
    refusals: 196,
    hoursAtLimit: 1,
  })
  const { callers: atZero } = await fleet.top('zero', { rule: 'tight', limit: 5 })
  expect(atZero.map(({ caller, zeroSince }) => [caller.user, zeroSince])).toEqual([
    ['scraper', new Date(BEGAN_MS).toISOString()],
  ])
})

test('callers of a rule by route are listed by route, with the refused call', async () => {
  const node = makeWhole(
    'n1',
    `
    routes: ['GET /v1/orders/:id', 'POST /v1/login']
    rules: [{ id: per-route, by: [route], limits: [1/hour] }]
  `,
  )
  const calls = [
    { method: 'get', path: '/v1/orders/7?secret=1' },
    { method: 'HEAD', path: '/v1/orders/8' },
    { method: 'POST', path: '/v1/login' },
  ]
  node.pass(3, () => {
    for (const attributes of calls) node.decide({ attributes })
  })
  const fleet = new FleetStats({
    own: node.stats,
    exchange: { post: async () => {}, read: async () => [] },
    names: HASHED,
    clock: { now: () => node.nowMs },
  })
  const { callers } = await fleet.top('refusals', { limit: 5 })
  expect(callers.map(({ caller, lastRefusedCall }) => [caller, lastRefusedCall])).toEqual([
    [{ route: 'GET /v1/orders/:id' }, 'GET /v1/orders/:id'],
    [{ route: 'POST /v1/login' }, 'POST /v1/login'],
  ])
})

test('a caller whose limits have refilled is no longer listed as exhausted', async () => {
  const node = makeWhole('n1', 'rules: [{ id: quick, by: [user], limits: [2/second] }]')
  const fleet = new FleetStats({
    own: node.stats,
    exchange: { post: async () => {}, read: async () => [] },
    names: HASHED,
    clock: { now: () => node.nowMs },
  })
  const atZero = async () => (await fleet.top('zero', { limit: 5 })).callers.length
  node.call('u1', 5)
  node.pass(1)
  expect(await atZero()).toBe(1)
  node.pass(2)
  expect(await atZero()).toBe(0)
})

test('merging many nodes yields to decisions', async () => {
  const rules = Array.from(
    { length: 200 },
    (_, i) => `{ id: r${i}, match: { where: { plan: p${i} } }, by: [user], limits: [2/hour] }`,
  )
  const node = makeWhole('n1', `rules: [${rules.join(', ')}]`)
  node.pass(60, () => {
    for (let i = 0; i < 400; i++) node.call(`u${node.nowMs + i}`, 3, { plan: `p${i % 200}` })
  })
  const own = node.snapshot()
  const others = Array.from({ length: 60 }, (_, i) => ({
    ...own,
    node: { ...own.node, id: `o${i}` },
  }))
  const turnsOf = async (work: Promise<unknown>) => {
    let turns = 0
    const next = () => {
      turns++
      turn = setImmediate(next)
    }
    let turn = setImmediate(next)
    await work
    clearImmediate(turn)
    return turns
  }
  const atMs = node.nowMs
  expect(await turnsOf(mergeStats({ own, others, isWhole: true, atMs }))).toBeGreaterThan(1)
  const order = 'refusals'
  const callers = mergeCallers([own, ...others], order, { limit: 100 }, atMs)
  expect(await turnsOf(callers)).toBeGreaterThan(1)
})
