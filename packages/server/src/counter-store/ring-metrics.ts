/** Metrics of a ring: who holds the counters, and what moves between its members. */
import type { RingStats } from '@sluice/limiter/ring'
import type { Registry } from '../observability/metrics/registry.js'

export function registerRingMetrics(registry: Registry, stats: () => RingStats): void {
  registry.gauge('sluice_ring_members', 'Members of the ring that holds the counters.', 'min', () =>
    Math.max(1, stats().members.length),
  )
  registry.gauge(
    'sluice_ring_partitions',
    'Partitions of the counters that each member of the ring owns, of 128.',
    'max',
    () => stats().members.map(({ name, partitions }) => [[name], partitions] as const),
    ['member'],
  )
  registry.total(
    'sluice_ring_forwarded_total',
    'Takes sent to the member of the ring that holds their counters.',
    () => [...stats().forwarded].map(([name, takes]) => [[name], takes] as const),
    { labelNames: ['member'] },
  )
  registry.total(
    'sluice_ring_deputy_total',
    'Operations decided by the deputy because the owner of their counters was silent.',
    () => stats().deputy,
  )
  registry.total(
    'sluice_ring_handed_over_total',
    'Counters handed over to their owner: sent, received, or unknown, where no answer arrived.',
    () => Object.entries(stats().handedOver).map(([fate, count]) => [[fate], count] as const),
    { labelNames: ['fate'] },
  )
  registry.gauge(
    'sluice_ring_misplaced_counters',
    'Counters kept for an owner that is silent.',
    'sum',
    () => stats().misplaced,
  )
}
