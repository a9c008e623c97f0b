import { expect, test } from 'vitest'
import { registerListenerMetrics } from './listener-metrics.js'
import { createRegistry } from './registry.js'

const NONE = { overMax: 0, overAddressMax: 0, busyCalls: 0, stalled: 0 }

test('refused and closed connections are counted by listener and reason', () => {
  const registry = createRegistry()
  registerListenerMetrics(registry, {
    gateway: { counts: () => ({ overMax: 1, overAddressMax: 2, busyCalls: 3, stalled: 4 }) },
    admin: { counts: () => NONE },
  })
  const lines = registry.text().split('\n')
  expect(lines.filter((line) => line !== '' && !line.startsWith('#'))).toEqual([
    'sluice_address_busy_total{listener="admin"} 0',
    'sluice_address_busy_total{listener="gateway"} 3',
    'sluice_connections_refused_total{listener="admin",reason="address"} 0',
    'sluice_connections_refused_total{listener="admin",reason="total"} 0',
    'sluice_connections_refused_total{listener="gateway",reason="address"} 2',
    'sluice_connections_refused_total{listener="gateway",reason="total"} 1',
    'sluice_connections_stalled_total{listener="admin"} 0',
    'sluice_connections_stalled_total{listener="gateway"} 4',
  ])
})
