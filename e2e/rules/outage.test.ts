/** Postgres is down for a minute: the active rules stay, and the outage is reported. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type PostgresServer, startPostgres } from '../../tools/postgres/server.js'
import { stopAll } from '../process.test-helper.js'
import {
  limitOf,
  liveOnAll,
  liveRule,
  waitForNews,
  type Node,
  seconds,
  startNodes,
} from './rule-nodes.test-helper.js'

const NODES = 2
const OUTAGE_MS = 60_000
const AGE_SECONDS_LEAST = 55
const MAX = 3
const ROUND_EVERY_MS = 40

let postgres: PostgresServer
let nodes: readonly Node[]

beforeAll(async () => {
  postgres = await startPostgres()
  nodes = await startNodes(NODES, { SLUICE_DATABASE_URL: await postgres.createDatabase() })
  await nodes[0]?.client.createRule(liveRule(MAX))
  await liveOnAll(nodes, MAX, 10_000)
  await waitForNews(nodes, 'push')
})

afterAll(async () => {
  await stopAll()
  await postgres.stop()
})

interface Flow {
  /** The statuses that new callers got, and how often each. */
  readonly answers: Map<string, number>
  isOver: boolean
}

async function check(node: Node, user: string): Promise<string> {
  try {
    const body = JSON.stringify({ attributes: { user } })
    const response = await fetch(`${node.api}/v1/check`, { method: 'POST', body })
    const { allowed, limit } = (await response.json()) as { allowed: boolean; limit: number }
    return response.status === 200 ? `${allowed ? 'yes' : 'no'} of ${limit}` : `${response.status}`
  } catch (error) {
    return String(error)
  }
}

/** New callers, each with two calls more than its limit. */
async function flow(node: Node, into: Flow): Promise<void> {
  for (let caller = 0; !into.isOver; caller++) {
    const said: string[] = []
    for (let call = 0; call < MAX + 2; call++) said.push(await check(node, `caller-${caller}`))
    const all = said.join(', ')
    into.answers.set(all, (into.answers.get(all) ?? 0) + 1)
    await sleep(ROUND_EVERY_MS)
  }
}

interface ReadinessTrace {
  readonly codes: Set<number>
  age: number
}

async function watch(node: Node, flowing: Flow, traces: ReadinessTrace): Promise<void> {
  while (!flowing.isOver) {
    traces.codes.add((await node.ready()).code)
    traces.age = Math.max(traces.age, await node.metric('sluice_rules_age_seconds'))
    await sleep(500)
  }
}

/** Runs while calls are made to all nodes. */
async function during(work: () => Promise<void>) {
  const flowing: Flow = { answers: new Map(), isOver: false }
  const traces = nodes.map((): ReadinessTrace => ({ codes: new Set(), age: 0 }))
  const all = nodes.flatMap((node, index) => [
    flow(node, flowing),
    watch(node, flowing, traces[index] as ReadinessTrace),
  ])
  const over = Promise.all(all)
  try {
    await Promise.race([over, work()])
  } finally {
    flowing.isOver = true
    await over
  }
  return { answers: flowing.answers, watched: traces }
}

/** What the admin API of a node answers without its rule store. */
async function administer({ client }: Node): Promise<void> {
  const gone = { status: 503, code: 'rules_unavailable' }
  await expect(client.patchRule('live', { limits: limitOf(9) })).rejects.toMatchObject(gone)
  await expect(client.addKey({ user: 'u1' })).rejects.toMatchObject(gone)
  await expect(client.listVersions()).rejects.toMatchObject(gone)
  expect(await client.getRule('live')).toMatchObject({ id: 'live', limits: limitOf(MAX) })
  expect((await client.listRules()).rules).toHaveLength(1)
  const listed = await client.listNodes()
  expect(listed).toMatchObject({ problem: expect.stringContaining('postgres'), news: 'none' })
  expect(listed.nodes).toHaveLength(1)
}

const ages = () => Promise.all(nodes.map((node) => node.metric('sluice_rules_age_seconds')))

describe('a minute without Postgres', () => {
  test('changes no decision, is reported as the age of the rules, and ends when Postgres is back', async () => {
    let recoveredMs = Infinity
    const { answers, watched: traces } = await during(async () => {
      await sleep(1000)
      await expect.poll(ages, POLL).toEqual(nodes.map(() => 0))
      await postgres.kill()
      const goneAt = performance.now()
      await sleep(10_000)
      await Promise.all(nodes.map(administer))
      await sleep(OUTAGE_MS - (performance.now() - goneAt))
      await postgres.start()
      const backAt = performance.now()
      await expect.poll(ages, POLL).toEqual(nodes.map(() => 0))
      recoveredMs = performance.now() - backAt
    })
    const callers = [...answers.values()].reduce((sum, count) => sum + count, 0)
    const oldest = traces.map(({ age }) => Math.round(age))
    console.log(
      `${callers} callers; ages up to ${oldest.join(' and ')} s; back after ${seconds(recoveredMs)}`,
    )
    const right = [...Array(MAX).fill(`yes of ${MAX}`), `no of ${MAX}`, `no of ${MAX}`].join(', ')
    expect([...answers.keys()]).toEqual([right])
    expect(traces.map(({ codes }) => [...codes])).toEqual(nodes.map(() => [200]))
    for (const each of oldest) expect(each).toBeGreaterThan(AGE_SECONDS_LEAST)
    await nodes[1]?.client.patchRule('live', { limits: limitOf(MAX + 1) })
    await liveOnAll(nodes, MAX + 1, 10_000)
    await waitForNews(nodes, 'push')
  }, 180_000)
})

const POLL = { timeout: 30_000, interval: 100 }
