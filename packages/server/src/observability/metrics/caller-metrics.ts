/** Registers the number of distinct callers of each rule. */
import type { Registry } from './registry.js'

export interface CallerMetricsDeps {
  /** Leaves out rules that are not counted. */
  readonly estimates: () => Iterable<readonly [rule: string, callers: number]>
}

export function registerCallersMetric(registry: Registry, distinct: CallerMetricsDeps): void {
  registry.gauge(
    'sluice_callers',
    'Estimated distinct callers of a rule on this node in the last five minutes.',
    'max',
    () => Array.from(distinct.estimates(), ([rule, callers]) => [[rule], Math.round(callers)]),
    ['rule'],
  )
}
