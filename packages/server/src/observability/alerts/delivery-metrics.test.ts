import { expect, test } from 'vitest'
import { readMetrics } from '../metrics/read-metrics.test-helper.js'
import { createRegistry } from '../metrics/registry.js'
import { type Deliveries, registerDeliveryMetrics } from './webhook.js'

test('deliveries are counted by result, and absent without a webhook', () => {
  const registry = createRegistry()
  const webhook: { deliveries?: Deliveries } = {}
  registerDeliveryMetrics(registry, () => webhook.deliveries)
  const read = () => readMetrics(registry.text()).get('sluice_alert_deliveries_total')?.samples
  expect(read()?.size).toBe(0)
  webhook.deliveries = { delivered: 7, refused: 1, failed: 2, dropped: 3 }
  const samples = [...(read() ?? [])].map(([labels, count]) => [
    JSON.parse(labels) as unknown,
    count,
  ])
  expect(samples).toContainEqual([[['result', 'delivered']], 7])
  expect(samples).toContainEqual([[['result', 'dropped']], 3])
})
