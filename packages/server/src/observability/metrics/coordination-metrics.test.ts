import type { CoordinationStats } from '@sluice/limiter'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { CatalogRule } from '../../rules/sync/rule-catalog.js'
import { registerCoordinationMetrics } from './coordination-metrics.js'
import { mergeMetrics } from './merge-metrics.js'
import { readMetrics, valueOf } from './read-metrics.test-helper.js'
import { createRegistry } from './registry.js'

const ZERO: CoordinationStats = {
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
const UNITS = { drawn: 100, spent: 70, givenBack: 20, lost: 3, held: 7 }
const LEASED = { ...ZERO, ...UNITS, draws: 4, counters: 1 }
const LOCAL = { ...ZERO, reported: 900, unreported: 5, overAdmitted: 11, counters: 2 }

const NAMES = [
  'sluice_lease_draws_total',
  'sluice_lease_units_held',
  'sluice_lease_units_total',
  'sluice_local_counters',
  'sluice_local_units_total',
  'sluice_over_admitted_total',
]

type Stats = Readonly<Record<string, CoordinationStats>>

function rulesOf(documents: readonly CatalogRule['document'][]): readonly CatalogRule[] {
  return documents.map((document) => ({
    document,
    candidate: undefined,
    version: 1,
    overrideCount: 0,
  }))
}

function setUp(stats: Stats | undefined, documents: readonly CatalogRule['document'][] = []) {
  let counted = stats
  let rules = rulesOf(documents)
  const registry = createRegistry()
  registerCoordinationMetrics(registry, {
    stats: () => (counted === undefined ? undefined : new Map(Object.entries(counted))),
    catalog: { rules: () => rules },
  })
  const read = () => readMetrics(registry.text())
  return {
    registry,
    value: (name: string, labels: Readonly<Record<string, string>>) =>
      valueOf(read(), name, labels),
    series: () => NAMES.map((name) => read().get(name)?.samples.size),
    become: (next: Stats, nextDocuments: readonly CatalogRule['document'][]) => {
      counted = next
      rules = rulesOf(nextDocuments)
    },
  }
}

test('every leased unit is reported by its fate, and held units separately', () => {
  const { value } = setUp({ hot: LEASED }, [{ id: 'hot', coordination: 'leased' }])
  const units = (fate: string) => value('sluice_lease_units_total', { rule: 'hot', fate })
  expect(['drawn', 'spent', 'given_back', 'lost'].map(units)).toEqual([100, 70, 20, 3])
  expect(value('sluice_lease_draws_total', { rule: 'hot' })).toBe(4)
  expect(value('sluice_lease_units_held', { rule: 'hot' })).toBe(7)
  expect(value('sluice_over_admitted_total', { rule: 'hot' })).toBe(0)
  expect(value('sluice_local_counters', { rule: 'hot' })).toBeUndefined()
})

test('locally counted units are reported as reported or unknown, with over-admitted ones', () => {
  const { value } = setUp({ coarse: LOCAL }, [{ id: 'coarse', coordination: 'local' }])
  const units = (fate: string) => value('sluice_local_units_total', { rule: 'coarse', fate })
  expect(['reported', 'unknown'].map(units)).toEqual([900, 5])
  expect(value('sluice_local_counters', { rule: 'coarse' })).toBe(2)
  expect(value('sluice_over_admitted_total', { rule: 'coarse' })).toBe(11)
})

test('an active leased or local rule is reported from 0', () => {
  const { value, series } = setUp({}, [
    { id: 'hot', coordination: 'leased' },
    { id: 'coarse', coordination: 'local' },
  ])
  expect(value('sluice_over_admitted_total', { rule: 'hot' })).toBe(0)
  expect(value('sluice_over_admitted_total', { rule: 'coarse' })).toBe(0)
  expect(value('sluice_lease_units_total', { rule: 'hot', fate: 'lost' })).toBe(0)
  expect(value('sluice_lease_draws_total', { rule: 'coarse' })).toBeUndefined()
  expect(value('sluice_local_counters', { rule: 'hot' })).toBeUndefined()
  expect(series()).toEqual([1, 1, 4, 1, 2, 2])
})

test('rules of other coordinations have no series', () => {
  const documents = [
    { id: 'a' },
    { id: 'b', coordination: 'exact' },
    { id: 'c', coordination: 'split' },
    { id: 'd', coordination: 'leased', mode: 'off' },
    { id: 'e', coordination: 7 },
  ]
  expect(setUp({ a: ZERO }, documents).series()).toEqual([0, 0, 0, 0, 0, 0])
})

test('with the memory store no rule has a series', () => {
  const { registry, series } = setUp(undefined, [{ id: 'hot', coordination: 'leased' }])
  expect(series()).toEqual([0, 0, 0, 0, 0, 0])
  for (const name of NAMES) expect(registry.text()).toContain(`# TYPE ${name} `)
})

test('a removed rule keeps its counts, and one with changed coordination has both', () => {
  const { value, become } = setUp({ hot: LEASED }, [{ id: 'hot', coordination: 'leased' }])
  become({ hot: LEASED, other: LOCAL }, [])
  expect(value('sluice_lease_draws_total', { rule: 'hot' })).toBe(4)
  expect(value('sluice_over_admitted_total', { rule: 'other' })).toBe(11)
  become({ hot: { ...LEASED, reported: 6 } }, [{ id: 'hot', coordination: 'local' }])
  expect(value('sluice_lease_draws_total', { rule: 'hot' })).toBe(4)
  expect(value('sluice_local_units_total', { rule: 'hot', fate: 'reported' })).toBe(6)
})

test('units returned by a refused call do not decrease a total', () => {
  const rules = [{ id: 'hot', coordination: 'leased' }]
  const { value, become } = setUp({ hot: LEASED, two: LEASED }, rules)
  const spent = () => value('sluice_lease_units_total', { rule: 'hot', fate: 'spent' })
  const values = [80, 71, 79, 81].map((now) => {
    become({ hot: { ...LEASED, spent: now }, two: LEASED }, rules)
    return spent()
  })
  expect(values).toEqual([80, 80, 80, 81])
  expect(value('sluice_lease_units_total', { rule: 'two', fate: 'spent' })).toBe(70)
})

test('the coordination of rules is updated when they change', () => {
  const { value, become } = setUp({}, [])
  expect(value('sluice_over_admitted_total', { rule: 'new' })).toBeUndefined()
  become({}, [{ id: 'new', coordination: 'local' }])
  expect(value('sluice_over_admitted_total', { rule: 'new' })).toBe(0)
})

const count = fc.nat(2 ** 40)
const statsOf = fc.record<CoordinationStats>({
  draws: count,
  drawn: count,
  spent: count,
  givenBack: count,
  lost: count,
  held: count,
  reported: count,
  unreported: count,
  overAdmitted: count,
  counters: count,
})
const RULES = [
  { id: 'hot', coordination: 'leased' },
  { id: 'coarse', coordination: 'local' },
]

test('merged metrics of several workers equal those of a single process', () => {
  const leased = statsOf.map((stats) => ({ ...stats, reported: 0, unreported: 0 }))
  const worker = fc.record({ hot: leased, coarse: statsOf }, { requiredKeys: [] })
  fc.assert(
    fc.property(fc.array(worker, { minLength: 1, maxLength: 4 }), (workers) => {
      const sum = (rule: 'hot' | 'coarse') =>
        workers.reduce<CoordinationStats>((all, stats) => add(all, stats[rule] ?? ZERO), ZERO)
      const whole = setUp({ hot: sum('hot'), coarse: sum('coarse') }, RULES)
      const texts = workers.map((stats) => setUp(stats, RULES).registry.mergeableText())
      expect(mergeMetrics(texts)).toBe(whole.registry.text())
    }),
  )
})

function add(one: CoordinationStats, other: CoordinationStats): CoordinationStats {
  return {
    draws: one.draws + other.draws,
    drawn: one.drawn + other.drawn,
    spent: one.spent + other.spent,
    givenBack: one.givenBack + other.givenBack,
    lost: one.lost + other.lost,
    held: one.held + other.held,
    reported: one.reported + other.reported,
    unreported: one.unreported + other.unreported,
    overAdmitted: one.overAdmitted + other.overAdmitted,
    counters: one.counters + other.counters,
  }
}
