/**
 * Injects one fault into running nodes and checks everything that must hold for any fault: every
 * decision in time and by its rule's posture, every unit accounted for, nothing left behind.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { RedisStoreOptions } from '@sluice/limiter/redis'
import type { RedisServer } from '../../tools/redis/server.mjs'
import { PingCanary, TimerCanary } from './fault-canary.test-helper.js'
import { expectSound } from './fault-checks.test-helper.js'
import {
  type AdmissionCounts,
  countAdmissions,
  type Exact,
  type Latency,
  latencyOf,
  type Recovery,
  recoveryOf,
} from './fault-figures.test-helper.js'
import { Ledger } from './fault-ledger.test-helper.js'
import { Load } from './fault-load.test-helper.js'
import { DecisionLog } from './fault-log.test-helper.js'
import { DEADLINE_MS, type Nodes, openNodes } from './fault-nodes.test-helper.js'
import { compareStored, type StoredComparison } from './fault-stored.test-helper.js'

/** `npm run test:faults -- <times>` makes faults last this many times longer, with more seeds. */
export const TIMES = Number(process.env['SLUICE_FAULTS'] ?? '1')
export const TEST_MS_MAX = 180_000 * Math.max(1, TIMES)

const PER_SECOND = 1500
const BEFORE_MS = 500
const AFTER_MS = 1000
/** The sample that shows whether decisions are exact again. */
const WINDOW_MS = 200
const POLL_EVERY_MS = 25
/** Longer than any fault and the noise after it, times the rate. */
const LOG_CAPACITY = Math.ceil(200_000 * Math.max(1, TIMES))

export interface FaultOptions {
  readonly name: string
  /** One for all nodes, or one for each. */
  readonly urls: readonly string[]
  /** The servers that hold the counters in the end. */
  readonly servers: () => Promise<readonly RedisServer[]>
  /** The servers that are healthy all the time. @default none */
  readonly well?: readonly RedisServer[]
  /** Without injected faults. @default the first of `urls` */
  readonly readUrl?: string
  readonly store?: Partial<RedisStoreOptions>
  readonly perSecond?: number
  /** Lasts until the store could answer again. */
  readonly fault: (run: FaultRun) => Promise<void>
  /** How many times data may be lost: each time callers may get their limits again. @default 0 */
  readonly losses?: number
  /** Exact again within this many milliseconds after the fault. @default 1000 */
  readonly recoveryMs?: number
  /** Whether decisions by posture are expected; otherwise there must be none. @default true */
  readonly degrades?: boolean
}

interface FaultRun {
  readonly nodes: Nodes
  readonly log: DecisionLog
  /** The store loses data within `during`. */
  readonly losing: <Value>(during: () => Promise<Value>) => Promise<Value>
  /** Like `sleep`, but longer in a long run. */
  readonly last: (ms: number) => Promise<void>
}

export interface FaultFigures extends Latency, Recovery, StoredComparison {
  readonly admitted: AdmissionCounts
  readonly heapGrowth: number
  /** The longest queue of any node. */
  readonly queuedTakes: number
  /** The smallest fleet that each node knew: a node without heartbeats is not part of it. */
  readonly fleetSizes: readonly number[]
  readonly log: DecisionLog
  readonly nodes: Nodes
  readonly faultFromMs: number
  readonly faultUntilMs: number
  /** Whether the machine was busy shortly before, by bare timers and PINGs. */
  readonly isNoisy: (atMs: number) => boolean
}

/** Injects one fault and checks all that must hold; returns the measurements. */
export async function runFault(options: FaultOptions): Promise<FaultFigures> {
  const log = new DecisionLog(LOG_CAPACITY)
  const ledger = new Ledger(log)
  const nodes = await openNodes({ urls: options.urls, ledger, store: options.store })
  try {
    const figures = await measure(options, { log, ledger, nodes })
    print(options.name, figures)
    expectSound(options, figures)
    return figures
  } finally {
    await nodes.close()
  }
}

interface RunDeps {
  readonly log: DecisionLog
  readonly ledger: Ledger
  readonly nodes: Nodes
}

async function measure(options: FaultOptions, deps: RunDeps): Promise<FaultFigures> {
  const { log, ledger, nodes } = deps
  const timers = new TimerCanary()
  const pings = (options.well ?? []).map(({ port }) => new PingCanary(port))
  const stats = watchStats(nodes)
  const load = new Load({ ...deps, perSecond: options.perSecond ?? PER_SECOND })
  try {
    await sleep(BEFORE_MS)
    const heapBefore = heapUsed()
    // A garbage collection takes as long as a fault; its effect on decisions is over by then.
    await sleep(BEFORE_MS / 2)
    const faultFromMs = performance.now()
    await options.fault(faultRunOf(deps))
    const faultUntilMs = performance.now()
    const servers = await options.servers()
    pings.push(...servers.map(({ port }) => new PingCanary(port)))
    const isNoisy = (atMs: number) =>
      [timers, ...pings].some((canary) => canary.longestIn(atMs - NOISE_MS, atMs) > NOISE_STALL_MS)
    const mostMs = 5 * (options.recoveryMs ?? 1000)
    const exact = await waitUntilExact(log, { fromMs: faultUntilMs, mostMs, isNoisy })
    await sleep(AFTER_MS)
    await load.stop()
    await waitUntilIdle(nodes)
    const heapGrowth = heapUsed() - heapBefore
    return {
      ...latencyOf(log, timers, DEADLINE_MS),
      ...recoveryOf(log, exact, isNoisy),
      ...(await compareStored(options.readUrl ?? options.urls[0] ?? '', servers, ledger)),
      admitted: countAdmissions(log),
      heapGrowth,
      ...stats.summary(),
      log,
      nodes,
      faultFromMs,
      faultUntilMs,
      isNoisy,
    }
  } finally {
    await load.stop()
    stats.stop()
    for (const canary of [timers, ...pings]) canary.stop()
  }
}

