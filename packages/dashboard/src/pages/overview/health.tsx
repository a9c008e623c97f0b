/** Whether there is anything to do, and what. */
import type { AlertView, StatsView } from '@sluice/client'
import { percent, sum } from '../../format.js'
import { alertsError, liveAlerts } from '../../live-alerts.js'
import { alertsActive, connection } from '../../live.js'
import { hrefs } from '../../router.js'
import { Badge, Link, Note, Text, RelativeTime } from '../../ui/index.js'
import { groupAlerts } from '../alerts/group-alerts.js'
import { headlineFigures, healthSummary } from './headline-figures.js'
import { alertSummary } from '../alerts/alert-summary.js'

/** More than these are read on their page. */
const ALERTS_SHOWN = 4
/** Steps of two seconds: half a minute. */
const DEGRADED_STEPS = 15
/** From here on it is worth a look, even where every rule does what it says. */
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
        title={stats.store.isWell ? 'Decided without the store' : 'The store is not well'}
      >
        <p>
          <Text value={stats.store.state} max={200} />.{' '}
          {degraded > 0 && 'Some of the last calls were decided by the posture of their rule.'}
        </p>
      </Note>
    )
  }
  if (active === undefined) return <UnknownAlerts />
  if (hasNoRules) return <NoRulesNote />
  return <HealthyNote stats={stats} />
}

/** Nothing is known to be wrong. */
function HealthyNote({ stats }: { readonly stats: StatsView }) {
  const { share } = headlineFigures(stats.series, REFUSING_S)
  if (connection.value.state === 'lost') {
    return (
      <Note tone="neutral" title="Not known now">
        <p>The server does not answer. When it last did, no alert was active.</p>
      </Note>
    )
  }
  if (share >= REFUSED_SHARE_HIGH) {
    return (
      <Note tone="neutral" title={`${percent(share)} of the calls are refused`}>
        <p>Sluice and its store are well. Below stands which rules refuse, and whom.</p>
      </Note>
    )
  }
  return (
    <Note tone="allowed" title="All is well">
      <p>{healthSummary(stats)}</p>
    </Note>
  )
}

/** Alerts that could not be read are not none. */
function UnknownAlerts() {
  const activeCount = alertsActive.value ?? 0
  if (activeCount > 0) {
    return (
      <Note tone="degraded" title={activeAlertsText(activeCount)}>
        <p>
          {alertsError.value === undefined
            ? 'Reading what they say…'
            : 'What they say cannot be read.'}{' '}
          <Link href={hrefs.alerts}>Alerts</Link>
        </p>
      </Note>
    )
  }
  return alertsError.value === undefined ? (
    <Note tone="neutral" title="Reading the alerts…" />
  ) : (
    <Note tone="degraded" title="Alerts cannot be read">
      <p>Whether one is active is not known.</p>
    </Note>
  )
}

function NoRulesNote() {
  return (
    <Note tone="neutral" title="There is no rule: every call is allowed">
      <p>
        Nobody is limited before there is one. <Link href={hrefs.rules}>Rules</Link>
      </p>
    </Note>
  )
}

const activeAlertsText = (active: number): string =>
  active === 1 ? 'One alert is active' : `${active} alerts are active`

const pagingText = (pages: number, all: number): string => {
  if (pages === 0 || all === 1) return ''
  return pages === 1 ? ', one of them a page' : `, ${pages} of them pages`
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
                {others.length > 0 && <b> And {others.length} more like this.</b>}{' '}
                <span class="faint small nowrap">
                  <RelativeTime at={alert.since} />
                </span>
              </span>
            </li>
          ))}
      </ul>
      <p>
        <Link href={hrefs.alerts}>
          {active.length > ALERTS_SHOWN ? `All ${active.length} alerts` : 'What to do'}
        </Link>
      </p>
    </Note>
  )
}
