/** Calls: evenly spread, in hot spells of one caller, in bursts aimed at the edges of windows. */
import type { Random } from './random.js'
import type { Arrival, NodeSpec, RuleSpec, Settings } from './scenario.js'

const ARRIVALS_MAX = 700
const USERS = ['ada', 'bob', 'cyd'] as const
/** A burst arrives within so much of the edge, on both sides. */
const EDGE_MS = 30

interface Stage {
  readonly settings: Settings
  readonly nodes: readonly NodeSpec[]
  readonly rules: readonly RuleSpec[]
}

export function generateTraffic(random: Random, stage: Stage): Arrival[] {
  const traffic: Arrival[] = []
  const spells = random.int(1, 5)
  for (let i = 0; i < spells && traffic.length < ARRIVALS_MAX; i++) {
    const spell = random.pick([steady, hot, hot, edge])
    traffic.push(...spell(random, stage))
  }
  return traffic.slice(0, ARRIVALS_MAX).sort((a, b) => a.atMs - b.atMs)
}

function steady(random: Random, stage: Stage): Arrival[] {
  const { lengthMs } = stage.settings
  const user = random.pick(USERS)
  return many(random.int(5, 80), () => arrival(random, stage, random.int(0, lengthMs), user))
}

/** One caller as fast as it can for a while, on one node or on all. */
function hot(random: Random, stage: Stage): Arrival[] {
  const { lengthMs } = stage.settings
  const user = random.pick(USERS)
  const from = random.int(0, lengthMs)
  const length = Math.min(random.int(50, 2000), lengthMs - from)
  const node = random.chance(0.3) ? pickNode(random, stage) : undefined
  return many(random.int(20, 250), () =>
    arrival(random, stage, from + (random.int(0, 1000) / 1000) * length, user, node),
  )
}

/** Around the edge of a window of one of the rules, by the store's clock. */
function edge(random: Random, stage: Stage): Arrival[] {
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
): Arrival {
  const cost = random.chance(0.8) ? 1 : random.int(0, 6)
  return { atMs: Math.round(atMs * 1000) / 1000, node, user, cost }
}

function pickNode(random: Random, { nodes }: Stage): string {
  return nodes[random.int(0, nodes.length - 1)]?.name ?? 'n0'
}

function many<Item>(count: number, make: () => Item): Item[] {
  return Array.from({ length: count }, make)
}
