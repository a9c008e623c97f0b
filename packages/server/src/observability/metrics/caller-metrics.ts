/** How many callers each rule has, told when the metrics are read. */
import type { Registry } from './registry.js'

export interface CallerMetricsDeps {
  /** Rules that are not counted are left out. */
  readonly estimates: () => Iterable<readonly [rule: string, callers: number]>
}

export function registerCallersMetric(registry: Registry, distinct: CallerMetricsDeps): void {
  registry.gauge(
    'sluice_callers',
    'Distinct callers of a rule in the last five minutes, as this node saw them; estimated.',
    'max',
    () => Array.from(distinct.estimates(), ([rule, callers]) => [[rule], Math.round(callers)]),
    ['rule'],
  )
}
