/** The metrics of the rate limit service. Domains are labels only if they are configured. */
import type { Counter, Registry, Series } from '../../observability/metrics/registry.js'

/** The label of domains without a configuration or options: clients could send any number. */
const OTHER_DOMAINS = ''

export class EnvoyMetrics {
  readonly #unmatched: Counter
  readonly #byDomain = new Map<string, Series>()
  readonly #givesLost: Series
  readonly #inexact: Series

  constructor(registry: Registry) {
    this.#unmatched = registry.counter(
      'sluice_envoy_unmatched_descriptors_total',
      'Descriptors that matched no limit, by domain; domain="" for domains that are not configured.',
      ['domain'],
    )
    this.#givesLost = registry
      .counter('sluice_envoy_returns_lost_total', 'Negative hits that the store did not confirm.')
      .labels()
    this.#inexact = registry
      .counter(
        'sluice_envoy_inexact_limits_total',
        'Limits counted by fixed windows because the algorithm of their domain cannot count them.',
      )
      .labels()
  }

  countUnmatched(domain: string, isConfigured: boolean): void {
    const label = isConfigured ? domain : OTHER_DOMAINS
    let series = this.#byDomain.get(label)
    if (series === undefined) {
      series = this.#unmatched.labels(label)
      this.#byDomain.set(label, series)
    }
    series.inc()
  }

  countLostReturn(): void {
    this.#givesLost.inc()
  }

  countInexact(): void {
    this.#inexact.inc()
  }
}
