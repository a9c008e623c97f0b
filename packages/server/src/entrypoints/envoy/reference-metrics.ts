/**
 * The metrics of envoyproxy/ratelimit, under their Prometheus names, so that dashboards and alerts
 * made for it go on working.
 *
 * A hit is near the limit above 0.8 of it; what is above the limit is over it. Labels come from the
 * configuration. Where it asks for values of requests in them (`detailed_metric`,
 * `value_to_metric`), and for limits that requests bring along, only so many are told apart; the
 * others count under the path of their limit, or under their domain.
 */
import type { Counter, Registry, Series } from '../../observability/metrics/registry.js'
import type { ReadableHistogram } from '../../observability/metrics/histogram.js'
import type { EnvoyConfigSource } from './config/config-source.js'
import { sanitizeStat } from './config/stat-name.js'
import type { DescriptorLimit } from './descriptor-limits.js'
import type { RequestDescriptor } from './request-descriptor.js'

/** As many as rules have series at most. */
const PATHS_MAX = 20_000
/** Paths that have values of requests in them. */
const VALUE_PATHS_MAX = 1000
/** The share of a limit from which on hits are near it, unless it is configured. */
const NEAR_LIMIT_RATIO = 0.8
const LABELS = ['domain', 'key1', 'key2']
const METHOD = 'ShouldRateLimit'
/** From 50 us, to the second that nobody waits for. */
const SECONDS = [0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1]

interface LimitSeries {
  readonly path: string
  readonly total: Series
  readonly over: Series
  readonly near: Series
  readonly within: Series
  readonly shadow: Series
  readonly negative: Series
}

interface LimitCounters {
  readonly total: Counter
  readonly over: Counter
  readonly near: Counter
  readonly within: Counter
  readonly shadow: Counter
  readonly negative: Counter
}

export class ReferenceMetrics {
  readonly requests: Series
  readonly seconds: ReadableHistogram
  readonly #registry: Registry
  readonly #counters: LimitCounters
  readonly #errors: Counter
  readonly #series = new Map<string, LimitSeries>()
  /** The series that the last descriptor of a limit counted in, which the next mostly does too. */
  readonly #last = new WeakMap<object, LimitSeries>()
  readonly #nearLimitRatio: number
  #valuePaths = 0
  #folded = 0

  constructor(registry: Registry, nearLimitRatio = NEAR_LIMIT_RATIO) {
    this.#registry = registry
    this.#nearLimitRatio = Math.fround(nearLimitRatio)
    const counter = (name: string, help: string) =>
      registry.foreignCounter(`ratelimit_service_rate_limit_${name}`, help, LABELS)
    this.#counters = {
      total: counter('total_hits', 'Hits of descriptors with a limit.'),
      over: counter('over_limit', 'Hits above their limit.'),
      near: counter('near_limit', 'Hits above 0.8 of their limit, and not above it.'),
      within: counter('within_limit', 'Hits of descriptors that were not over their limit.'),
      shadow: counter('shadow_mode', 'Hits over a limit in shadow mode.'),
      negative: counter('total_negative_hits', 'Hits that descriptors gave back.'),
    }
    this.#errors = registry.foreignCounter(
      'ratelimit_service_should_rate_limit_error',
      'Requests that were answered with an error.',
      ['err_type'],
    )
    this.requests = registry
      .foreignCounter('ratelimit_service_total_requests', 'Rate limit requests.', ['grpc_method'])
      .labels(METHOD)
    this.seconds = registry
      .labelledHistogram(
        'ratelimit_service_response_time_seconds',
        'Time to decide a request in seconds. Requests in memory are sampled.',
        SECONDS,
        ['grpc_method'],
      )
      .labels(METHOD)
    registry.total(
      'sluice_envoy_folded_hits_total',
      'Hits counted under the path of their limit, because too many values had paths of their own.',
      () => this.#folded,
    )
  }

  /** Counts configurations that were loaded, and those that had errors. */
  followLoads(source: Pick<EnvoyConfigSource, 'loads' | 'failures'>): void {
    const total = (result: string, help: string, read: () => number) => {
      const name = `ratelimit_service_config_load_${result}`
      // All workers read the same directory, or follow the same control plane.
      this.#registry.total(name, help, read, { isForeign: true, merge: 'max' })
    }
    total('success', 'Configurations that became active.', () => source.loads())
    total('error', 'Configurations that were not activated because of errors.', () =>
      source.failures(),
    )
  }

  countError(): void {
    this.#errors.labels('service_error').inc()
  }

  /** `remaining` is what is left, and `left` what was left before a descriptor that is over. */
  record(each: RequestDescriptor, isOver: boolean, remaining: number, left: number): void {
    const { selected, limit, hits, isReturn, metricPath } = each
    if (limit === undefined) return
    const last = this.#last.get(limit)
    const series = last?.path === metricPath ? last : this.seriesOf(each, limit)
    if (isReturn) {
      series.negative.inc(hits)
      return
    }
    const { requestsPerUnit: most } = limit.current
    const nearFrom = Math.floor(Math.fround(Math.fround(most) * this.#nearLimitRatio))
    if (hits > 0) series.total.inc(hits)
    if (isOver) {
      const above = Math.max(0, Math.min(hits, hits - left))
      // Hits of an ordinary descriptor are refused all together, and none of them is counted.
      const isCounted = each.isMetered || limit.countsFirst
      series.over.inc(isCounted ? above : hits)
      if (isCounted && left > 0) series.near.inc(most - Math.max(nearFrom, most - left))
      if (selected?.node.isShadow === true) series.shadow.inc(hits)
      return
    }
    const after = most - remaining
    if (after > nearFrom) series.near.inc(Math.min(hits, after - nearFrom))
    series.within.inc(hits)
  }

  private seriesOf(
    { selected, hits, metricPath }: RequestDescriptor,
    limit: DescriptorLimit,
  ): LimitSeries {
    const known = this.#series.get(metricPath)
    if (known !== undefined) {
      this.#last.set(limit, known)
      return known
    }
    const ownPath = selected === undefined ? domainOf(metricPath) : sanitizeStat(selected.node.path)
    const hasValues = metricPath !== ownPath
    const isFull = hasValues && this.#valuePaths >= VALUE_PATHS_MAX
    if (isFull) this.#folded += hits
    const path = isFull ? ownPath : metricPath
    const made = this.#series.get(path) ?? this.open(path)
    if (hasValues && !isFull) this.#valuePaths++
    if (!isFull) this.#last.set(limit, made)
    return made
  }

  /** Opens the series at 0, so that an increase shows the first hit. */
  private open(path: string): LimitSeries {
    const labels = this.#series.size < PATHS_MAX ? labelsOf(path) : OTHER
    const { total, over, near, within, shadow, negative } = this.#counters
    const series: LimitSeries = {
      path,
      total: total.labels(...labels),
      over: over.labels(...labels),
      near: near.labels(...labels),
      within: within.labels(...labels),
      shadow: shadow.labels(...labels),
      negative: negative.labels(...labels),
    }
    if (this.#series.size < PATHS_MAX) this.#series.set(path, series)
    return series
  }
}

const OTHER = ['other', '', '']

const domainOf = (path: string) => labelsOf(path)[0] ?? ''

/** Domain and the first two levels; deeper ones count together. */
function labelsOf(path: string): readonly string[] {
  const [domain = '', key1 = '', key2 = ''] = path.split('.')
  return [domain, key1, key2]
}
