/** Metrics of what the other regions know. */
import type { RegionalStore, RegionStats } from '@sluice/limiter'
import type { Registry } from '../observability/metrics/registry.js'

const FATES = ['sent', 'unknown', 'dropped'] as const

export function registerRegionMetrics(
  registry: Registry,
  store: Pick<RegionalStore, 'regionStats' | 'overage'>,
): void {
  const stats = () => store.regionStats()
  const each = (read: (region: RegionStats) => number | undefined) =>
    stats().flatMap((region) => {
      const value = read(region)
      return value === undefined ? [] : [[[region.region], value] as const]
    })
  registry.gauge(
    'sluice_region_lag_seconds',
    'Age of the oldest unit that another region has not confirmed; 0 for none.',
    'max',
    () => each(({ lagMs }) => lagMs / 1000),
    ['region'],
  )
  registry.gauge(
    'sluice_region_last_seen_seconds',
    'Time since the last new heartbeat of another region was read in the own one.',
    'min',
    () => each(({ ageMs }) => (ageMs === undefined ? undefined : ageMs / 1000)),
    ['region'],
  )
  registry.gauge(
    'sluice_region_pending',
    'Counters of which another region has not been told everything.',
    'sum',
    () => each(({ pending }) => pending),
    ['region'],
  )
  registry.gauge(
    'sluice_region_clock_offset_seconds',
    'How far the clock of the store of another region is ahead of that of the own one.',
    'furthest',
    () => each(({ clock }) => clock?.offsetSeconds),
    ['region'],
  )
  registry.gauge(
    'sluice_region_over_share',
    'Largest share that all regions admitted beyond a merged limit, in a sample of the last second.',
    'max',
    () => store.overage(),
  )
  registry.total(
    'sluice_region_units_total',
    'Units spent here by what became of their report to another region.',
    () =>
      stats().flatMap(({ region, fates }) =>
        FATES.map((fate) => [[region, fate], fates[fate]] as const),
      ),
    { labelNames: ['region', 'fate'] },
  )
}
