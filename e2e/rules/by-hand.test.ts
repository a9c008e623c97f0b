/** An operator changes the rules in Postgres with SQL, correctly or not. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type PostgresServer, startPostgres } from '../../tools/postgres/server.js'
import { stopAll } from '../process.test-helper.js'
import {
  changeByHand,
  isStored,
  limitOf,
  liveOnAll,
  type Node,
  peekLimit,
  startNode,
  startNodes,
} from './rule-nodes.test-helper.js'

const POLL = { timeout: 20_000, interval: 50 }
const LIVE_MS_MAX = 5000

let postgres: PostgresServer
let url: string
let nodes: readonly Node[]
let first: Node

beforeAll(async () => {
  postgres = await startPostgres()
})
afterAll(() => postgres.stop())

/** Two rules, each for its own users. */
const ruleOf = (id: string, user: string, max: number) => ({
  id,
  match: { where: { user: [user] } },
  by: ['user'],
  limits: limitOf(max),
})

beforeEach(async () => {
  url = await postgres.createDatabase()
  nodes = await startNodes(2, { SLUICE_DATABASE_URL: url })
  first = nodes[0] as Node
  await first.client.createRule(ruleOf('live', 'u1', 1))
  await first.client.createRule(ruleOf('bad', 'u2', 2))
  await expect.poll(() => badLimits(), POLL).toEqual([2, 2])
})
afterEach(() => stopAll())

const badLimits = (of = nodes) => Promise.all(of.map(({ api }) => peekLimit(api, 'u2')))

const problemsOf = async ({ client }: Node) =>
  (await client.listNodes()).nodes.map(({ problem }) => problem)

describe('a valid rule written with SQL', () => {
  test('is a version like any other, by the database user', async () => {
    await postgres.psql(changeByHand(7), url)
    await liveOnAll(nodes, 7, LIVE_MS_MAX)
    const author = `select set_config('sluice.by', 'ann', true), set_config('sluice.why', 'incident 12', true)`
    await postgres.psql(`begin; ${author}; ${changeByHand(8)}; commit`, url)
    await liveOnAll(nodes, 8, LIVE_MS_MAX)
    const { versions } = await first.client.listVersions({ limit: 2 })
    expect(versions.map(({ by, why }) => [by, why])).toEqual([
      ['ann', 'incident 12'],
      ['postgres', null],
    ])
    expect(versions[1]?.changes).toMatchObject([
      { kind: 'rule', id: 'live', before: { limits: limitOf(1) }, after: { limits: limitOf(7) } },
    ])
    expect(versions[1]?.version).toBe((versions[0]?.version ?? 0) - 1)
    expect((await first.client.getRule('live')).version).toBe(versions[0]?.version)
  })
})

describe('an invalid rule written with SQL', () => {
  beforeEach(async () => {
    await postgres.psql(`begin; ${changeByHand(-5, 'bad')}; ${changeByHand(9)}; commit`, url)
  })

  test('leaves its last good form active, does not affect other rules, and is reported', async () => {
    await liveOnAll(nodes, 9, LIVE_MS_MAX)
    expect(await badLimits()).toEqual([2, 2])
    const problem = expect.stringMatching(/bad.*limits\[0\]\.max.*-5/s)
    for (const node of nodes) {
      // The log and the answers are written independently, so the log may be later.
      await expect
        .poll(() => node.logged('rule invalid: previous version stays active')[0], POLL)
        .toMatchObject({ level: 'error', id: 'bad', problem })
      expect(await node.metric('sluice_rules_failures_total')).toBe(1)
    }
    expect((await first.client.listNodes()).problem).toEqual(problem)
    await expect.poll(() => problemsOf(first), POLL).toEqual([problem, problem])
    console.log((await first.client.listNodes()).problem)
  })

  test('does not block changes to other rules, and the problem is gone once it is fixed', async () => {
    await liveOnAll(nodes, 9, LIVE_MS_MAX)
    await first.client.patchRule('live', { limits: limitOf(10) })
    await liveOnAll(nodes, 10, LIVE_MS_MAX)
    expect(await badLimits()).toEqual([2, 2])
    await first.client.patchRule('bad', { limits: limitOf(3) })
    await expect.poll(() => badLimits(), POLL).toEqual([3, 3])
    await expect.poll(() => problemsOf(first), POLL).toEqual([undefined, undefined])
  })

  test('leaves its last good form active after a restart, and a node that never had one has no such rule', async () => {
    await liveOnAll(nodes, 9, LIVE_MS_MAX)
    await isStored(first, '"max":-5')
    await first.program.stop()
    const env = { SLUICE_DATABASE_URL: url }
    const both = [await startNode(env, first.folder), await startNode(env)]
    await liveOnAll(both, 9, LIVE_MS_MAX)
    expect(await badLimits(both)).toEqual([2, null])
    for (const { client } of both) expect((await client.listNodes()).problem).toMatch(/bad.*-5/s)
  })
})
