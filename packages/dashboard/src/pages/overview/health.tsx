/** The health note: active alerts, an unhealthy store, or a short summary. */
import type { AlertView, StatsView } from '@sluice/client'
import { percent, sum } from '../../format.js'
import { alertsError, liveAlerts } from '../../live-alerts.js'
import { alertsActive, connection } from '../../live.js'
import { hrefs } from '../../router.js'
import { Badge, Link, Note, Text, RelativeTime } from '../../ui/index.js'
import { groupAlerts } from '../alerts/group-alerts.js'
import { headlineFigures, healthSummary } from './headline-figures.js'
import { alertSummary } from '../alerts/alert-summary.js'

/** Alert groups listed here; the rest is on the alerts page. */
const ALERTS_SHOWN = 4
/** Half a minute, in steps of two seconds. */
const DEGRADED_STEPS = 15
/** From this share on, refusals are mentioned even if every rule works as configured. */
const REFUSED_SHARE_HIGH = 0.2
const REFUSING_S = 30

interface HealthProps {
  readonly stats: StatsView
  readonly hasNoRules: boolean
}

export function Health({ stats, hasNoRules }: HealthProps) {
  const active = liveAlerts.value?.active
  const degraded = sum(stats.series.degraded.slice(-DEGRADED_STEPS))
  const isWell = stats.store.isWell && degraded === 0
  if (active !== undefined && active.length > 0) return <ActiveAlerts alerts={active} />
  if (!isWell) {
    return (
      <Note
        tone="degraded"
        title={stats.store.isWell ? 'Decided without the store' : 'The store is unhealthy'}
      >
        <p>
          <Text value={stats.store.state} max={200} />.{' '}
          {degraded > 0 &&
            'Some recent requests were decided without it: fail open, fail closed or fail local, as each rule says.'}
        </p>
      </Note>
    )
  }
  if (active === undefined) return <UnknownAlerts />
  if (hasNoRules) return <NoRulesNote />
  return <HealthyNote stats={stats} />
}

/** No problem is known. */
function HealthyNote({ stats }: { readonly stats: StatsView }) {
  const { share } = headlineFigures(stats.series, REFUSING_S)
  if (connection.value.state === 'lost') {
    return (
      <Note tone="neutral" title="Status unknown">
        <p>The server does not answer. No alert was active when it last did.</p>
      </Note>
    )
  }
  if (share >= REFUSED_SHARE_HIGH) {
    return (
      <Note tone="neutral" title={`${percent(share)} of requests are refused`}>
        <p>
          Sluice and its store are healthy. The tables below show the refusing rules and the refused
          callers.
        </p>
      </Note>
    )
  }
  return (
    <Note tone="allowed" title="Healthy">
      <p>{healthSummary(stats)}</p>
    </Note>
  )
}

/** Alerts that could not be loaded must not look like no alerts. */
function UnknownAlerts() {
  const activeCount = alertsActive.value ?? 0
  if (activeCount > 0) {
    return (
      <Note tone="degraded" title={activeAlertsText(activeCount)}>
        <p>
          {alertsError.value === undefined ? 'Loading details…' : 'Details are unavailable.'}{' '}
          <Link href={hrefs.alerts}>Alerts</Link>
        </p>
      </Note>
    )
  }
  return alertsError.value === undefined ? (
    <Note tone="neutral" title="Loading alerts…" />
  ) : (
    <Note tone="degraded" title="Alerts are unavailable">
      <p>It is unknown whether an alert is active.</p>
    </Note>
  )
}

function NoRulesNote() {
  return (
    <Note tone="neutral" title="No rules: every request is allowed">
      <p>
        Add a rule to limit callers. <Link href={hrefs.rules}>Rules</Link>
      </p>
    </Note>
  )
}

const activeAlertsText = (active: number): string =>
  active === 1 ? '1 alert is active' : `${active} alerts are active`

const pagingText = (pages: number, all: number): string => {
  if (pages === 0 || all === 1) return ''
  return pages === 1 ? ', 1 of them a page' : `, ${pages} of them pages`
}

function ActiveAlerts({ alerts: active }: { readonly alerts: readonly AlertView[] }) {
  const pages = active.filter(({ severity }) => severity === 'page').length
  return (
    <Note
      tone={pages > 0 ? 'refused' : 'degraded'}
      title={`${activeAlertsText(active.length)}${pagingText(pages, active.length)}`}
    >
      <ul class="health-alerts">
        {groupAlerts(active)
          .slice(0, ALERTS_SHOWN)
          .map(({ first: alert, others }) => (
            <li key={alert.id}>
              <Badge tone={alert.severity === 'page' ? 'refused' : 'degraded'}>
                {alert.severity}
              </Badge>
              <span class="health-summary">
                <Text value={alertSummary(alert)} max={200} />
                {others.length > 0 && <b> And {others.length} similar.</b>}{' '}
                <span class="faint small nowrap">
                  <RelativeTime at={alert.since} />
                </span>
              </span>
            </li>
          ))}
      </ul>
      <p>
        <Link href={hrefs.alerts}>
          {active.length > ALERTS_SHOWN ? `All ${active.length} alerts` : 'View alerts'}
        </Link>
      </p>
    </Note>
  )
}
