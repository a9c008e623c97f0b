/** Whether there is anything to do, and what. */
import type { AlertView, StatsView } from '@sluice/client'
import { percent, sum } from '../../format.js'
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
  /** Undefined: not known yet. */
  readonly alerts: readonly AlertView[] | undefined
}

export function Health({ seen, alerts }: HealthProps) {
  const degraded = sum(seen.series.degraded.slice(-DEGRADED_STEPS))
  const isWell = seen.store.isWell && degraded === 0
  if (alerts !== undefined && alerts.length > 0) return <Alerts alerts={alerts} />
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
  const { share } = pulseOf(seen.series, REFUSING_S)
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

function Alerts({ alerts }: { readonly alerts: readonly AlertView[] }) {
  const pages = alerts.filter(({ severity }) => severity === 'page').length
  return (
    <Note
      tone={pages > 0 ? 'refused' : 'degraded'}
      title={alerts.length === 1 ? 'One alert is active' : `${alerts.length} alerts are active`}
    >
      <ul class="health-alerts">
        {alikeOf(alerts)
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
          {alerts.length > ALERTS_SHOWN ? `All ${alerts.length} alerts` : 'What to do'}
        </Link>
      </p>
    </Note>
  )
}
