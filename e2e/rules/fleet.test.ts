/** What nodes report about each other, and nodes behind a connection pooler. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { startPgBouncer } from '../../tools/postgres/pgbouncer.js'
import { type PostgresServer, startPostgres } from '../../tools/postgres/server.js'
import { startFaultProxy } from '../../tools/redis/fault-proxy.js'
import { stopAll } from '../process.test-helper.js'
import {
  limitOf,
  liveOnAll,
  liveRule,
  waitForNews,
  type Node,
  quantile,
  seconds,
  startNodes,
  throughPort,
} from './rule-nodes.test-helper.js'

const POLL = { timeout: 30_000, interval: 100 }
const POLLED_MS_MAX = 5000
const POLLED_CHANGES = 10

let postgres: PostgresServer

beforeAll(async () => {
  postgres = await startPostgres()
})
afterAll(() => postgres.stop())
afterEach(() => stopAll())

/** How many nodes run which version, as reported by one of them. */
async function runBy({ client }: Node): Promise<Readonly<Record<number, number>>> {
  const counts: Record<number, number> = {}
  for (const { rulesVersion } of (await client.listNodes()).nodes) {
    counts[rulesVersion] = (counts[rulesVersion] ?? 0) + 1
  }
  return counts
}

describe('half of the nodes on an old version', () => {
  test('are reported as such until the network is back', async () => {
    const url = await postgres.createDatabase()
    const proxy = await startFaultProxy(postgres.port)
    try {
      const [near, far] = await Promise.all([
        startNodes(2, { SLUICE_DATABASE_URL: url }),
        startNodes(2, { SLUICE_DATABASE_URL: throughPort(url, proxy.port) }),
      ])
      const nodes = [...near, ...far]
      const first = nodes[0] as Node
      const { version } = await first.client.createRule(liveRule(1))
      await liveOnAll(nodes, 1, 10_000)
      await expect.poll(() => runBy(first), POLL).toEqual({ [version]: 4 })

      proxy.blackhole()
      await first.client.patchRule('live', { limits: limitOf(2) })
      await expect.poll(() => runBy(first), POLL).toEqual({ [version]: 2, [version + 1]: 2 })
      expect(await Promise.all(far.map((node) => node.peekLimit()))).toEqual([1, 1])
      const seen = async () => {
        const listed = (await first.client.listNodes()).nodes
        return listed.filter(({ rulesVersion }) => rulesVersion === version)
      }
      // Also that they are silent, so that an operator can tell a slow node from one that is cut
      // off.
      await expect
        .poll(async () => Math.min(...(await seen()).map(({ seenMsAgo }) => seenMsAgo)), POLL)
        .toBeGreaterThan(6000)

      await proxy.heal()
      const healedAt = performance.now()
      await expect
        .poll(() => runBy(first), { ...POLL, timeout: 60_000 })
        .toEqual({ [version + 1]: 4 })
      console.log(`equal ${seconds(performance.now() - healedAt)} after the network is back`)
      expect(await Promise.all(far.map((node) => node.peekLimit()))).toEqual([2, 2])
    } finally {
      await stopAll()
      await proxy.stop()
    }
  }, 180_000)
})

describe('behind a pooler in transaction mode', () => {
  test('nodes poll for changes, log that, and activate them within a few seconds', async () => {
    const bouncer = await startPgBouncer(postgres)
    try {
      const url = bouncer.urlOf(await postgres.createDatabase())
      const nodes = await startNodes(2, { SLUICE_DATABASE_URL: url })
      const first = nodes[0] as Node
      await first.client.createRule(liveRule(1))
      await waitForNews(nodes, 'poll')
      await expect
        .poll(() => nodes.map((node) => node.logged(SWALLOWED).length), POLL)
        .toEqual([1, 1])
      const waits: number[] = []
      for (let change = 2; change <= POLLED_CHANGES + 1; change++) {
        await first.client.patchRule('live', { limits: limitOf(change) })
        waits.push(...(await liveOnAll(nodes.slice(1), change, POLLED_MS_MAX)))
      }
      const figures = [0.5, 1].map((share) => seconds(quantile(waits, share)))
      console.log(`behind a pooler: live after ${figures.join(' and ')} (p50, max)`)
      expect((await first.client.listNodes()).problem).toBeNull()
      expect((await first.client.listNodes()).news).toBe('poll')
    } finally {
      await stopAll()
      await bouncer.stop()
    }
  })
})

const SWALLOWED =
  'rule store: LISTEN does not work through this pooler; polling every 1000 ms instead. Use the URL of Postgres itself, or of a pooler in session mode'
