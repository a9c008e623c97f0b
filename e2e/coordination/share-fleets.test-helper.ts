/** Fleets of nodes on one Redis, started for a test and removed with it. */
import { afterAll, afterEach, beforeAll, expect, vi } from 'vitest'
import { type FaultProxy, startFaultProxy } from '../../tools/redis/fault-proxy.js'
import { type RedisServer, scanWithoutTtl, startRedis } from '../../tools/redis/server.mjs'
import { stopAll } from '../process.test-helper.js'
import { PingCanary } from '../redis/fault-canary.test-helper.js'
import { longestStall } from './admissions.test-helper.js'
import { FleetNode, type NodeOptions, type NodeStats, type Row } from './fleet-node.test-helper.js'

/** Long deadlines, so that no call is decided by posture because the machine was busy. */
export const PATIENT_MS = 10_000

interface FleetOptions {
  readonly size: number
  readonly rules: readonly object[]
  /** @default PATIENT_MS */
  readonly deadlineMs?: number
  /** The secret of the key hash, in hex. @default the one that Redis keeps */
  readonly secret?: string
  /** For the nodes in their order. @default 0 */
  readonly wallOffsetsMs?: readonly number[]
  /** How many of the first nodes reach Redis through a proxy that can fail. @default 0 */
  readonly breakable?: number
}

interface Fleet {
  readonly nodes: readonly FleetNode[]
  /** For the first nodes, in their order. */
  readonly proxies: readonly FaultProxy[]
  /** Every decision, earliest call first, including those of dead nodes. */
  readonly rows: (rule?: string) => readonly Row[]
  /** How late a paced node may have received anything, because the machine was busy. */
  readonly stallMs: () => number
}

export interface Fleets {
  readonly redis: () => RedisServer
  start(options: FleetOptions): Promise<Fleet>
  /** Starts one more node of the same fleet, whatever the state of the store. */
  join(options: NodeOptions): Promise<FleetNode>
}

/**
 * One Redis for a file, emptied for each test. After each test no key without expiry may remain.
 */
export function shareFleets(): Fleets {
  // A dozen processes take long to start on a busy machine.
  vi.setConfig({ testTimeout: 180_000 })
  let redis: RedisServer
  const nodes: FleetNode[] = []
  const proxies: FaultProxy[] = []
  const canaries: PingCanary[] = []
  beforeAll(async () => {
    redis = await startRedis()
  })
  afterAll(() => redis.stop())
  afterEach(async () => {
    for (const canary of canaries.splice(0)) canary.stop()
    await Promise.all(nodes.splice(0).map((node) => node.kill()))
    await Promise.all(proxies.splice(0).map((proxy) => proxy.stop()))
    await stopAll()
    if (!redis.isRunning) await redis.start()
    if (redis.isPaused) redis.resume()
    const immortal = await scanWithoutTtl(redis)
    await redis.cli('FLUSHALL')
    expect(immortal, 'keys without TTL').toEqual([])
  })
  const join = async (options: NodeOptions) => {
    const node = await FleetNode.start(options)
    nodes.push(node)
    return node
  }
  return {
    redis: () => redis,
    join,
    async start({ size, rules, wallOffsetsMs = [], breakable = 0, ...more }) {
      const ownProxies = await Promise.all(
        Array.from({ length: breakable }, () => startFaultProxy(redis.port)),
      )
      proxies.push(...ownProxies)
      const started = await Promise.all(
        Array.from({ length: size }, (_, i) =>
          join({
            rules,
            store: {
              deadlineMs: PATIENT_MS,
              ...more,
              url: ownProxies[i]?.url ?? redis.url,
              fleetSize: size,
            },
            wallOffsetMs: wallOffsetsMs[i] ?? 0,
          }),
        ),
      )
      await Promise.all(started.map((node) => node.waitForFleet(size)))
      const canary = new PingCanary(redis.port)
      canaries.push(canary)
      return {
        nodes: started,
        proxies: ownProxies,
        rows: (rule) => rowsOf(nodes, rule),
        stallMs: () => longestStall(rowsOf(nodes)) + canary.longestMs,
      }
    },
  }
}

function rowsOf(nodes: readonly FleetNode[], rule?: string): readonly Row[] {
  return nodes
    .flatMap((node) => node.rows())
    .filter((row) => rule === undefined || row.rule === rule)
    .toSorted((a, b) => a.askedMs - b.askedMs)
}

/** While the store is reachable and deadlines are long, no call waits in vain. */
export function expectStoreDecided(rows: readonly Row[]): void {
  expect(rows.filter(({ source }) => source === 'posture')).toEqual([])
}

/** Every unit that a node drew is accounted for exactly once. */
export function expectConserved(stats: readonly NodeStats[]): void {
  for (const { rules } of stats) {
    for (const [rule, { drawn, spent, givenBack, lost, held }] of Object.entries(rules)) {
      expect(spent, `${rule}: spent, of ${drawn} drawn`).toBeLessThanOrEqual(drawn)
      expect(spent + givenBack + lost + held, `${rule}: what became of units drawn`).toBe(drawn)
    }
  }
}
