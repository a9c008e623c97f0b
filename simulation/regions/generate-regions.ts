/** Generates a scenario of several regions from a seed. */
import { Random } from '../random.js'
import type { LimitText, RuleSpec } from '../scenario.js'
import type {
  RegionArrival,
  RegionFault,
  RegionFaultKind,
  RegionNodeSpec,
  RegionScenario,
  RegionSettings,
  RegionSpec,
} from './region-scenario.js'

/** 2026-01-01; any time would do. */
const START_US = 1_767_225_600_000_000
const DAY_US = 86_400_000_000
const NAMES = ['eu', 'us', 'ap', 'sa'] as const
const DRIFT_PPM_MAX = 200
/** The longest delay for which a bucket is checked when its rule is loaded. */
const MERGE_DELAY_MS = 100
/** Seeds without faults show the bounds at their tightest. */
const CALM = 0.35
const BURST_MS = 30
const HEAVY = 0.15

export function generateRegions(seed: number): RegionScenario {
  const random = new Random(seed)
  const settings = generateSettings(random)
  const nodes = generateNodes(random, settings)
  const rules = generateRules(random, nodes.length)
  const faults = random.chance(CALM) ? [] : generateFaults(random, settings, nodes)
  const traffic = generateTraffic(random, settings, nodes, rules)
  return { seed, settings, rules, nodes, traffic, faults }
}

function generateSettings(random: Random): RegionSettings {
  const count = random.pick([2, 2, 3, 3, 4])
  const apartMs = random.pick([0, 0, 5, 20, 300])
  const regions = NAMES.slice(0, count).map(
    (name): RegionSpec => ({
      name,
      farMs: random.int(2, 40),
      storeAheadMs: random.int(-apartMs, apartMs),
      storeDriftPpm: random.int(-DRIFT_PPM_MAX, DRIFT_PPM_MAX),
    }),
  )
  return {
    startUs: START_US + random.int(0, DAY_US),
    lengthMs: random.int(1500, 4000),
    deadlineMs: random.chance(0.2) ? 50 : 20,
    syncEveryMs: random.pick([20, 50, 100, 100, 100, 250]),
    delayMs: random.int(1, 8) / 10,
    jitterMs: random.int(1, 5) / 10,
    regions,
  }
}

function generateNodes(random: Random, { regions }: RegionSettings): RegionNodeSpec[] {
  return regions.flatMap(({ name: region }) =>
    Array.from({ length: random.pick([1, 1, 2]) }, (_, i) => ({
      name: `${region}${i}`,
      region,
      joinsMs: 0,
      wallAheadMs: random.int(-1000, 1000),
      wallDriftPpm: random.int(-DRIFT_PPM_MAX, DRIFT_PPM_MAX),
      monotonicDriftPpm: random.int(-DRIFT_PPM_MAX, DRIFT_PPM_MAX),
    })),
  )
}

function generateRules(random: Random, nodes: number): RuleSpec[] {
  return Array.from({ length: random.pick([1, 1, 2]) }, (_, place) => {
    const coordination = random.pick(['exact', 'exact', 'exact', 'leased', 'local'] as const)
    const regions = random.chance(0.1) ? ('split' as const) : ('merged' as const)
    const rule: RuleSpec = {
      id: `r${place}`,
      by: random.chance(0.8) ? ['user'] : [],
      limits: [generateLimit(random, coordination === 'leased' ? 20 * nodes : 1, place)],
      coordination,
      regions,
      mode: 'enforce',
      posture: random.pick<RuleSpec['posture']>(['open', 'closed', 'local', { local: 0.5 }]),
    }
    if (coordination === 'leased') return { ...rule, maxStranded: random.int(1, 10) / 20 }
    return coordination === 'local' ? { ...rule, syncEvery: '50ms' } : rule
  })
}

function generateLimit(random: Random, least: number, place: number): LimitText {
  const algorithm = random.pick([
    'fixed-window',
    'fixed-window',
    'sliding-window-counter',
    'token-bucket',
    'gcra',
  ] as const)
  const windowMs = random.pick([300, 1000, 1000, 2000, 5000])
  const max = random.int(least, least + random.pick([3, 10, 40]))
  const limit = { name: `l${place}`, algorithm, max, window: `${windowMs}ms` }
  if (algorithm !== 'gcra' && algorithm !== 'token-bucket') return limit
  const leastBurst = Math.ceil((max * MERGE_DELAY_MS) / windowMs)
  return { ...limit, burst: random.int(leastBurst, leastBurst + max) }
}

