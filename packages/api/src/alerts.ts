/** Alerts: every name with its severity, and one alert as the API sends it. */
import { z } from 'zod'
import { instant, type View } from './schema.js'

/** Every alert, in the order of messages. `page` wakes the person on call; `ticket` can wait. */
export const ALERT_SEVERITIES = {
  'breaker-open': 'page',
  degraded: 'page',
  availability: 'page',
  'store-refused': 'page',
  'fleet-unknown': 'ticket',
  'store-slow': 'ticket',
  'clock-offset': 'ticket',
  'clock-spread': 'ticket',
  'store-memory': 'page',
  'store-evictions': 'page',
  'rules-stale': 'page',
  'caller-exhausted': 'ticket',
  'refusals-anomaly': 'ticket',
  'callers-anomaly': 'ticket',
  // Callers whose calls were admitted get errors, and nothing in front of the gateway may notice.
  'upstream-failing': 'page',
  // Shedding keeps the service up for the calls that matter; that those are lost cannot wait.
  shedding: 'ticket',
  'shedding-kept': 'page',
  // Deputies decide meanwhile; a limit may begin anew for the callers of the member.
  'ring-peer-silent': 'ticket',
  'ring-views-differ': 'ticket',
  // Each side of a cut has the whole limit, so callers get more, and nobody is refused.
  'region-unreachable': 'ticket',
  'region-overage': 'ticket',
  'region-clocks': 'ticket',
} as const satisfies Readonly<Record<string, 'page' | 'ticket'>>

export const ALERT_NAMES = Object.keys(ALERT_SEVERITIES) as readonly AlertName[]

export const alertName = z.enum(ALERT_NAMES)
export type AlertName = keyof typeof ALERT_SEVERITIES

export const alertView = z
  .object({
    id: z.string(),
    alert: alertName,
    severity: z.enum(['page', 'ticket']),
    subject: z.string(),
    summary: z.string(),
    details: z.record(z.string(), z.union([z.string(), z.number(), z.array(z.string())])),
    since: instant,
    resolvedAt: instant.nullable(),
    node: z.string(),
    runbook: z.string(),
  })
  .meta({ id: 'Alert' })
export type AlertView = View<typeof alertView>

export const alertsView = z
  .object({ active: z.array(alertView), recent: z.array(alertView) })
  .meta({ id: 'Alerts' })
export type AlertsView = View<typeof alertsView>
