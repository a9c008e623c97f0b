/**
 * Registers, by rule, what nodes decide without a store round trip: leased units, locally counted
 * units, and units admitted beyond a limit.
 */
import type { CoordinationStats } from '@sluice/limiter'
import type { CatalogRule, RuleCatalog } from '../../rules/sync/rule-catalog.js'
import type { Registry } from './registry.js'

export interface CoordinationMetricsDeps {
  /** By rule id; undefined for the memory store, where all counting is exact. */
  readonly stats: () => ReadonlyMap<string, CoordinationStats> | undefined
  readonly catalog: Pick<RuleCatalog, 'rules'>
}

type Samples = readonly (readonly [values: readonly string[], value: number])[]

/** Twice the maximum of a rule set, because rules are added and removed. */
const RULES_MAX = 20_000

/** Reads one value of a rule; its labels follow the rule id. */
type MetricReader = readonly [
  labels: readonly string[],
  read: (stats: CoordinationStats, rule: string) => number,
]

/**
 * The rules that a metric covers. Active rules are reported from 0, because a series that starts
 * with its first unit hides it. Removed rules stay, so that a rate over them does not break off.
 */
interface RuleSelection {
  readonly coordinations: readonly unknown[]
  readonly hasCounted: (stats: CoordinationStats) => boolean
}

const LEASED: RuleSelection = {
  coordinations: ['leased'],
  hasCounted: ({ draws, drawn, spent, givenBack, lost, held }) =>
    draws + drawn + spent + givenBack + lost + held > 0,
}
const LOCAL: RuleSelection = {
  coordinations: ['local'],
  // `counters` is no criterion: leased rules have counters, too.
  hasCounted: ({ reported, unreported }) => reported + unreported > 0,
}
const EITHER: RuleSelection = {
  coordinations: [...LEASED.coordinations, ...LOCAL.coordinations],
  hasCounted: (stats) =>
    LEASED.hasCounted(stats) || LOCAL.hasCounted(stats) || stats.overAdmitted > 0,
}

export function registerCoordinationMetrics(
  registry: Registry,
  deps: CoordinationMetricsDeps,
): void {
  const samples = createSamples(deps)
  const neverLess = createNeverLess()
  registry.total(
    'sluice_lease_draws_total',
    'Leases requested from the store.',
    () => samples(LEASED, [[[], ({ draws }) => draws]]),
    { labelNames: ['rule'] },
  )
  registry.total(
    'sluice_lease_units_total',
    'Leased units: drawn, spent by calls, given_back, or lost because the store did not confirm.',
    () =>
      samples(LEASED, [
        [['drawn'], ({ drawn }) => drawn],
        [['spent'], ({ spent }, rule) => neverLess(rule, spent)],
        [['given_back'], ({ givenBack }) => givenBack],
        [['lost'], ({ lost }) => lost],
      ]),
    { labelNames: ['rule', 'fate'] },
  )
  registry.gauge(
    'sluice_lease_units_held',
    'Leased units that are neither spent nor given back.',
    'sum',
    () => samples(LEASED, [[[], ({ held }) => held]]),
    ['rule'],
  )
  registry.total(
    'sluice_local_units_total',
    'Units counted on a node: reported to the store, or with unknown delivery.',
    () =>
      samples(LOCAL, [
        [['reported'], ({ reported }) => reported],
        [['unknown'], ({ unreported }) => unreported],
      ]),
    { labelNames: ['rule', 'fate'] },
  )
  registry.gauge(
    'sluice_local_counters',
    'Callers currently counted on a node.',
    'sum',
    () => samples(LOCAL, [[[], ({ counters }) => counters]]),
    ['rule'],
  )
  registry.total(
    'sluice_over_admitted_total',
    'Units admitted beyond the limit, measured against what the store held when this node ' +
      'reported them.',
    () => samples(EITHER, [[[], ({ overAdmitted }) => overAdmitted]]),
    { labelNames: ['rule'] },
  )
}

/**
 * Keeps a total from decreasing, which Prometheus would take for a restart: a call's leased units
 * are returned if the store refuses the call a moment later.
 */
function createNeverLess(): (rule: string, value: number) => number {
  const highest = new Map<string, number>()
  return (rule, value) => {
    const most = Math.max(value, highest.get(rule) ?? 0)
    if (highest.size < RULES_MAX || highest.has(rule)) highest.set(rule, most)
    return most
  }
}

function createSamples({ stats, catalog }: CoordinationMetricsDeps) {
  const activeRules = activeCoordinations(catalog)
  return (
    { coordinations, hasCounted }: RuleSelection,
    reads: readonly MetricReader[],
  ): Samples => {
    const counted = stats()
    if (counted === undefined) return []
    const samples: (readonly [readonly string[], number])[] = []
    const addSamples = (rule: string, sums: CoordinationStats) => {
      for (const [labels, read] of reads) samples.push([[rule, ...labels], read(sums, rule)])
    }
    for (const [rule, sums] of counted) {
      if (hasCounted(sums) || coordinations.includes(activeRules().get(rule)))
        addSamples(rule, sums)
    }
    for (const [rule, coordination] of activeRules()) {
      if (coordinations.includes(coordination) && !counted.has(rule)) addSamples(rule, ZERO_STATS)
    }
    return samples
  }
}

const ZERO_STATS: CoordinationStats = {
  draws: 0,
  drawn: 0,
  spent: 0,
  givenBack: 0,
  lost: 0,
  held: 0,
  reported: 0,
  unreported: 0,
  overAdmitted: 0,
  counters: 0,
}

/** The coordination of the active rules, by id; recomputed when the rules change. */
function activeCoordinations(
  catalog: CoordinationMetricsDeps['catalog'],
): () => ReadonlyMap<string, unknown> {
  let lastRules: readonly CatalogRule[] = []
  let known: ReadonlyMap<string, unknown> = new Map()
  return () => {
    const rules = catalog.rules()
    if (rules === lastRules) return known
    lastRules = rules
    known = new Map(rules.flatMap(({ document }) => coordinationOf(document)))
    return known
  }
}

function coordinationOf(
  document: CatalogRule['document'],
): readonly (readonly [string, unknown])[] {
  const { id, mode, coordination } = document
  return coordination === undefined || mode === 'off' ? [] : [[id, coordination]]
}
