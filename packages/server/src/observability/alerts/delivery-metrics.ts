/** What became of what was posted. With several workers the first process posts, and tells this. */
import type { Registry } from '../metrics/registry.js'
import type { Deliveries } from './webhook.js'

/** `read` is undefined where there is no webhook. */
export function registerDeliveryMetrics(
  registry: Registry,
  read: () => Deliveries | undefined,
): void {
  registry.total(
    'sluice_alert_deliveries_total',
    'Beginnings and ends of alerts that were posted to the webhook, by what became of them.',
    () => Object.entries(read() ?? {}).map(([result, count]) => [[result], count]),
    { labelNames: ['result'] },
  )
}
