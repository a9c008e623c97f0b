/** The connection that receives notifications is killed or stops receiving: no change is missed. */
import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type PostgresServer, startPostgres } from '../../tools/postgres/server.js'
import { type FaultProxy, startFaultProxy } from '../../tools/redis/fault-proxy.js'
import { stopAll } from '../process.test-helper.js'
import {
  limitOf,
  liveOnAll,
  liveRule,
  waitForNews,
  type Node,
  seconds,
  startNode,
  startNodes,
  throughPort,
} from './rule-nodes.test-helper.js'

const NODES = 3
const TRIALS = 10
const KILLED_MS_MAX = 5000
const DEAF_MS_MAX = 30_000
/** All connections of a node to Postgres, except the one that listens. */
const POOLED = 4
const POLL = { timeout: 20_000, interval: 50 }

let postgres: PostgresServer
let url: string

beforeAll(async () => {
  postgres = await startPostgres()
})
afterAll(() => postgres.stop())
beforeEach(async () => {
  url = await postgres.createDatabase()
})
afterEach(() => stopAll())

/** Those that listen: their last query is a heartbeat, or one before the first heartbeat. */
const LISTENING = `from pg_stat_activity where datname = current_database()
  and application_name = 'sluice' and (query = 'select 1' or query like '%listen sluice%')`

describe('when the listeners of all nodes are killed', () => {
  test(`in the same second as a change, it is active on all within 5 s, ${TRIALS} of ${TRIALS} times`, async () => {
    const nodes = await startNodes(NODES, { SLUICE_DATABASE_URL: url })
    const [first] = nodes
    await first?.client.createRule(liveRule(1))
    const waits: number[] = []
    for (let change = 2; change <= TRIALS + 1; change++) {
      await waitForNews(nodes, 'push')
      const [killed, live] = await Promise.all([
        sleep(randomInt(500)).then(() =>
          postgres.psql(`select count(pg_terminate_backend(pid)) ${LISTENING}`, url),
        ),
        sleep(randomInt(500)).then(async () => {
          const began = performance.now()
          await first?.client.patchRule('live', { limits: limitOf(change) })
          const tookMs = performance.now() - began
          const after = await liveOnAll(nodes, change, KILLED_MS_MAX)
          return after.map((ms) => ms + tookMs)
        }),
      ])
      expect(Number(killed)).toBe(NODES)
      waits.push(Math.max(...live))
    }
    console.log(`listeners killed: live on all after ${waits.map(seconds).join(', ')}`)
    expect(waits).toHaveLength(TRIALS)
    expect(Math.max(...waits)).toBeLessThanOrEqual(KILLED_MS_MAX)
  })
})

describe('a node whose connections to Postgres receive nothing', () => {
  let proxy: FaultProxy
  let writer: Node
  let node: Node

  beforeEach(async () => {
    proxy = await startFaultProxy(postgres.port)
    ;[writer, node] = await Promise.all([
      startNode({ SLUICE_DATABASE_URL: url }),
      startNode({ SLUICE_DATABASE_URL: throughPort(url, proxy.port) }),
    ])
    await writer.client.createRule(liveRule(1))
    await waitForNews([writer, node], 'push')
    await liveOnAll([writer, node], 1, KILLED_MS_MAX)
    // As many as the pool may have, so that none of them receives anything.
    const use = () =>
      Promise.all(Array.from({ length: 5 * POOLED }, () => node.client.listVersions()))
    await expect.poll(() => use().then(() => proxy.connections()), POLL).toBe(POOLED + 1)
  })
  afterEach(() => proxy.stop())

  test('activates a change within 30 s if new connections work', async () => {
    const open = proxy.connections()
    proxy.forget()
    const began = performance.now()
    await writer.client.patchRule('live', { limits: limitOf(2) })
    await liveOnAll([node], 2, DEAF_MS_MAX)
    const tookMs = performance.now() - began
    console.log(`${open} deaf connections: live after ${seconds(tookMs)}`)
    expect(tookMs).toBeLessThanOrEqual(DEAF_MS_MAX)
    await waitForNews([node], 'push')
    await writer.client.patchRule('live', { limits: limitOf(3) })
    await liveOnAll([node], 3, DEAF_MS_MAX)
  })

  test('activates a change within 30 s if new connections receive nothing for five seconds either', async () => {
    proxy.blackhole()
    const began = performance.now()
    await writer.client.patchRule('live', { limits: limitOf(2) })
    await sleep(5000)
    expect(await node.peekLimit()).toBe(1)
    await proxy.heal()
    await liveOnAll([node], 2, DEAF_MS_MAX)
    const tookMs = performance.now() - began
    console.log(`a network deaf for 5 s: live after ${seconds(tookMs)}`)
    expect(tookMs).toBeLessThanOrEqual(DEAF_MS_MAX)
    await waitForNews([node], 'push')
  })
})