/** A breaker that noise has opened stays open this long. */
const NOISE_MS = 1500
const NOISE_STALL_MS = 8

function faultRunOf({ nodes, log, ledger }: RunDeps): FaultRun {
  return {
    nodes,
    log,
    last: (ms) => sleep(ms * TIMES),
    async losing(during) {
      ledger.recordLoss()
      try {
        return await during()
      } finally {
        ledger.recordLoss()
      }
    },
  }
}

interface RecoveryWait {
  readonly fromMs: number
  readonly mostMs: number
  readonly isNoisy: (atMs: number) => boolean
}

/** However busy the machine is, the wait ends. */
const NOISE_MS_MAX = 60_000

/**
 * Waits until nearly all decisions of every node are the store's again. If that takes too long,
 * time in which the machine was too busy is subtracted.
 */
async function waitUntilExact(
  log: DecisionLog,
  { fromMs, mostMs, isNoisy }: RecoveryWait,
): Promise<Exact> {
  const firstRow = log.length
  let noisyMs = 0
  let polledMs = performance.now()
  while (polledMs < fromMs + mostMs + WINDOW_MS + Math.min(noisyMs, NOISE_MS_MAX)) {
    await sleep(POLL_EVERY_MS)
    const nowMs = performance.now()
    if (isNoisy(nowMs)) noisyMs += nowMs - polledMs
    polledMs = nowMs
    const since = nowMs - WINDOW_MS
    if (since < fromMs) continue
    const byNode = new Map<number, { all: number; silent: number }>()
    for (const row of log.rows(firstRow)) {
      if (row.askedMs < since || Number.isNaN(row.answeredMs)) continue
      const counts = byNode.get(row.node) ?? { all: 0, silent: 0 }
      counts.all += 1
      if (row.source === 'posture') counts.silent += 1
      byNode.set(row.node, counts)
    }
    const nodes = [...byNode.values()]
    if (nodes.length > 0 && nodes.every(({ all, silent }) => silent <= all / 50)) {
      const afterMs = since - fromMs
      return { atMs: since, afterMs: afterMs <= mostMs ? afterMs : afterMs - noisyMs }
    }
  }
  return { atMs: Infinity, afterMs: Infinity }
}

/** Reports wait while a breaker is open, which a busy machine may cause again and again. */
const SETTLE_MS_MAX = 30_000

/** Give-backs and reports are in flight for a moment after the last decision. */
async function waitUntilIdle({ limiters, stores }: Nodes): Promise<void> {
  const until = performance.now() + SETTLE_MS_MAX
  const isBusy = () =>
    limiters.some((limiter) => (limiter.stats?.reportsWaiting ?? 0) > 0) ||
    stores.some((store) => store.stats().nodes.some((node) => node.inFlight + node.queuedTakes > 0))
  do await sleep(100)
  while (isBusy() && performance.now() < until)
}

/** Samples the statistics of the stores. */
function watchStats({ stores }: Nodes) {
  let queuedTakes = 0
  const fleetSizes = stores.map((store) => store.stats().fleet.size)
  const interval = setInterval(() => {
    for (const [node, store] of stores.entries()) {
      const { nodes, fleet } = store.stats()
      for (const each of nodes) queuedTakes = Math.max(queuedTakes, each.queuedTakes)
      fleetSizes[node] = Math.min(fleetSizes[node] ?? fleet.size, fleet.size)
    }
  }, 10)
  return {
    summary: () => ({ queuedTakes, fleetSizes }),
    stop: () => clearInterval(interval),
  }
}

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

function heapUsed(): number {
  collect()
  return process.memoryUsage().heapUsed
}

/** When breakers opened and closed, in milliseconds from the beginning of the fault. */
function breakersOf({ nodes, faultFromMs }: FaultFigures): string {
  const changes = nodes.events.breakers.map(({ node, isOpen, atMs }) => {
    return `${isOpen ? '+' : '-'}${node}@${Math.round(atMs - faultFromMs)}`
  })
  return changes.length === 0 ? 'stayed closed' : changes.join(' ')
}

function print(name: string, figures: FaultFigures): void {
  const ms = (value: number) => `${Math.round(value)} ms`
  const { worst } = figures.admitted
  const words = [
    `${figures.decisions} decisions, ${figures.byPosture} by posture`,
    `slowest ${ms(figures.slowestMs)} (longest stall ${ms(figures.stallMs)})`,
    `exact after ${ms(figures.recoveryMs)}, then ${figures.strays} by posture (${figures.unexcused} not by noise)`,
    `over the limit: store ${worst.store}, closed ${worst.closed}, local ${worst.local.toFixed(2)} limits`,
    `unknown ${figures.unknown}, of them taken ${figures.takenUnacknowledged}`,
    `spent locally ${figures.admitted.byShare}, of them charged ${figures.reported}`,
    `heap ${(figures.heapGrowth / 2 ** 20).toFixed(1)} MB, queued at most ${figures.queuedTakes}`,
    `errors ${JSON.stringify(Object.fromEntries(figures.nodes.events.errors))}`,
    `breakers ${breakersOf(figures)}`,
  ]
  process.stdout.write(`${name}: ${words.join('; ')}\n`)
}
