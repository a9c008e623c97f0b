/**
 * Three regions on one machine: a Redis for each, and between every two a network that can be
 * delayed, cut and healed. A region is limiters over regional stores, as its nodes have them.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { createLimiter, type Limiter, type RegionalStore, regionalStore } from '@sluice/limiter'
import { redisStore } from '@sluice/limiter/redis'
import { type FaultProxy, startFaultProxy } from '../../tools/redis/fault-proxy.js'
import { type RedisServer, startRedis } from '../../tools/redis/server.mjs'

export const REGIONS = ['ap', 'eu', 'us'] as const
export type RegionName = (typeof REGIONS)[number]

const SECRET = new Uint8Array(16).fill(7)
/** A store that answers within this is not decided by posture on a busy machine. */
const DEADLINE_MS = 2000
const LINK_DEADLINE_MS = 2000

export interface RegionNode {
  readonly limiter: Limiter
  readonly store: RegionalStore
}

export interface Regions {
  readonly redis: Readonly<Record<RegionName, RedisServer>>
  /** The network from one region to the Redis of another. */
  link(from: RegionName, to: RegionName): FaultProxy
  /** The links of a region, in both directions. */
  linksOf(region: RegionName): readonly FaultProxy[]
  /** Opens a node of a region, and waits until it can be used and reaches the others. */
  open(region: RegionName, rules: object, options?: NodeOptions): Promise<RegionNode>
  stop(): Promise<void>
}

interface NodeOptions {
  readonly syncEveryMs?: number
  readonly secret?: Uint8Array
  /** Does not wait for the other regions. */
  readonly isAlone?: boolean
  /** How long a decision waits for the own Redis. */
  readonly deadlineMs?: number
}

export async function startRegions(delayMs = 0): Promise<Regions> {
  const servers = await Promise.all(REGIONS.map(() => startRedis()))
  const redis = Object.fromEntries(REGIONS.map((name, i) => [name, servers[i]])) as Record<
    RegionName,
    RedisServer
  >
  const links = new Map<string, FaultProxy>()
  for (const from of REGIONS) {
    for (const to of REGIONS) {
      if (from === to) continue
      const proxy = await startFaultProxy(redis[to].port)
      proxy.delay(delayMs)
      links.set(`${from} ${to}`, proxy)
    }
  }
  const link = (from: RegionName, to: RegionName) => {
    const proxy = links.get(`${from} ${to}`)
    if (proxy === undefined) throw new Error(`no link from ${from} to ${to}`)
    return proxy
  }
  const nodes: RegionNode[] = []
  return {
    redis,
    link,
    linksOf: (region) =>
      REGIONS.filter((other) => other !== region).flatMap((other) => [
        link(region, other),
        link(other, region),
      ]),
    async open(region, rules, options = {}) {
      const { secret = SECRET, syncEveryMs, isAlone = false, deadlineMs = DEADLINE_MS } = options
      const others = REGIONS.filter((other) => other !== region).map((other) => {
        const { url } = link(region, other)
        const store = redisStore({ url, secret, guest: true, deadlineMs: LINK_DEADLINE_MS })
        store.ready.catch(() => {})
        return [other, store] as const
      })
      const own = redisStore({ url: redis[region].url, secret, deadlineMs, denyCacheMs: 0 })
      const store = regionalStore({
        region,
        store: own,
        others: Object.fromEntries(others),
        syncEveryMs,
      })
      const limiter = createLimiter({ rules, store, secret })
      nodes.push({ limiter, store })
      await own.ready
      if (!isAlone) {
        await until(`${region} reaches the others`, () =>
          store.regionStats().every(({ isAnswering }) => isAnswering),
        )
      }
      return { limiter, store }
    },
    async stop() {
      await Promise.all(nodes.map(({ limiter }) => limiter.close()))
      await Promise.all([...links.values()].map((proxy) => proxy.stop()))
      await Promise.all(servers.map((server) => server.stop()))
    },
  }
}

/** Opens one node in each region; the first start makes each Redis known to the others. */
export async function openAll(
  regions: Regions,
  rules: object,
  options?: NodeOptions,
): Promise<Record<RegionName, RegionNode>> {
  const opened = await Promise.all(REGIONS.map((name) => regions.open(name, rules, options)))
  return Object.fromEntries(REGIONS.map((name, i) => [name, opened[i]])) as Record<
    RegionName,
    RegionNode
  >
}

const WAIT_MS_MAX = 60_000

/** Waits for a condition, however busy the machine is. */
export async function until(what: string, isMet: () => boolean | Promise<boolean>): Promise<void> {
  const untilMs = Date.now() + WAIT_MS_MAX
  while (!(await isMet())) {
    if (Date.now() > untilMs) throw new Error(`${what}: not within ${WAIT_MS_MAX} ms`)
    await sleep(5)
  }
}

/** Waits until the others know everything that this node has spent. */
export function untilTold({ store }: RegionNode): Promise<void> {
  return until('the other regions know everything', () =>
    store.regionStats().every(({ lagMs, pending }) => lagMs === 0 && pending === 0),
  )
}

/** Calls until one is refused, one after the other; returns how many were admitted. */
export async function spendAll({ limiter }: RegionNode, user: string, most = 10_000) {
  for (let admitted = 0; admitted < most; admitted++) {
    const { allowed } = await limiter.check({ attributes: { user } })
    if (!allowed) return admitted
  }
  return most
}

/** Makes calls at an even rate for a time, and returns how many were admitted. */
export async function offer(
  { limiter }: RegionNode,
  user: string,
  { perSecond, seconds }: { readonly perSecond: number; readonly seconds: number },
) {
  const startMs = performance.now()
  const pending: Promise<boolean>[] = []
  for (;;) {
    const passedMs = performance.now() - startMs
    if (passedMs >= seconds * 1000) break
    const due = Math.floor((passedMs / 1000) * perSecond)
    while (pending.length < due) {
      pending.push(limiter.check({ attributes: { user } }).then(({ allowed }) => allowed))
    }
    await sleep(2)
  }
  const allowed = await Promise.all(pending)
  return { offered: allowed.length, admitted: allowed.filter(Boolean).length }
}

/** What is left of the first limit, by the store of the node. */
export async function leftIn({ limiter }: RegionNode, user: string): Promise<number> {
  const { remaining } = await limiter.peek({ attributes: { user } })
  return remaining ?? Number.NaN
}
