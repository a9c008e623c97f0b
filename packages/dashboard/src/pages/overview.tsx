/** What the person on call looks at first: is all well, who is refused, by what, since when. */
import type { StatsView } from '@sluice/client'
import { api, useLoaded } from '../api.js'
import { millis, perSecond, percent, rate } from '../format.js'
import { lastAlert, rulesVersion, stats, statsError, tick } from '../live.js'
import { hrefs } from '../router.js'
import '../styles/overview.css'
import { Card, Empty, ErrorNote, Link, Loading, Page, Stat } from '../ui/index.js'
import { lastOf, pulseOf } from './overview/pulse.js'
import { LatencyCard, TrafficCard } from './overview/charts.js'
import { RefusedCallers, RefusingRules } from './overview/refusals.js'
import { StoreCard } from './overview/store.js'
import { Health } from './overview/health.js'

export function OverviewPage() {
  const seen = stats.value
  return (
    <Page title="Overview" lead={<Lead seen={seen} />}>
      {seen === undefined ? (
        statsError.value === undefined ? (
          <Loading what="Reading what the nodes see" />
        ) : (
          <ErrorNote error={statsError.value} />
        )
      ) : (
        <Shown seen={seen} />
      )}
    </Page>
  )
}

function Lead({ seen }: { readonly seen: StatsView | undefined }) {
  if (seen === undefined) return <>Everything that is decided, as it happens.</>
  return (
    <>
      <Link href={hrefs.nodes}>{seen.nodes === 1 ? 'One node' : `${seen.nodes} nodes`}</Link>, rules{' '}
      <Link href={hrefs.rules}>version {rulesVersion.value ?? seen.rulesVersion}</Link>, counters in{' '}
      {seen.store.name}.
    </>
  )
}

function Shown({ seen }: { readonly seen: StatsView }) {
  const alerts = useLoaded(
    () => api.alerts(),
    [lastAlert.value?.id, lastAlert.value?.resolvedAt, tick.value?.alertsActive],
  )
  return (
    <>
      <Health seen={seen} alerts={alerts.value?.active} />
      <Pulse seen={seen} />
      <TrafficCard seen={seen} />
      <div class="columns">
        <div class="column">
          <RefusingRules seen={seen} />
          <LatencyCard seen={seen} />
        </div>
        <div class="column">
          <RefusedCallers />
          <StoreCard store={seen.store} />
        </div>
      </div>
      {seen.rules.length === 0 && (
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
function Pulse({ seen }: { readonly seen: StatsView }) {
  const { decisions, refusals, share } = pulseOf(seen.series)
  const shadow = perSecond(seen.series, 'shadowRefused', 10)
  return (
    <div class="pulse">
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
        value={millis(lastOf(seen.decisionLatency.p99Ms))}
        hint={`99 of 100; half ${millis(lastOf(seen.decisionLatency.p50Ms))}`}
      />
      <Stat
        size="big"
        label="The store takes"
        value={millis(lastOf(seen.storeLatency.p99Ms))}
        tone={seen.store.isWell ? 'neutral' : 'degraded'}
        hint={storeHint(seen)}
      />
    </div>
  )
}

function storeHint({ storeLatency }: StatsView): string {
  const half = lastOf(storeLatency.p50Ms)
  return half === null ? 'the counters are in the process' : `99 of 100; half ${millis(half)}`
}
