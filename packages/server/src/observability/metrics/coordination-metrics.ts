/**
 * What nodes decide without asking the store, by rule: units drawn ahead, units counted here, and
 * what passed beyond a limit.
 */
import type { CoordinationStats } from '@sluice/limiter'
import type { CatalogRule, RuleCatalog } from '../../rules/sync/rule-catalog.js'
import type { Registry } from './registry.js'

export interface CoordinationMetricsDeps {
  /** By the id of the rule; undefined where counters are in this process: all is exact there. */
  readonly stats: () => ReadonlyMap<string, CoordinationStats> | undefined
  readonly catalog: Pick<RuleCatalog, 'rules'>
}

type Samples = readonly (readonly [values: readonly string[], value: number])[]

/** A set has at most 10,000 rules, and rules come and go. */
const RULES_MAX = 20_000

/** One number of a rule, under the labels that follow its id. */
type MetricReader = readonly [
  labels: readonly string[],
  read: (stats: CoordinationStats, rule: string) => number,
]

/**
 * What rules a metric is about. Those in force are told of from 0 on, because a graph that begins
 * with the first unit hides it; those that left the set stay, as the limiter keeps them, or a rate
 * would end in the middle.
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
  // Not by the callers: of a leased rule those are counted too.
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
    'Times that the store was asked for a lease.',
    () => samples(LEASED, [[[], ({ draws }) => draws]]),
    { labelNames: ['rule'] },
  )
  registry.total(
    'sluice_lease_units_total',
    'Units of leases: drawn, spent by calls, given_back, or lost because no store confirmed that.',
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
    'Units of leases that are neither spent nor given back.',
    'sum',
    () => samples(LEASED, [[[], ({ held }) => held]]),
    ['rule'],
  )
  registry.total(
    'sluice_local_units_total',
    'Units counted on a node: reported to the store, or unknown to have arrived there.',
    () =>
      samples(LOCAL, [
        [['reported'], ({ reported }) => reported],
        [['unknown'], ({ unreported }) => unreported],
      ]),
    { labelNames: ['rule', 'fate'] },
  )
  registry.gauge(
    'sluice_local_counters',
    'Callers that are counted on a node.',
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
 * Units that a call took of a lease are put back if the store refuses the call, a moment later. A
 * total that goes down is read as one that began anew, so it waits until it is passed again.
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

/** What the rules in force say of their coordination, by id; read again when they change. */
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
