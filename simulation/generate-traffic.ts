/** Calls: evenly spread, in hot phases of one caller, and in bursts at window edges. */
import { PLAN } from './generate-rules.js'
import type { Random } from './random.js'
import type {
  Arrival,
  CallSpec,
  Fault,
  NodeSpec,
  ResetSpec,
  RuleSpec,
  Settings,
} from './scenario.js'

const ARRIVALS_MAX = 700
const USERS = ['ada', 'bob', 'cyd'] as const
/** The caller with a plan: its tier uses the same counters. */
const PAYING = 'bob'
/** A burst arrives within this distance of the edge, on both sides. */
const EDGE_MS = 30
/** Before and after a fault of a node. */
const AIMED_MS = 120
/** In some runs this share of the calls is refunded, soon or later. */
const REFUNDED = 0.15
const REFUNDED_AFTER_MS = [0, 5, 60, 700] as const
const RESETS_MAX = 3

interface Stage {
  readonly settings: Settings
  readonly nodes: readonly NodeSpec[]
  readonly rules: readonly RuleSpec[]
  readonly faults: readonly Fault[]
}

export function generateTraffic(random: Random, stage: Stage): Arrival[] {
  const traffic: CallSpec[] = []
  const spells = random.int(1, 5)
  for (let i = 0; i < spells && traffic.length < ARRIVALS_MAX; i++) {
    const spell = random.pick([steady, hot, hot, edge, aimed, aimed])
    traffic.push(...spell(random, stage))
  }
  const refunds = random.chance(0.3)
  const calls = traffic.slice(0, ARRIVALS_MAX).map((call) => {
    return refunds && random.chance(REFUNDED) ? withRefund(random, stage, call) : call
  })
  const resets = random.chance(0.15)
    ? many(random.int(1, RESETS_MAX), () => reset(random, stage))
    : []
  return [...calls, ...resets].sort((a, b) => a.atMs - b.atMs)
}

/** Mostly on the node that decided the call. */
function withRefund(random: Random, stage: Stage, call: CallSpec): CallSpec {
  const node = random.chance(0.7) ? call.node : pickNode(random, stage)
  const afterMs = random.pick(REFUNDED_AFTER_MS)
  return { ...call, refund: { afterMs, node, twice: random.chance(0.1) } }
}

function reset(random: Random, stage: Stage): ResetSpec {
  const { rules, settings } = stage
  const rule = rules[random.int(0, rules.length - 1)]?.id
  const isNamed = rule !== undefined && random.chance(0.5)
  const atMs = random.int(0, settings.lengthMs)
  const user = random.pick(USERS)
  const node = pickNode(random, stage)
  return { kind: 'reset', atMs, node, user, ...(isNamed ? { rule } : {}) }
}

function steady(random: Random, stage: Stage): CallSpec[] {
  const { lengthMs } = stage.settings
  const user = random.pick(USERS)
  return many(random.int(5, 80), () => arrival(random, stage, random.int(0, lengthMs), user))
}

/** One caller as fast as possible for a while, on one node or on all. */
function hot(random: Random, stage: Stage): CallSpec[] {
  const { lengthMs } = stage.settings
  const user = random.pick(USERS)
  const from = random.int(0, lengthMs)
  const length = Math.min(random.int(50, 2000), lengthMs - from)
  const node = random.chance(0.3) ? pickNode(random, stage) : undefined
  return many(random.int(20, 250), () =>
    arrival(random, stage, from + (random.int(0, 1000) / 1000) * length, user, node),
  )
}

/** One caller on the node that has a fault: right before the fault and right after it. */
function aimed(random: Random, stage: Stage): CallSpec[] {
  const { faults, settings } = stage
  const fault = faults[random.int(0, faults.length - 1)]
  if (fault === undefined) return hot(random, stage)
  const node = 'node' in fault ? fault.node : pickNode(random, stage)
  const endMs = fault.atMs + ('forMs' in fault ? fault.forMs : 0)
  const user = random.pick(USERS)
  return many(random.int(30, 200), () => {
    const off = (random.int(0, 1000) / 1000) * AIMED_MS
    const at = random.chance(0.6) ? fault.atMs - off : endMs - AIMED_MS / 4 + off
    return arrival(random, stage, Math.min(settings.lengthMs, Math.max(0, at)), user, node)
  })
}

/** Around a window edge of one of the rules, by the store's clock. */
function edge(random: Random, stage: Stage): CallSpec[] {
  const { lengthMs, startUs, storeAheadMs } = stage.settings
  const limits = stage.rules.flatMap(({ limits: each }) => each)
  const limit = limits[random.int(0, limits.length - 1)]
  const windowMs = Number.parseInt(limit?.window ?? '1000', 10)
  const storeMs = startUs / 1000 + storeAheadMs
  const first = windowMs - (storeMs % windowMs)
  const edges = Math.floor((lengthMs - first) / windowMs)
  if (edges < 0) return []
  const at = first + windowMs * random.int(0, edges)
  const user = random.pick(USERS)
  return many(random.int(10, 120), () => {
    const off = (random.int(-1000, 1000) / 1000) * EDGE_MS
    return arrival(random, stage, Math.min(lengthMs, Math.max(0, at + off)), user)
  })
}

function arrival(
  random: Random,
  stage: Stage,
  atMs: number,
  user: string,
  node = pickNode(random, stage),
): CallSpec {
  const cost = random.chance(0.8) ? 1 : random.int(0, 6)
  const plan = user === PAYING ? { plan: PLAN } : {}
  return { kind: 'call', atMs: Math.round(atMs * 1000) / 1000, node, user, ...plan, cost }
}

function pickNode(random: Random, { nodes }: Stage): string {
  return nodes[random.int(0, nodes.length - 1)]?.name ?? 'n0'
}

function many<Item>(count: number, make: () => Item): Item[] {
  return Array.from({ length: count }, make)
}
