/** What the person on call looks at first: is all well, who is refused, by what, since when. */
import type { StatsView } from '@sluice/client'
import { api, useResource } from '../api.js'
import { millis, perSecond, percent, rate } from '../format.js'
import { rulesVersion, liveStats, statsError } from '../live.js'
import { hrefs } from '../router.js'
import '../styles/overview.css'
import {
  SingleProcessNote,
  Card,
  Empty,
  ErrorNote,
  Link,
  Loading,
  Page,
  Stat,
} from '../ui/index.js'
import { latestValue, headlineFigures, storeHint } from './overview/headline-figures.js'
import { LatencyCard, TrafficCard } from './overview/charts.js'
import { RefusedCallers, RefusingRules } from './overview/refusals.js'
import { StoreCard } from './overview/store-card.js'
import { Health } from './overview/health.js'

export function OverviewPage() {
  const stats = liveStats.value
  return (
    <Page title="Overview" lead={<Lead stats={stats} />}>
      {stats === undefined ? (
        statsError.value === undefined ? (
          <Loading what="Reading what the nodes see" />
        ) : (
          <ErrorNote error={statsError.value} />
        )
      ) : (
        <OverviewContent stats={stats} />
      )}
    </Page>
  )
}

function Lead({ stats }: { readonly stats: StatsView | undefined }) {
  if (stats === undefined) return <>Everything that is decided, as it happens.</>
  return (
    <>
      <Link href={hrefs.nodes}>{nodeCountText(stats)}</Link>, rules{' '}
      <Link href={hrefs.rules}>version {rulesVersion.value ?? stats.rulesVersion}</Link>, counters
      in {stats.store.name}.
    </>
  )
}

const nodeCountText = ({ nodes, isWhole }: StatsView): string => {
  if (!isWhole) return 'One process of those that decide'
  return nodes === 1 ? 'One node' : `${nodes} nodes`
}

function OverviewContent({ stats }: { readonly stats: StatsView }) {
  const rules = useResource(() => api.listRules({ limit: 1 }), [rulesVersion.value])
  const hasNoRules = rules.value?.rules.length === 0
  return (
    <>
      <Health stats={stats} hasNoRules={hasNoRules} />
      {!stats.isWhole && <SingleProcessNote />}
      <Headline stats={stats} />
      <TrafficCard stats={stats} />
      <div class="columns">
        <div class="column">
          <RefusingRules stats={stats} hasNoRules={hasNoRules} />
          <LatencyCard stats={stats} />
        </div>
        <div class="column">
          <RefusedCallers />
          <StoreCard store={stats.store} />
        </div>
      </div>
      {stats.rules.length === 0 && !hasNoRules && (
        <Card>
          <Empty title="Nothing has been decided yet.">
            Send a call through the gateway or ask the decision API: it shows up here within two
            seconds.
          </Empty>
        </Card>
      )}
    </>
  )
}

/** The figures that are looked at from across the room. */
function Headline({ stats }: { readonly stats: StatsView }) {
  const { decisions, refusals, share } = headlineFigures(stats.series)
  const shadow = perSecond(stats.series, 'shadowRefused', 10)
  const last = (values: readonly (number | null)[]) =>
    millis(latestValue(values, stats.series.stepMs))
  return (
    <div class="headline">
      <Stat
        size="big"
        label="Decisions"
        value={rate(decisions)}
        unit="/s"
        hint="mean of ten seconds"
      />
      <Stat
        size="big"
        label="Refusals"
        value={rate(refusals)}
        unit="/s"
        tone={refusals > 0 ? 'refused' : 'neutral'}
        hint={
          shadow > 0
            ? `${percent(share)} of all, ${rate(shadow)}/s in shadow`
            : `${percent(share)} of all`
        }
      />
      <Stat
        size="big"
        label="A decision takes"
        value={last(stats.decisionLatency.p99Ms)}
        hint={`99 of 100; half ${last(stats.decisionLatency.p50Ms)}`}
      />
      <Stat
        size="big"
        label="The store takes"
        value={last(stats.storeLatency.p99Ms)}
        tone={stats.store.isWell ? 'neutral' : 'degraded'}
        hint={storeHint(stats)}
      />
    </div>
  )
}
