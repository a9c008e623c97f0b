/** The overview: health, traffic, refusing rules, refused callers and the store. */
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
import { InFlightCard, PrioritiesCard } from './overview/priorities.js'
import { RefusedCallers, RefusingRules } from './overview/refusals.js'
import { StoreCard } from './overview/store-card.js'
import { Health } from './overview/health.js'

export function OverviewPage() {
  const stats = liveStats.value
  return (
    <Page title="Overview" lead={<Lead stats={stats} />}>
      {stats === undefined ? (
        statsError.value === undefined ? (
          <Loading what="Loading statistics" />
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
  if (stats === undefined) return <>Live traffic of all nodes.</>
  return (
    <>
      <Link href={hrefs.nodes}>{nodeCountText(stats)}</Link>, rules{' '}
      <Link href={hrefs.rules}>version {rulesVersion.value ?? stats.rulesVersion}</Link>, counters
      in {stats.store.name}.
    </>
  )
}

const nodeCountText = ({ nodes, isWhole }: StatsView): string => {
  if (!isWhole) return 'One of several processes'
  return nodes === 1 ? '1 node' : `${nodes} nodes`
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
      <Shedding stats={stats} />
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
          <Empty title="No requests yet.">
            Send a request through the gateway or to the decision API. It appears here within two
            seconds.
          </Empty>
        </Card>
      )}
    </>
  )
}

/** Absent if no rules have priorities or limit requests in flight. */
function Shedding({ stats }: { readonly stats: StatsView }) {
  const { priorities, inFlight } = stats
  if (priorities.length === 0 && inFlight.length === 0) return null
  return (
    <div class="columns">
      {priorities.length > 0 && (
        <div class="column">
          <PrioritiesCard stats={stats} />
        </div>
      )}
      {inFlight.length > 0 && (
        <div class="column">
          <InFlightCard inFlight={inFlight} />
        </div>
      )}
    </div>
  )
}

/** The four large figures at the top of the page. */
function Headline({ stats }: { readonly stats: StatsView }) {
  const { decisions, refusals, share } = headlineFigures(stats.series)
  const shadow = perSecond(stats.series, 'shadowRefused', 10)
  const last = (values: readonly (number | null)[]) =>
    millis(latestValue(values, stats.series.stepMs))
  return (
    <div class="headline">
      <Stat
        size="big"
        label="Requests"
        value={rate(decisions)}
        unit="/s"
        hint="average over 10 s"
      />
      <Stat
        size="big"
        label="Refused"
        value={rate(refusals)}
        unit="/s"
        tone={refusals > 0 ? 'refused' : 'neutral'}
        hint={
          shadow > 0
            ? `${percent(share)} of requests, ${rate(shadow)}/s in shadow`
            : `${percent(share)} of requests`
        }
      />
      <Stat
        size="big"
        label="Decision latency, p99"
        value={last(stats.decisionLatency.p99Ms)}
        hint={`p50 ${last(stats.decisionLatency.p50Ms)}`}
      />
      <Stat
        size="big"
        label="Store latency, p99"
        value={last(stats.storeLatency.p99Ms)}
        tone={stats.store.isWell ? 'neutral' : 'degraded'}
        hint={storeHint(stats)}
      />
    </div>
  )
}
