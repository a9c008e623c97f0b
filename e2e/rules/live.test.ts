/** A change is active on every node within a second, through a real Postgres. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type PostgresServer, startPostgres } from '../../tools/postgres/server.js'
import { stopAll } from '../process.test-helper.js'
import { liveRule, type Node, quantile, startNodes } from './rule-nodes.test-helper.js'

const NODES = 5
const CHANGES = 1000
const CHANGES_PER_SECOND = 40
const LOOK_EVERY_MS = 15
/**
 * More than twice the duration of a probe. A longer probe means that the machine was busy, and the
 * node could not have done anything in that time: it counts as this long.
 */
const LOOK_MS_MAX = 50

let postgres: PostgresServer
let nodes: readonly Node[]

beforeAll(async () => {
  postgres = await startPostgres()
  const url = await postgres.createDatabase()
  nodes = await startNodes(NODES, { SLUICE_DATABASE_URL: url })
  await nodes[0]?.client.createRule(liveRule(1))
})

afterAll(async () => {
  await stopAll()
  await postgres.stop()
})

/** When each change was first seen active on a node, by its number. */
interface LiveTrace {
  readonly node: Node
  readonly at: { readonly change: number; readonly ms: number }[]
  /** How long it was probed so far, each probe counted as at most that long. */
  ms: number
}

/** Probes until it runs the last change. */
async function watch(traces: LiveTrace): Promise<void> {
  let last = 0
  while (last <= CHANGES) {
    const began = performance.now()
    const change = (await traces.node.peekLimit()) ?? 0
    if (change < last) throw new Error(`a node went back from change ${last} to ${change}`)
    await sleep(LOOK_EVERY_MS)
    traces.ms += Math.min(performance.now() - began, LOOK_MS_MAX)
    if (change > last) traces.at.push({ change, ms: traces.ms })
    last = change
  }
}

describe('five nodes over one Postgres', () => {
  test('activate 1,000 changes, p99 within a second, and miss none', async () => {
    const traces = nodes.map((node): LiveTrace => ({ node, at: [], ms: 0 }))
    /** By change, from each of the probes. */
    const sentMs: (readonly number[])[] = []
    const watching = Promise.all(traces.map(watch))
    // The error is thrown where it is awaited below.
    watching.catch(() => {})
    const began = performance.now()
    for (let change = 2; change <= CHANGES + 1; change++) {
      await sleep(
        Math.max(0, began + ((change - 2) * 1000) / CHANGES_PER_SECOND - performance.now()),
      )
      sentMs[change] = traces.map(({ ms }) => ms)
      const node = nodes[change % NODES]
      await node?.client.patchRule('live', { limits: liveRule(change).limits })
    }
    await expect
      .poll(() => Promise.all(nodes.map((node) => node.peekLimit())), POLL)
      .toEqual(nodes.map(() => CHANGES + 1))
    await watching

    const waits: number[] = []
    for (const [index, { at }] of traces.entries()) {
      for (let change = 2; change <= CHANGES + 1; change++) {
        const first = at.find((one) => one.change >= change)
        waits.push((first?.ms ?? Infinity) - (sentMs[change]?.[index] ?? 0))
      }
    }
    const figures = [0.5, 0.99, 1].map((share) => Math.round(quantile(waits, share)))
    console.log(`live after ${figures.join(', ')} ms (p50, p99, max)`)
    expect(waits).toHaveLength(NODES * CHANGES)
    expect(quantile(waits, 0.99)).toBeLessThanOrEqual(1000)
    expect(quantile(waits, 1)).toBeLessThan(Infinity)
    const versions = await Promise.all(nodes.map((node) => node.metric('sluice_rules_version')))
    expect(new Set(versions).size).toBe(1)
  }, 400_000)
})

const POLL = { timeout: 60_000, interval: 100 }
