/** What the person on call looks at first: is all well, who is refused, by what, since when. */
import type { StatsView } from '@sluice/client'
import { api, useLoaded } from '../api.js'
import { millis, perSecond, percent, rate } from '../format.js'
import { rulesVersion, stats, statsError } from '../live.js'
import { hrefs } from '../router.js'
import '../styles/overview.css'
import { Alone, Card, Empty, ErrorNote, Link, Loading, Page, Stat } from '../ui/index.js'
import { lastOf, pulseOf, storeHint } from './overview/pulse.js'
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
      <Link href={hrefs.nodes}>{nodesOf(seen)}</Link>, rules{' '}
      <Link href={hrefs.rules}>version {rulesVersion.value ?? seen.rulesVersion}</Link>, counters in{' '}
      {seen.store.name}.
    </>
  )
}

const nodesOf = ({ nodes, isWhole }: StatsView): string => {
  if (!isWhole) return 'One process of those that decide'
  return nodes === 1 ? 'One node' : `${nodes} nodes`
}

function Shown({ seen }: { readonly seen: StatsView }) {
  const rules = useLoaded(() => api.listRules({ limit: 1 }), [rulesVersion.value])
  const hasNoRules = rules.value?.rules.length === 0
  return (
    <>
      <Health seen={seen} hasNoRules={hasNoRules} />
      {!seen.isWhole && <Alone />}
      <Pulse seen={seen} />
      <TrafficCard seen={seen} />
      <div class="columns">
        <div class="column">
          <RefusingRules seen={seen} hasNoRules={hasNoRules} />
          <LatencyCard seen={seen} />
        </div>
        <div class="column">
          <RefusedCallers />
          <StoreCard store={seen.store} />
        </div>
      </div>
      {seen.rules.length === 0 && !hasNoRules && (
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
  const last = (values: readonly (number | null)[]) => millis(lastOf(values, seen.series.stepMs))
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
        value={last(seen.decisionLatency.p99Ms)}
        hint={`99 of 100; half ${last(seen.decisionLatency.p50Ms)}`}
      />
      <Stat
        size="big"
        label="The store takes"
        value={last(seen.storeLatency.p99Ms)}
        tone={seen.store.isWell ? 'neutral' : 'degraded'}
        hint={storeHint(seen)}
      />
    </div>
  )
}
