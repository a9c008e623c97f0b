/** Rules of every kind: each algorithm with each coordination mode that it supports. */
import type { Random } from './random.js'
import type { LimitText, RuleSpec, Scenario } from './scenario.js'

const RULES_MAX = 4
/** Windows short enough that a run has several. */
const WINDOWS_MS = [250, 500, 1000, 2000, 4000] as const
/** A plan for which some rules have a tier. */
export const PLAN = 'pro'

type Coordination = RuleSpec['coordination']

export function generateRules(random: Random, nodes: number): RuleSpec[] {
  return Array.from({ length: random.int(1, RULES_MAX) }, (_, i) =>
    generateRule(random, `r${i}`, nodes),
  )
}

/** Some of the rules with other limits or another coordination; their counters continue. */
export function changeRules(random: Random, rules: readonly RuleSpec[]): readonly RuleSpec[] {
  const changed = rules.filter(() => random.chance(0.6))
  return (changed.length === 0 ? rules : changed).map((rule) => changeRule(random, rule))
}

/** Changes every rule of a scenario, also as it is after a change of the rules. */
export function mapRules(scenario: Scenario, change: (rule: RuleSpec) => RuleSpec): Scenario {
  const rules = scenario.rules.map(change)
  const faults = scenario.faults.map((fault) =>
    fault.kind === 'change' ? { ...fault, rules: fault.rules.map(change) } : fault,
  )
  return { ...scenario, rules, faults }
}

/** Changes every limit of a rule, its tiers and its candidate. */
export function mapLimits(rule: RuleSpec, change: (limit: LimitText) => LimitText): RuleSpec {
  const { limits, tiers, candidate } = rule
  const plans = Object.entries(tiers?.plan ?? {}).map(([plan, each]) => [plan, each.map(change)])
  return {
    ...rule,
    limits: limits.map(change),
    ...(tiers && { tiers: { plan: Object.fromEntries(plans) } }),
    ...(candidate && { candidate: { limits: candidate.limits.map(change) } }),
  }
}

function generateRule(random: Random, id: string, nodes: number): RuleSpec {
  const coordination = random.pick<Coordination>([
    'exact',
    'exact',
    'leased',
    'leased',
    'leased',
    'local',
    'local',
    'split',
  ])
  const count = random.chance(0.2) ? 2 : 1
  const make = () =>
    Array.from({ length: count }, (_, i) => generateLimit(random, coordination, nodes, i))
  const limits = make()
  const hasTiers = random.chance(0.15)
  return {
    id,
    by: random.chance(0.8) ? ['user'] : [],
    limits,
    coordination,
    mode: random.chance(0.15) ? 'shadow' : 'enforce',
    posture: random.pick<RuleSpec['posture']>([
      'open',
      'closed',
      'local',
      'local',
      { local: 0.5 },
      { local: 3 },
    ]),
    ...waysOf(random, coordination),
    ...(hasTiers
      ? { tiers: { plan: { [PLAN]: limits.map((each) => resize(random, each)) } } }
      : {}),
    ...(random.chance(0.15) ? { candidate: { limits: make() } } : {}),
  }
}

function waysOf(
  random: Random,
  coordination: Coordination,
): Pick<RuleSpec, 'maxStranded' | 'syncEvery'> {
  if (coordination === 'leased') return { maxStranded: random.int(1, 10) / 20 }
  if (coordination === 'local') return { syncEvery: `${random.pick([20, 50, 100, 250])}ms` }
  return {}
}

function changeRule(random: Random, rule: RuleSpec): RuleSpec {
  const all = [...rule.limits, ...(rule.candidate?.limits ?? [])]
  const ways = waysToShare(all)
  const coordination = random.chance(0.4) ? random.pick(ways) : rule.coordination
  const limits = random.chance(0.8) ? rule.limits.map((each) => resize(random, each)) : rule.limits
  if (coordination === rule.coordination) return { ...rule, limits }
  const { id, by, mode, posture, tiers, candidate } = rule
  return {
    id,
    by,
    limits,
    coordination,
    mode,
    posture,
    ...waysOf(random, coordination),
    ...(tiers === undefined ? {} : { tiers }),
    ...(candidate === undefined ? {} : { candidate }),
  }
}

function waysToShare(limits: readonly LimitText[]): readonly [Coordination, ...Coordination[]] {
  // Only the store knows where a caller's window begins, and only it begins blocks.
  if (limits.some(({ start, block }) => start === 'call' || block !== undefined)) return ['exact']
  return limits.every(isShareable) ? ['exact', 'leased', 'local', 'split'] : ['exact', 'split']
}

/** Leaky buckets and logs are exact for every single call, so nodes cannot share them. */
function isShareable({ algorithm }: LimitText): boolean {
  return algorithm !== 'leaky-bucket' && algorithm !== 'sliding-window-log'
}

/** The same limit, raised or lowered: its counters continue. */
function resize(random: Random, limit: LimitText): LimitText {
  const factor = random.pick([0.1, 0.5, 0.9, 1.1, 2, 4])
  const scaled = (units: number) => Math.max(1, Math.round(units * factor))
  if (limit.max === 0) return { ...limit, max: random.int(1, 20) }
  const { burst } = limit
  const max = scaled(limit.max)
  return burst === undefined ? { ...limit, max } : { ...limit, max, burst: scaled(burst) }
}

function generateLimit(
  random: Random,
  coordination: Coordination,
  nodes: number,
  place: number,
): LimitText {
  const algorithm =
    coordination === 'exact'
      ? random.pick([
          'token-bucket',
          'gcra',
          'leaky-bucket',
          'fixed-window',
          'sliding-window-counter',
          'sliding-window-log',
        ])
      : random.pick(['token-bucket', 'gcra', 'fixed-window', 'sliding-window-counter'])
  const window = random.pick(WINDOWS_MS)
  // A lease needs capacity for two units per node.
  const least = coordination === 'leased' && random.chance(0.8) ? 20 * nodes : 1
  const max = random.chance(0.02) ? 0 : random.int(least, least + random.pick([5, 40, 200]))
  const isBucket = algorithm === 'token-bucket' || algorithm === 'gcra'
  const bursts = isBucket && max > 0 && (algorithm === 'gcra' || random.chance(0.3))
  const limit = { name: `l${place}`, algorithm, max, window: `${window}ms` }
  return bursts ? { ...limit, burst: random.int(Math.ceil(max / 2), 2 * max) } : limit
}
