/** Fleets of nodes on one Redis: started for a test, ended with it, and nothing left behind. */
import { afterAll, afterEach, beforeAll, expect, vi } from 'vitest'
import { type FaultProxy, startFaultProxy } from '../../tools/redis/fault-proxy.js'
import { type RedisServer, scanWithoutTtl, startRedis } from '../../tools/redis/server.mjs'
import { stopAll } from '../process.test-helper.js'
import { PingCanary } from '../redis/fault-canary.test-helper.js'
import { longestStall } from './admissions.test-helper.js'
import { FleetNode, type NodeOptions, type NodeStats, type Row } from './fleet-node.test-helper.js'

/** Nothing is decided by posture because the machine was busy for a moment. */
export const PATIENT_MS = 10_000

interface FleetOptions {
  readonly size: number
  readonly rules: readonly object[]
  /** @default patient */
  readonly deadlineMs?: number
  /** Of the key hash, as hex. @default the one that Redis keeps */
  readonly secret?: string
  /** Of the nodes in their order. @default 0 */
  readonly wallOffsetsMs?: readonly number[]
  /** How many of the first nodes have a way to Redis of their own that can be broken. @default 0 */
  readonly breakable?: number
}

interface Fleet {
  readonly nodes: readonly FleetNode[]
  /** Of the first nodes, in their order. */
  readonly proxies: readonly FaultProxy[]
  /** Everything that was decided, oldest question first; also by nodes that are dead. */
  readonly rows: (rule?: string) => readonly Row[]
  /** How late a node that is paced may have heard of anything, because the machine was busy. */
  readonly stallMs: () => number
}

export interface Fleets {
  readonly redis: () => RedisServer
  start(options: FleetOptions): Promise<Fleet>
  /** One more node of the same fleet, whatever the store does. */
  join(options: NodeOptions): Promise<FleetNode>
}

/** One Redis for a file, empty for each test. After each, no key may stay for ever. */
export function shareFleets(): Fleets {
  // A dozen processes take their time to start where others want the machine too.
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

/** Where the store is there, and nodes are patient, no call waits for nothing. */
export function expectStoreDecided(rows: readonly Row[]): void {
  expect(rows.filter(({ source }) => source === 'posture')).toEqual([])
}

/** Every unit that a node drew is somewhere, and none is in two places. */
export function expectConserved(stats: readonly NodeStats[]): void {
  for (const { rules } of stats) {
    for (const [rule, { drawn, spent, givenBack, lost, held }] of Object.entries(rules)) {
      expect(spent, `${rule}: spent, of ${drawn} drawn`).toBeLessThanOrEqual(drawn)
      expect(spent + givenBack + lost + held, `${rule}: what became of units drawn`).toBe(drawn)
    }
  }
}
