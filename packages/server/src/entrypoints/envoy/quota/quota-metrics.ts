/** The metrics of the rate limit quota service. Labels are fixed words. */
import type { Registry, Series } from '../../../observability/metrics/registry.js'

export interface QuotaSizes {
  /** Open streams; Envoy opens one for each filter configuration. */
  readonly streams: number
  readonly buckets: number
  /** Calls that are drawn, and not known to be spent. */
  readonly held: number
}

export class QuotaMetrics {
  /** Calls that proxies reported. */
  readonly allowed: Series
  readonly denied: Series
  /** Calls of leases. */
  readonly drawn: Series
  readonly spent: Series
  readonly returned: Series
  readonly lost: Series
  /** Calls that were admitted without a lease, and charged afterwards. */
  readonly beyond: Series
  readonly assignments: Readonly<Record<'lease' | 'allow' | 'deny' | 'abandon', Series>>
  readonly bucketsRefused: Series

  constructor(registry: Registry, sizes: () => QuotaSizes) {
    const reported = registry.counter(
      'sluice_rlqs_reported_calls_total',
      'Calls that proxies reported, by what they did with them: allowed or denied.',
      ['result'],
    )
    this.allowed = reported.labels('allowed')
    this.denied = reported.labels('denied')
    const leased = registry.counter(
      'sluice_rlqs_leased_calls_total',
      'Calls by what became of them: drawn from the limits as leases; of these spent, returned, or ' +
        'lost with their stream; and beyond, which proxies admitted without a lease.',
      ['fate'],
    )
    this.drawn = leased.labels('drawn')
    this.spent = leased.labels('spent')
    this.returned = leased.labels('returned')
    this.lost = leased.labels('lost')
    this.beyond = leased.labels('beyond')
    const assignments = registry.counter(
      'sluice_rlqs_assignments_total',
      'Assignments sent to proxies, by strategy: lease, allow, deny or abandon. Renewals count.',
      ['strategy'],
    )
    this.assignments = {
      lease: assignments.labels('lease'),
      allow: assignments.labels('allow'),
      deny: assignments.labels('deny'),
      abandon: assignments.labels('abandon'),
    }
    this.bucketsRefused = registry
      .counter(
        'sluice_rlqs_buckets_refused_total',
        'Reports of buckets that are not kept: above the most, or with text that is not UTF-8.',
      )
      .labels()
    registry.gauge(
      'sluice_rlqs_streams',
      'Open streams of the rate limit quota service.',
      'sum',
      () => sizes().streams,
    )
    registry.gauge(
      'sluice_rlqs_buckets',
      'Buckets of all streams that are assigned quotas.',
      'sum',
      () => sizes().buckets,
    )
    registry.gauge(
      'sluice_rlqs_held_calls',
      'Calls that are drawn for proxies, and not known to be spent.',
      'sum',
      () => sizes().held,
    )
  }
}
