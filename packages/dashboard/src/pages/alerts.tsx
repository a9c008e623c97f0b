/** Active and resolved alerts. */
import type { AlertView } from '@sluice/client'
import { useEffect } from 'preact/hooks'
import { nowMs, usePolling } from '../clock.js'
import { clockMinute, count, duration, timeOf } from '../format.js'
import { alertsError, reloadAlerts, liveAlerts } from '../live-alerts.js'
import '../styles/overview.css'
import {
  Badge,
  Card,
  Empty,
  ErrorNote,
  Loading,
  Page,
  Table,
  Text,
  type Tone,
  RelativeTime,
} from '../ui/index.js'
import { type AlertGroup, groupAlerts } from './alerts/group-alerts.js'
import { alertDetails } from './alerts/alert-details.js'
import { alertSummary } from './alerts/alert-summary.js'

const POLL_MS = 15_000
const DETAILS_MAX = 12

export function AlertsPage() {
  const pollCount = usePolling(POLL_MS)
  useEffect(() => void reloadAlerts(), [pollCount])
  return (
    <Page
      title="Alerts"
      lead="Conditions that the nodes detected. Alerts also go to the log and to the webhook, if one is configured."
    >
      {liveAlerts.value !== undefined ? (
        <>
          <ActiveAlerts alerts={liveAlerts.value.active} />
          <ResolvedAlerts alerts={liveAlerts.value.recent} />
        </>
      ) : alertsError.value !== undefined ? (
        <ErrorNote error={alertsError.value} onRetry={() => void reloadAlerts()} />
      ) : (
        <Loading />
      )}
    </Page>
  )
}

const toneOf = ({ severity }: AlertView): Tone => (severity === 'page' ? 'refused' : 'degraded')

function ActiveAlerts({ alerts }: { readonly alerts: readonly AlertView[] }) {
  if (alerts.length === 0) {
    return (
      <Card title="Active">
        <Empty title="No active alerts." />
      </Card>
    )
  }
  return (
    <section class="stack stack-3" aria-label="Active alerts">
      {groupAlerts(alerts).map((group) => (
        <AlertCard key={`${group.first.node} ${group.first.id}`} group={group} />
      ))}
    </section>
  )
}

function AlertCard({ group: { first: alert, others } }: { readonly group: AlertGroup }) {
  const details = alertDetails(alert.details, nowMs.value).slice(0, DETAILS_MAX)
  return (
    <article class={`card alert tone-${toneOf(alert)}`}>
      <div class="alert-head">
        <Badge tone={toneOf(alert)}>{alert.severity}</Badge>
        <span class="mono small">{alert.alert}</span>
        <span class="faint small alert-duration">
          for {duration(nowMs.value - timeOf(alert.since))}, since <Since at={alert.since} />
        </span>
      </div>
      <h2 class="alert-summary">
        <Text value={alertSummary(alert)} max={300} />
      </h2>
      {details.length > 0 && (
        <dl class="alert-details">
          {details.map(({ name, text }) => (
            <div key={name}>
              <dt>
                <Text value={name} max={40} />
              </dt>
              <dd>
                <Text value={text} max={200} mono />
              </dd>
            </div>
          ))}
        </dl>
      )}
      {others.length > 0 && <SimilarAlerts alerts={others} />}
      <div class="alert-foot">
        <RunbookLink alert={alert} />
        <span class="faint small">
          reported by <Text value={alert.node} mono max={40} />
        </span>
      </div>
    </article>
  )
}

/** The other alerts of a group, collapsed. */
function SimilarAlerts({ alerts }: { readonly alerts: readonly AlertView[] }) {
  return (
    <details class="alert-others small">
      <summary>{count(alerts.length)} similar</summary>
      <ul>
        {alerts.map((alert) => (
          <li key={`${alert.node} ${alert.id}`}>
            <span class="alert-other">
              <Text value={alertSummary(alert)} max={300} />
            </span>
            <span class="faint nowrap">
              <RelativeTime at={alert.since} />
            </span>
          </li>
        ))}
      </ul>
    </details>
  )
}

function Since({ at }: { readonly at: string }) {
  return <RelativeTime at={at}>{clockMinute(at)}</RelativeTime>
}

/**
 * The runbook comes from a setting, so only a web address becomes a link. Anything else links to
 * the runbook that this server serves.
 */
function RunbookLink({ alert }: { readonly alert: AlertView }) {
  const isAddress = /^https?:\/\//i.test(alert.runbook)
  const localRunbook = `/runbook.html#${encodeURIComponent(alert.alert)}`
  return (
    <a href={isAddress ? alert.runbook : localRunbook} target="_blank" rel="noreferrer noopener">
      Runbook<span class="visually-hidden"> for {alert.alert} (opens in a new tab)</span>
    </a>
  )
}

function ResolvedAlerts({ alerts }: { readonly alerts: readonly AlertView[] }) {
  return (
    <Card flush title="Resolved" lead="Most recent first">
      <Table
        caption="Resolved alerts"
        rows={alerts}
        rowKey={({ node, id, since }) => `${node} ${id} ${since}`}
        empty={<Empty title="No resolved alerts.">Alerts appear here after they end.</Empty>}
        columns={[
          {
            head: 'Alert',
            isMain: true,
            cell: (alert) => (
              <div class="stacked-cell clamp">
                <Text value={alertSummary(alert)} max={200} />
                <span class="faint small mono">{alert.alert}</span>
              </div>
            ),
          },
          { head: 'Severity', cell: ({ severity }) => <Badge tone="neutral">{severity}</Badge> },
          { head: 'Started', isNumber: true, cell: ({ since }) => <RelativeTime at={since} /> },
          {
            head: 'Duration',
            isNumber: true,
            cell: ({ since, resolvedAt }) =>
              resolvedAt === null ? '–' : duration(timeOf(resolvedAt) - timeOf(since)),
          },
          { head: 'Runbook', isHeadHidden: true, cell: (alert) => <RunbookLink alert={alert} /> },
        ]}
      />
    </Card>
  )
}
