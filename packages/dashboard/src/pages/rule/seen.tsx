/** What a rule decided in the last ten minutes, and what its candidate would have. */
import type { RuleStatsView, RuleView } from '@sluice/client'
import { count, duration, percent, rate, rates, refusedShare, sum } from '../../format.js'
import { type ChartLine, Empty, TimeChart } from '../../ui/index.js'
import { isBeside, trialOf } from './trial.js'

interface SeenProps {
  readonly rule: RuleView
  readonly stats: RuleStatsView | undefined
}

export function Seen({ rule, stats }: SeenProps) {
  if (stats === undefined) {
    return <Empty title="No calls met this rule">In the last ten minutes, on any node.</Empty>
  }
  const { series, candidate } = stats
  const isShadow = rule['mode'] === 'shadow' || sum(series.shadowRefused) > 0
  const lines: readonly ChartLine[] = [
    { label: 'allowed', tone: 'allowed', values: rates(series, 'allowed'), isFilled: true },
    { label: 'refused', tone: 'refused', values: rates(series, 'refused'), isFilled: true },
    ...(isShadow ? [line('would be refused, in shadow', rates(series, 'shadowRefused'))] : []),
    ...(candidate === null
      ? []
      : [line(candidateLabel(rule), rates(candidate, 'shadowRefused'), true)]),
  ]
  return (
    <TimeChart
      label={`Decisions of ${rule.id}`}
      summary={summaryOf(rule, stats)}
      lines={lines}
      endMs={series.endMs}
      stepMs={series.stepMs}
      unit="/s"
      format={rate}
    />
  )
}

const line = (label: string, values: readonly number[], isDashed = false): ChartLine => ({
  label,
  tone: 'shadow',
  values,
  isDashed,
})

/** Where the rule refuses, a candidate is asked only about the rest. */
const candidateLabel = (rule: RuleView): string =>
  rule['mode'] === 'shadow' ? 'candidate would refuse' : 'candidate would refuse more'

/** The picture in a sentence. */
function summaryOf(rule: RuleView, stats: RuleStatsView): string {
  const { series } = stats
  const refused = sum(series.refused)
  const all = sum(series.allowed) + refused
  const shadow = sum(series.shadowRefused)
  const trial = trialOf(stats)
  const words = [
    `${count(all)} calls in ten minutes, ${count(refused)} refused (${percent(refusedShare(series))})`,
    shadow > 0 ? `${count(shadow)} more would be, were it enforced` : [],
    trial === undefined
      ? []
      : `the candidate would refuse ${count(trial.would)}${isBeside(trial, rule['mode']) ? ' more' : ''} of those of the last ${duration(trial.spanMs)}`,
  ]
  return `${words.flat().join('; ')}.`
}
