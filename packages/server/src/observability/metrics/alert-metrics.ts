/** How many alerts are active, and how many there were, by the names that there are. */
import type { AlertName } from '../alerts/alert.js'
import { ALERT_NAMES } from '../alerts/alert-kinds.js'
import type { Registry } from './registry.js'

export interface AlertMetricsDeps {
  /** Those that go on. */
  readonly active: () => Iterable<{ readonly alert: AlertName }>
  /** How often each has begun since the start; those that never did may be missing. */
  readonly totals: () => ReadonlyMap<AlertName, number>
}

export function registerAlertMetrics(
  registry: Registry,
  { active, totals }: AlertMetricsDeps,
): void {
  registry.gauge(
    'sluice_alert_active',
    'Alerts that are active: one for each rule, caller or node of the store that it is about.',
    'max',
    () => {
      const counts = new Map<AlertName, number>()
      for (const { alert } of active()) counts.set(alert, (counts.get(alert) ?? 0) + 1)
      return samplesOf(counts)
    },
    ['alert'],
  )
  registry.total('sluice_alerts_total', 'Alerts that have begun.', () => samplesOf(totals()), {
    labelNames: ['alert'],
  })
}

/** Every name from the start: as the first value of a series a beginning would go unseen. */
function samplesOf(counts: ReadonlyMap<AlertName, number>) {
  return ALERT_NAMES.map((alert) => [[alert], counts.get(alert) ?? 0] as const)
}
