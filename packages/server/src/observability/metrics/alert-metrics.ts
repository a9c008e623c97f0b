/** Registers active alerts and alert totals, by name. */
import type { AlertName } from '../alerts/alert.js'
import { ALERT_NAMES } from '../alerts/alert-kinds.js'
import type { Registry } from './registry.js'

export interface AlertMetricsDeps {
  readonly active: () => Iterable<{ readonly alert: AlertName }>
  /** How often each alert has begun since the start; those that never did may be missing. */
  readonly totals: () => ReadonlyMap<AlertName, number>
}

export function registerAlertMetrics(
  registry: Registry,
  { active, totals }: AlertMetricsDeps,
): void {
  registry.gauge(
    'sluice_alert_active',
    'Active alerts, one for each rule, caller, upstream or store node concerned.',
    'max',
    () => {
      const counts = new Map<AlertName, number>()
      for (const { alert } of active()) counts.set(alert, (counts.get(alert) ?? 0) + 1)
      return samplesOf(counts)
    },
    ['alert'],
  )
  registry.total('sluice_alerts_total', 'Alerts begun.', () => samplesOf(totals()), {
    labelNames: ['alert'],
  })
}

/** Reports every name from the start, because `increase` misses the first sample of a series. */
function samplesOf(counts: ReadonlyMap<AlertName, number>) {
  return ALERT_NAMES.map((alert) => [[alert], counts.get(alert) ?? 0] as const)
}
