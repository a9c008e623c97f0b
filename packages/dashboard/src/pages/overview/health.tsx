/** Whether there is anything to do, and what. */
import type { AlertView, StatsView } from '@sluice/client'
import { percent, sum } from '../../format.js'
import { alertsError, seenAlerts } from '../../live-alerts.js'
import { alertsActive, connection } from '../../live.js'
import { hrefs } from '../../router.js'
import { Badge, Link, Note, Text, When } from '../../ui/index.js'
import { alikeOf } from '../alerts/alike.js'
import { pulseOf, sentenceOf } from './pulse.js'
import { toldOf } from '../alerts/told.js'

/** More than these are read on their page. */
const ALERTS_SHOWN = 4
/** Steps of two seconds: half a minute. */
const DEGRADED_STEPS = 15
/** From here on it is worth a look, even where every rule does what it says. */
const REFUSED_SHARE_HIGH = 0.2
const REFUSING_S = 30

interface HealthProps {
  readonly seen: StatsView
  readonly hasNoRules: boolean
}

export function Health({ seen, hasNoRules }: HealthProps) {
  const active = seenAlerts.value?.active
  const degraded = sum(seen.series.degraded.slice(-DEGRADED_STEPS))
  const isWell = seen.store.isWell && degraded === 0
  if (active !== undefined && active.length > 0) return <Alerts alerts={active} />
  if (!isWell) {
    return (
      <Note
        tone="degraded"
        title={seen.store.isWell ? 'Decided without the store' : 'The store is not well'}
      >
        <p>
          <Text value={seen.store.state} max={200} />.{' '}
          {degraded > 0 && 'Some of the last calls were decided by the posture of their rule.'}
        </p>
      </Note>
    )
  }
  if (active === undefined) return <Unknown />
  if (hasNoRules) return <NoRules />
  return <Well seen={seen} />
}

/** Nothing is known to be wrong. */
function Well({ seen }: { readonly seen: StatsView }) {
  const { share } = pulseOf(seen.series, REFUSING_S)
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
      <p>{sentenceOf(seen)}</p>
    </Note>
  )
}

/** Alerts that could not be read are not none. */
function Unknown() {
  const told = alertsActive.value ?? 0
  if (told > 0) {
    return (
      <Note tone="degraded" title={activeText(told)}>
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

function NoRules() {
  return (
    <Note tone="neutral" title="There is no rule: every call is allowed">
      <p>
        Nobody is limited before there is one. <Link href={hrefs.rules}>Rules</Link>
      </p>
    </Note>
  )
}

const activeText = (active: number): string =>
  active === 1 ? 'One alert is active' : `${active} alerts are active`

const pagesText = (pages: number, all: number): string => {
  if (pages === 0 || all === 1) return ''
  return pages === 1 ? ', one of them a page' : `, ${pages} of them pages`
}

function Alerts({ alerts: active }: { readonly alerts: readonly AlertView[] }) {
  const pages = active.filter(({ severity }) => severity === 'page').length
  return (
    <Note
      tone={pages > 0 ? 'refused' : 'degraded'}
      title={`${activeText(active.length)}${pagesText(pages, active.length)}`}
    >
      <ul class="health-alerts">
        {alikeOf(active)
          .slice(0, ALERTS_SHOWN)
          .map(({ first: alert, others }) => (
            <li key={alert.id}>
              <Badge tone={alert.severity === 'page' ? 'refused' : 'degraded'}>
                {alert.severity}
              </Badge>
              <span class="health-what">
                <Text value={toldOf(alert)} max={200} />
                {others.length > 0 && <b> And {others.length} more like this.</b>}{' '}
                <span class="faint small nowrap">
                  <When at={alert.since} />
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
