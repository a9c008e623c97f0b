/** Chart of the decisions of a rule and its candidate in the last ten minutes. */
import type { RuleStatsView, RuleView } from '@sluice/client'
import {
  count,
  decisionsPerStep,
  duration,
  percent,
  rate,
  rates,
  refusedShare,
  sum,
} from '../../format.js'
import { type ChartLine, Empty, TimeChart } from '../../ui/index.js'
import { addsRefusals, compareCandidate } from './candidate-comparison.js'

interface RuleStatsProps {
  readonly rule: RuleView
  readonly stats: RuleStatsView | undefined
}

export function RuleStats({ rule, stats }: RuleStatsProps) {
  if (stats === undefined) {
    return <Empty title="No requests matched this rule">In the last 10 minutes, on any node.</Empty>
  }
  const { series, candidate } = stats
  const isShadow = rule['mode'] === 'shadow' || sum(series.shadowRefused) > 0
  const lines: readonly ChartLine[] = [
    { label: 'allowed', tone: 'allowed', values: rates(series, 'allowed'), isFilled: true },
    { label: 'refused', tone: 'refused', values: rates(series, 'refused'), isFilled: true },
    ...(isShadow ? [shadowLine('would be refused (shadow)', rates(series, 'shadowRefused'))] : []),
    ...(candidate === null
      ? []
      : [shadowLine(candidateLabel(rule), rates(candidate, 'shadowRefused'), true)]),
  ]
  return (
    <TimeChart
      label={`Decisions by ${rule.id}`}
      summary={summaryOf(rule, stats)}
      lines={lines}
      endMs={series.endMs}
      stepMs={series.stepMs}
      unit="/s"
      format={rate}
    />
  )
}

const shadowLine = (label: string, values: readonly number[], isDashed = false): ChartLine => ({
  label,
  tone: 'shadow',
  values,
  isDashed,
})

/** A candidate of an enforced rule only evaluates calls that the rule allows. */
const candidateLabel = (rule: RuleView): string =>
  rule['mode'] === 'shadow' ? 'candidate would refuse' : 'candidate would refuse more'

/** The chart in one sentence. */
function summaryOf(rule: RuleView, stats: RuleStatsView): string {
  const { series } = stats
  const refused = sum(series.refused)
  const total = sum(decisionsPerStep(series))
  const shadow = sum(series.shadowRefused)
  const comparison = compareCandidate(stats)
  const clauses = [
    `${count(total)} requests in 10 minutes, ${count(refused)} refused (${percent(refusedShare(series))})`,
    shadow > 0 ? `${count(shadow)} would be refused if enforced` : [],
    comparison === undefined
      ? []
      : `the candidate would refuse ${count(comparison.wouldRefuse)}${addsRefusals(comparison, rule['mode']) ? ' more' : ''} of those in the last ${duration(comparison.spanMs)}`,
  ]
  return `${clauses.flat().join('; ')}.`
}