function generateFaults(
  random: Random,
  { lengthMs, regions }: RegionSettings,
  nodes: readonly RegionNodeSpec[],
): RegionFault[] {
  const kinds = random.chance(0.5)
    ? ([random.pick(KINDS)] as const)
    : ([random.pick(KINDS), random.pick(KINDS), random.pick(KINDS)] as const)
  const faults = Array.from({ length: random.int(1, 4) }, (): RegionFault => {
    const kind = random.pick(kinds)
    const atMs = random.int(1, lengthMs)
    const forMs = random.pick([random.int(10, 300), random.int(300, lengthMs)])
    const { name: node } = pickFrom(random, nodes)
    if (kind === 'kill' || kind === 'stop') return { kind, atMs, node }
    if (kind === 'own-cut' || kind === 'pause') return { kind, atMs, node, forMs }
    const first = random.int(0, regions.length - 1)
    const second = (first + random.int(1, regions.length - 1)) % regions.length
    const [one, two] = [regions[first]?.name ?? '', regions[second]?.name ?? '']
    if (kind === 'store-pause') return { kind, atMs, region: one, forMs }
    return { kind, atMs, between: [one, two], forMs }
  })
  return faults.toSorted((a, b) => a.atMs - b.atMs)
}

const KINDS: readonly [RegionFaultKind, ...RegionFaultKind[]] = [
  'cut',
  'cut',
  'stall',
  'reset',
  'store-pause',
  'own-cut',
  'pause',
  'kill',
  'stop',
]

function generateTraffic(
  random: Random,
  settings: RegionSettings,
  nodes: readonly RegionNodeSpec[],
  rules: readonly RuleSpec[],
): RegionArrival[] {
  const { lengthMs } = settings
  // Some offer more than every limit for the whole run: then what is owed must be paid back.
  const isHeavy = random.chance(HEAVY)
  const users = ['ann', 'bob'].slice(0, isHeavy ? 1 : random.int(1, 2))
  const hasRefunds = random.chance(0.2)
  const hasResets = random.chance(0.1)
  const costMost = random.pick([1, 1, 3])
  const traffic: RegionArrival[] = []
  const call = (atMs: number): RegionArrival => {
    const { name: node } = pickFrom(random, nodes)
    const user = pickFrom(random, users)
    const cost = random.int(random.chance(0.05) ? 0 : 1, costMost)
    const spec = { kind: 'call', atMs, node, user, cost } as const
    if (!hasRefunds || !random.chance(0.2)) return spec
    const refund = { afterMs: random.int(1, 500), node: pickFrom(random, nodes).name }
    return { ...spec, refund }
  }
  const steady = isHeavy ? random.int(200, 400) : random.int(20, 120)
  for (let i = 0; i < steady; i++) traffic.push(call(random.int(0, lengthMs * 10) / 10))
  const bursts = random.int(0, 3)
  for (let i = 0; i < bursts; i++) {
    const atMs = burstMs(random, settings, rules)
    const length = random.int(5, 40)
    for (let k = 0; k < length; k++) traffic.push(call(atMs + random.int(0, BURST_MS * 10) / 10))
  }
  if (hasResets) {
    const [atMs, node] = [random.int(1, lengthMs), pickFrom(random, nodes).name]
    traffic.push({ kind: 'reset', atMs, node, user: pickFrom(random, users) })
  }
  return traffic.toSorted((a, b) => a.atMs - b.atMs)
}

/** At any time, or around the edge of a window of the first limit. */
function burstMs(
  random: Random,
  { lengthMs, startUs }: RegionSettings,
  rules: readonly RuleSpec[],
): number {
  const atMs = random.int(0, lengthMs)
  if (random.chance(0.5)) return atMs
  const windowMs = Number.parseInt(rules[0]?.limits[0]?.window ?? '1000', 10)
  const intoMs = (startUs / 1000 + atMs) % windowMs
  return Math.max(0, Math.round(atMs - intoMs - BURST_MS / 2))
}

function pickFrom<Item>(random: Random, items: readonly Item[]): Item {
  const item = items[random.int(0, items.length - 1)]
  if (item === undefined) throw new Error('nothing to choose from')
  return item
}
