/** How it went: the last minutes, and the last hours. */
import type { LatencyView, SeriesView, StatsView } from '@sluice/client'
import { useState } from 'preact/hooks'
import { duration, millis, percent, rate, rates, refusedShare, sum } from '../../format.js'
import { MINUTES_MAX, STEPS_MAX, stepsShown } from '../../live-state.js'
import { Card, type ChartLine, Choice, TimeChart, type Tone } from '../../ui/index.js'

type Span = 'minutes' | 'hours'

export function TrafficCard({ seen }: { readonly seen: StatsView }) {
  const [span, setSpan] = useState<Span>('minutes')
  const series = span === 'minutes' ? seen.series : seen.minutes
  return (
    <Card
      title="Decisions a second"
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
        label="Decisions a second"
        summary={summaryOf(series)}
        lines={linesOf(series)}
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

/** Shadow and degraded only where there is something to see: two lines read faster than four. */
function linesOf(series: SeriesView): readonly ChartLine[] {
  return [
    { label: 'Allowed', tone: 'allowed', values: rates(series, 'allowed'), isFilled: true },
    { label: 'Refused', tone: 'refused', values: rates(series, 'refused'), isFilled: true },
    ...(sum(series.shadowRefused) === 0
      ? []
      : [
          {
            label: 'Refused in shadow',
            tone: 'shadow' as const,
            values: rates(series, 'shadowRefused'),
            isDashed: true,
          },
        ]),
    ...(sum(series.degraded) === 0
      ? []
      : [
          {
            label: 'By posture',
            tone: 'degraded' as const,
            values: rates(series, 'degraded'),
            isDashed: true,
          },
        ]),
  ]
}

function summaryOf(series: SeriesView): string {
  const time = duration(series.allowed.length * series.stepMs)
  const all = series.allowed.map((value, index) => value + (series.refused[index] ?? 0))
  const most = Math.max(0, ...all) / (series.stepMs / 1000)
  const mean = sum(all) / Math.max(1, (all.length * series.stepMs) / 1000)
  return `In the last ${time}: ${rate(mean)} a second on average, ${rate(most)} at most; ${percent(refusedShare(series))} were refused.`
}

export function LatencyCard({ seen }: { readonly seen: StatsView }) {
  const { decisionLatency, storeLatency, series } = seen
  const time = duration(series.allowed.length * series.stepMs)
  const decision = `In the last ${time} decisions took ${millis(worst(decisionLatency))} at most`
  // Counters in the process take no time that could be measured.
  const isStoreMeasured = storeLatency.p99Ms.some((value) => value !== null)
  const store = isStoreMeasured ? `, the store ${millis(worst(storeLatency))}` : ''
  return (
    <Card title="How long it takes" lead="99 of 100 took less; dashed: half did">
      <TimeChart
        label="Latency"
        summary={`${decision}${store} (99 of 100).`}
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

const worst = ({ p99Ms }: LatencyView): number => Math.max(0, ...p99Ms.map((value) => value ?? 0))

const latencyLines = (label: string, tone: Tone, seen: LatencyView): readonly ChartLine[] => [
  { label, tone, values: seen.p99Ms },
  { label: `${label}, half`, tone, values: seen.p50Ms, isDashed: true },
]
