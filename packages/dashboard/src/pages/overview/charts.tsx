/** Charts of requests and latency over the last minutes or hours. */
import type { LatencyView, SeriesView, StatsView } from '@sluice/client'
import { useState } from 'preact/hooks'
import {
  decisionsPerStep,
  duration,
  millis,
  percent,
  rate,
  rates,
  refusedShare,
  sum,
} from '../../format.js'
import { MINUTES_MAX, STEPS_MAX, stepsShown } from '../../apply-tick.js'
import { Card, type ChartLine, Choice, TimeChart, type Tone } from '../../ui/index.js'

type Span = 'minutes' | 'hours'

export function TrafficCard({ stats }: { readonly stats: StatsView }) {
  const [span, setSpan] = useState<Span>('minutes')
  const series = span === 'minutes' ? stats.series : stats.minutes
  return (
    <Card
      title="Requests per second"
      actions={
        <Choice
          label="Time span"
          value={span}
          options={[
            { value: 'minutes', label: '5 min' },
            { value: 'hours', label: '6 h' },
          ]}
          onChange={setSpan}
        />
      }
    >
      <TimeChart
        label="Requests per second"
        summary={trafficSummary(series)}
        lines={trafficLines(series)}
        endMs={series.endMs}
        stepMs={series.stepMs}
        steps={stepsShown(series.allowed.length, span === 'minutes' ? STEPS_MAX : MINUTES_MAX)}
        unit="/s"
        format={rate}
        height={240}
      />
    </Card>
  )
}

/** Leaves out the shadow and store-failure lines while they are zero. */
function trafficLines(series: SeriesView): readonly ChartLine[] {
  return [
    { label: 'Allowed', tone: 'allowed', values: rates(series, 'allowed'), isFilled: true },
    { label: 'Refused', tone: 'refused', values: rates(series, 'refused'), isFilled: true },
    ...(sum(series.shadowRefused) === 0
      ? []
      : [
          {
            label: 'Would be refused (shadow)',
            tone: 'shadow' as const,
            values: rates(series, 'shadowRefused'),
            isDashed: true,
          },
        ]),
    ...(sum(series.degraded) === 0
      ? []
      : [
          {
            label: 'Decided on store failure',
            tone: 'degraded' as const,
            values: rates(series, 'degraded'),
            isDashed: true,
          },
        ]),
  ]
}

function trafficSummary(series: SeriesView): string {
  const time = duration(series.allowed.length * series.stepMs)
  const totals = decisionsPerStep(series)
  const peak = Math.max(0, ...totals) / (series.stepMs / 1000)
  const mean = sum(totals) / Math.max(1, (totals.length * series.stepMs) / 1000)
  return `In the last ${time}: ${rate(mean)} per second on average, ${rate(peak)} at peak; ${percent(refusedShare(series))} refused.`
}

export function LatencyCard({ stats }: { readonly stats: StatsView }) {
  const { decisionLatency, storeLatency, series } = stats
  const time = duration(series.allowed.length * series.stepMs)
  const decision = `In the last ${time} the p99 decision latency was at most ${millis(highestP99(decisionLatency))}`
  // Counters in the process have no store latency.
  const isStoreMeasured = storeLatency.p99Ms.some((value) => value !== null)
  const store = isStoreMeasured ? `, the p99 store latency ${millis(highestP99(storeLatency))}` : ''
  return (
    <Card title="Latency" lead="p99 solid, p50 dashed">
      <TimeChart
        label="Latency"
        summary={`${decision}${store}.`}
        lines={[
          ...latencyLines('Decision', 'accent', decisionLatency),
          ...(isStoreMeasured ? latencyLines('Store', 'shadow', storeLatency) : []),
        ]}
        endMs={series.endMs}
        stepMs={series.stepMs}
        steps={stepsShown(series.allowed.length, STEPS_MAX)}
        format={millis}
        height={200}
      />
    </Card>
  )
}

const highestP99 = ({ p99Ms }: LatencyView): number =>
  Math.max(0, ...p99Ms.map((value) => value ?? 0))

const latencyLines = (label: string, tone: Tone, stats: LatencyView): readonly ChartLine[] => [
  { label: `${label} p99`, tone, values: stats.p99Ms },
  { label: `${label} p50`, tone, values: stats.p50Ms, isDashed: true },
]
