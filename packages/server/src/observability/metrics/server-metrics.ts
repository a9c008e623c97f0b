/** Registers the metrics of a server that are not about single decisions. */
import type { Decider } from '../../decide.js'
import type { WebSocketCounts } from '../../entrypoints/gateway/upgrade.js'
import type { UpstreamHealth } from '../../entrypoints/gateway/upstream-health.js'
import type { Identifier } from '../../identity/identify.js'
import type { DegradedLog } from '../log/degraded-log.js'
import type { Log } from '../log/logger.js'
import type { RefusalLog } from '../log/refusal-log.js'
import { registerCoordinationMetrics } from './coordination-metrics.js'
import type { Registry } from './registry.js'
import { registerReservationMetrics } from './reservation-metrics.js'
import type { RuleFollower } from '../../rules/sync/rule-follower.js'

export interface ServerMetricsDeps {
  readonly decider: Decider
  readonly ruleFollower: RuleFollower
  readonly refusals: RefusalLog
  readonly degraded: DegradedLog
  readonly upstreamHealth: Pick<UpstreamHealth, 'dropped'>
  readonly identifier: Identifier
  readonly log: Log
  readonly held: () => number
  readonly websockets: () => number
  readonly websocketCounts: () => WebSocketCounts
}

export function registerServerMetrics(registry: Registry, deps: ServerMetricsDeps): void {
  const { decider, ruleFollower, refusals, degraded, upstreamHealth, identifier } = deps
  const { log, held, websockets, websocketCounts } = deps
  registerCoordinationMetrics(registry, {
    stats: () => decider.limiter.stats?.coordination,
    catalog: ruleFollower.catalog,
  })
  registerReservationMetrics(registry, () => decider.limiter.reservations)
  registry.gauge('sluice_rules_version', 'Version of the active rules.', 'max', () =>
    ruleFollower.version(),
  )
  registry.gauge(
    'sluice_rules_age_seconds',
    'Seconds since the rule store last confirmed the active rules; 0 while it is reachable.',
    'max',
    () => ruleFollower.ageSeconds(),
  )
  registry.gauge(
    'sluice_rules_read_only',
    '1 while the rule store is read-only because its disk cannot be written, otherwise 0.',
    'max',
    () => (ruleFollower.status()?.isReadOnly === true ? 1 : 0),
  )
  registry.total(
    'sluice_rules_failures_total',
    'Rule sets and rules that could not be activated.',
    () => ruleFollower.failures(),
  )
  registry.total(
    'sluice_log_dropped_total',
    'Refusals, degraded decisions, upstream failures and log lines that were not logged.',
    () => refusals.dropped() + degraded.dropped() + upstreamHealth.dropped() + log.dropped(),
  )
  registry.total(
    'sluice_identity_problems_total',
    'Calls with invalid credentials or identity headers, by reason.',
    () => Object.entries(identifier.stats().problems).map(([name, count]) => [[name], count]),
    { labelNames: ['reason'] },
  )
  registry.total(
    'sluice_forwarded_ignored_total',
    'Forwarding headers ignored because they did not come from a trusted proxy.',
    () => identifier.stats().ignoredForwarded,
  )
  registry.gauge(
    'sluice_held_calls',
    'Requests currently delayed by a leaky bucket or `wait`.',
    'sum',
    held,
  )
  registry.gauge(
    'sluice_in_flight',
    'Places held by calls in flight, by the rule with `algorithm: concurrency` that counts them.',
    'sum',
    () => [...decider.limiter.inFlight].map(([rule, { inFlight }]) => [[rule], inFlight]),
    ['rule'],
  )
  registry.gauge('sluice_websockets', 'Open WebSockets.', 'sum', websockets)
  registry.total(
    'sluice_websockets_refused_total',
    'WebSockets refused because their upstream had reached its maximum.',
    () => websocketCounts().refused,
  )
  registry.total(
    'sluice_websockets_idle_total',
    'WebSockets closed after timeouts.websocketIdle without traffic.',
    () => websocketCounts().idle,
  )
}
