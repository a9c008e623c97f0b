import { expect, test } from 'vitest'
import type { AlertName } from '../alerts/alert.js'
import { ALERT_NAMES } from '../alerts/alert-kinds.js'
import { registerAlertMetrics } from './alert-metrics.js'
import { readMetrics, valueOf } from './read-metrics.test-helper.js'
import { createRegistry } from './registry.js'

test('every alert is reported as 0 from the start', () => {
  const registry = createRegistry()
  registerAlertMetrics(registry, { active: () => [], totals: () => new Map() })
  const read = readMetrics(registry.text())
  for (const alert of ALERT_NAMES) {
    expect(valueOf(read, 'sluice_alert_active', { alert })).toBe(0)
    expect(valueOf(read, 'sluice_alerts_total', { alert })).toBe(0)
  }
})

test('active alerts are counted by name, and totals never decrease', () => {
  const registry = createRegistry()
  let active: { readonly alert: AlertName }[] = [
    { alert: 'degraded' },
    { alert: 'breaker-open' },
    { alert: 'degraded' },
  ]
  const begun = new Map<AlertName, number>([
    ['degraded', 5],
    ['breaker-open', 1],
  ])
  registerAlertMetrics(registry, { active: () => active, totals: () => begun })
  const count = (name: string, alert: AlertName) =>
    valueOf(readMetrics(registry.text()), name, { alert })
  expect(count('sluice_alert_active', 'degraded')).toBe(2)
  expect(count('sluice_alert_active', 'breaker-open')).toBe(1)
  active = []
  expect(count('sluice_alert_active', 'degraded')).toBe(0)
  expect(count('sluice_alerts_total', 'degraded')).toBe(5)
})
