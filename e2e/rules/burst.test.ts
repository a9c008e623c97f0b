/** Ten thousand changes in ten seconds: nodes read at intervals, and all reach the last version. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type PostgresServer, startPostgres } from '../../tools/postgres/server.js'
import { stopAll } from '../process.test-helper.js'
import {
  liveOnAll,
  liveRule,
  waitForNews,
  type Node,
  seconds,
  startNodes,
} from './rule-nodes.test-helper.js'

const NODES = 5
const WRITERS = 4
const CHANGES = 10_000
const WITHIN_S = 10
const EQUAL_MS_MAX = 5000
/** The shortest time between two reads of a node. */
const READ_EVERY_MS = 250
/** The first read, the last read, and one for a clock that is read twice. */
const READS_MORE = 3

let postgres: PostgresServer
let url: string
let nodes: readonly Node[]

beforeAll(async () => {
  postgres = await startPostgres()
  url = await postgres.createDatabase()
  nodes = await startNodes(NODES, { SLUICE_DATABASE_URL: url })
  await nodes[0]?.client.createRule(liveRule(1))
  await liveOnAll(nodes, 1, 10_000)
  await waitForNews(nodes, 'push')
})

afterAll(async () => {
  await stopAll()
  await postgres.stop()
})

/** Each change is a transaction and so a version, spread evenly over the seconds if possible. */
function changesOf(writer: number): string {
  const count = CHANGES / WRITERS
  return `do $$
    declare
      began timestamptz := clock_timestamp();
    begin
      for n in 1 .. ${count} loop
        update sluice.rules
          set body = jsonb_set(body::jsonb, '{limits,0,max}', to_jsonb(n * ${WRITERS} + ${writer}))
          where id = 'live';
        commit;
        perform pg_sleep(n * ${WITHIN_S / count}
          - extract(epoch from clock_timestamp() - began)::float8);
      end loop;
    end
  $$`
}

const versionsOf = () => Promise.all(nodes.map((node) => node.metric('sluice_rules_version')))

describe('10,000 changes in ten seconds', () => {
  test('are read at most every 250 ms, and all nodes reach the last version within 5 s', async () => {
    const readBefore = nodes.map((node) => node.logged('rules activated').length)
    const before = Number(await postgres.psql('select version from sluice.state', url))
    const began = performance.now()
    await Promise.all(
      Array.from({ length: WRITERS }, (_, writer) => postgres.psql(changesOf(writer), url)),
    )
    const tookMs = performance.now() - began
    const [max, version] = (
      await postgres.psql(
        "select body->'limits'->0->>'max', state.version from sluice.rules, sluice.state",
        url,
      )
    )
      .split('|')
      .map(Number)
    const waits = await liveOnAll(nodes, max ?? 0, EQUAL_MS_MAX)
    const allMs = performance.now() - began
    // A read that would be one too many would have happened by now.
    await sleep(2 * READ_EVERY_MS)
    expect(await versionsOf()).toEqual(nodes.map(() => version))
    expect(version).toBe(before + CHANGES)

    const reads = nodes.map(
      (node, index) => node.logged('rules activated').length - (readBefore[index] ?? 0),
    )
    const rate = Math.round((CHANGES * 1000) / tookMs)
    console.log(
      `${rate} changes a second for ${seconds(tookMs)}; read ${reads.join(', ')} times; equal after ${seconds(Math.max(...waits))}`,
    )
    for (const count of reads) {
      expect(count).toBeGreaterThan(0)
      expect(count).toBeLessThanOrEqual(allMs / READ_EVERY_MS + READS_MORE)
    }
  })
})
