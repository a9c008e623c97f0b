/** The rows of the rules table: each rule with its statistics. */
import type { RuleStatsView, RuleView, SeriesView } from '@sluice/client'
import { now } from '../../clock.js'
import { decisionRate, sum, timeOf } from '../../format.js'
import { addsRefusals, compareCandidate } from '../rule/candidate-comparison.js'
import { byText, isRecord, matchText, ruleLimitsText, valueText } from '@sluice/core/text'

/** Rows rendered at most: ten thousand would freeze the browser. */
export const ROWS_MAX = 200
/** Rates are averaged over this time. */
const RATE_SECONDS = 60

export type RuleOrder = 'refusals' | 'decisions' | 'name' | 'set'

export interface RuleRow {
  readonly id: string
  readonly description: string
  readonly mode: string
  readonly coordination: string
  readonly limits: string
  readonly by: string
  readonly match: string
  readonly overrideCount: number
  /** Counts of the last ten minutes. A shadow rule only has `shadowRefused`. */
  readonly allowed: number
  readonly refused: number
  readonly shadowRefused: number
  readonly decisionsPerSecond: number
  /** Refusals and shadow refusals of each step. */
  readonly refusals: readonly number[]
  readonly refusingSince: string | null
  readonly candidate: CandidateRow | undefined
}

interface CandidateRow {
  readonly limits: string
  /** Refusals by the candidate and by the rule, shadow refusals included, over the same time. */
  readonly wouldRefuse: number
  readonly refused: number
  /** Whether the refusals of the candidate come on top of those of the rule. */
  readonly isAdditional: boolean
}

/** Allowed and refused decisions, without shadow refusals. */
const decisionsOf = ({ allowed, refused, shadowRefused }: RuleRow): number =>
  allowed + refused + shadowRefused

export function ruleRow(rule: RuleView, stats: RuleStatsView | undefined): RuleRow {
  const series = stats?.series
  return {
    id: rule.id,
    description: textOf(rule['description']),
    mode: isTemporarilyShadowed(rule, now()) ? 'shadow' : textOf(rule['mode']) || 'enforce',
    coordination: textOf(rule['coordination']) || 'exact',
    limits: ruleLimitsText(rule),
    by: byText(rule['by']),
    match: matchText(rule['match']),
    overrideCount: rule.overrideCount,
    allowed: sum(series?.allowed ?? []),
    refused: sum(series?.refused ?? []),
    shadowRefused: sum(series?.shadowRefused ?? []),
    decisionsPerSecond: series === undefined ? 0 : decisionRate(series, RATE_SECONDS),
    refusals: series === undefined ? [] : refusalsOf(series),
    refusingSince: stats?.refusingSince ?? null,
    candidate: candidateRow(rule, stats),
  }
}

/** Whether an enforced rule is in shadow until a given time. */
export function isTemporarilyShadowed({ shadowUntil }: RuleView, nowMs: number): boolean {
  return shadowUntil !== undefined && timeOf(shadowUntil) > nowMs
}

const textOf = (value: unknown): string => (value === undefined ? '' : valueText(value))

function refusalsOf({ refused, shadowRefused }: SeriesView): readonly number[] {
  return refused.map((value, index) => value + (shadowRefused[index] ?? 0))
}

function candidateRow(rule: RuleView, stats: RuleStatsView | undefined): CandidateRow | undefined {
  if (!isRecord(rule.candidate)) return undefined
  const comparison = compareCandidate(stats)
  return {
    limits: ruleLimitsText(rule.candidate),
    wouldRefuse: comparison?.wouldRefuse ?? 0,
    refused: comparison === undefined ? 0 : comparison.refused + comparison.shadowRefused,
    isAdditional: comparison === undefined || addsRefusals(comparison, rule['mode']),
  }
}

const refusalCount = (row: RuleRow): number => row.refused + row.shadowRefused

const compare = new Intl.Collator('en', { numeric: true }).compare

const ORDERS: Readonly<Record<RuleOrder, (a: RuleRow, b: RuleRow) => number>> = {
  refusals: (a, b) => refusalCount(b) - refusalCount(a) || decisionsOf(b) - decisionsOf(a),
  decisions: (a, b) => decisionsOf(b) - decisionsOf(a),
  name: (a, b) => compare(a.id, b.id),
  set: () => 0,
}

/** Rules whose id or description contains every word of the search. */
export function findRules(rules: readonly RuleView[], search: string): readonly RuleView[] {
  const words = search
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '')
  if (words.length === 0) return rules
  return rules.filter((rule) => {
    const text = `${rule.id} ${textOf(rule['description'])}`.toLowerCase()
    return words.every((word) => text.includes(word))
  })
}

/** The first rows in this order; equal ones stay in the order of the rule set. */
export function sortedRows(
  rules: readonly RuleView[],
  stats: ReadonlyMap<string, RuleStatsView>,
  order: RuleOrder,
): readonly RuleRow[] {
  if (order === 'set')
    return rules.slice(0, ROWS_MAX).map((rule) => ruleRow(rule, stats.get(rule.id)))
  if (order === 'name') {
    const sorted = rules.toSorted((a, b) => compare(a.id, b.id))
    return sortedRows(sorted, stats, 'set')
  }
  // Only rules with statistics need sorting; the others follow in the order of the rule set.
  const withStats = rules
    .filter(({ id }) => stats.has(id))
    .map((rule) => ruleRow(rule, stats.get(rule.id)))
  const rows = withStats.toSorted(ORDERS[order]).slice(0, ROWS_MAX)
  const rest = rules.filter(({ id }) => !stats.has(id)).slice(0, ROWS_MAX - rows.length)
  return [...rows, ...rest.map((rule) => ruleRow(rule, undefined))]
}
