/** Compares the reference of metrics with what a server registers. */
import { readFileSync } from 'node:fs'
import type { StoreHealth } from '@sluice/limiter'
import type { RingStats } from '@sluice/limiter/ring'
import { expect, test } from 'vitest'
import { createMemoryLog } from '../log/memory-log.test-helper.js'
import { startTestServer } from '../../serve.test-helper.js'
import { registerRegionMetrics } from '../../counter-store/region-metrics.js'
import { registerRingMetrics } from '../../counter-store/ring-metrics.js'
import { registerStoreMetrics } from '../../counter-store/store-metrics.js'
import { createStoreObserver } from '../../counter-store/store-observer.js'
import { EnvoyMetrics } from '../../entrypoints/envoy/envoy-metrics.js'
import { registerXdsMetrics } from '../../entrypoints/envoy/open-config-source.js'
import { ReferenceMetrics } from '../../entrypoints/envoy/reference-metrics.js'
import { createRegistry } from './registry.js'
import { registerRestarts } from './restart-metrics.js'

const DOC = new URL('../../../../../docs/reference/metrics.md', import.meta.url)

const HEALTH: StoreHealth = {
  remote: { state: 'ready', nodes: [], fleet: { size: 1, ageMs: 0 } },
  memory: undefined,
  isPersistent: undefined,
}

const RING: RingStats = {
  members: [],
  forwarded: new Map(),
  deputy: 0,
  handedOver: { sent: 0, unknown: 0, received: 0 },
  misplaced: 0,
  differing: new Map(),
  isListed: true,
}

/** Names with their types, `a counter`. */
function typesOf(text: string): readonly string[] {
  return [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => `${name} ${type}`)
}

test('every metric has a line in the tables with its type, and no line lacks a metric', async () => {
  const server = await startTestServer({ config: { decisionLog: { file: 'decisions.log' } } })
  const inMemory = await (await fetch(`${server.admin}/metrics`)).text()
  await server.close()
  const registry = createRegistry()
  const { log } = createMemoryLog()
  createStoreObserver({ log, clock: { now: () => 0 }, registry })
  registerStoreMetrics(registry, { health: () => HEALTH, name: 'redis' })
  registerRingMetrics(registry, () => RING)
  registerRegionMetrics(registry, { regionStats: () => [], overage: () => 0 })
  registerXdsMetrics(registry, { isConnected: () => true, streamsLost: () => 0 })
  registerRestarts(registry)
  const envoy = [new EnvoyMetrics(registry), new ReferenceMetrics(registry)]
  expect(envoy).toHaveLength(2)
  const all = [...typesOf(inMemory), ...typesOf(registry.text())]
  // Those of envoyproxy/ratelimit are described together.
  const registered = new Set(all.filter((name) => name.startsWith('sluice_')))
  const doc = readFileSync(DOC, 'utf8')
  const listed = [...doc.matchAll(/^\| `(sluice_\w+)[^`]*` *\| (\w+) /gm)].map(
    ([, name, type]) => `${name} ${type}`,
  )
  expect(listed.toSorted()).toEqual([...registered].toSorted())
})
