/**
 * Wires statistics, alerts, the decision log and caller metrics to the decisions of this process.
 * All of them run after a decision is made; none can change or delay it.
 */
import type { Call, Decision } from '@sluice/core'
import { type AlertWatch, openAlerts } from './alerts/alert-watch.js'
import type { AlertSink } from './alerts/alert.js'
import { openWebhook, registerDeliveryMetrics } from './alerts/webhook.js'
import { PeerClocks } from './alerts/peer-clocks.js'
import type { WallClock } from '../lib/wall-clock.js'
import type { Config } from '../config/config.js'
import { openDecisionLog } from './decision-log/decision-log.js'
import type { UpstreamHealth } from '../entrypoints/gateway/upstream-health.js'
import type { Log } from './log/logger.js'
import { createThrottle } from './log/throttle.js'
import { messageOf } from '../lib/message-of.js'
import { registerAlertMetrics } from './metrics/alert-metrics.js'
import { registerCallersMetric } from './metrics/caller-metrics.js'
import type { DecisionMetrics } from './metrics/decision-metrics.js'
import type { Registry } from './metrics/registry.js'
import { createRemainingMetrics } from './metrics/remaining-metrics.js'
import type { SheddingMetrics } from './metrics/shedding-metrics.js'
import type { NodeInfo } from '../rules/sync/open-rule-follower.js'
import { nodeProblem, type RuleFollower } from '../rules/sync/rule-follower.js'
import { singleNodeExchange } from './stats/snapshot-exchange.js'
import { CallerTracker } from './stats/callers/caller-tracker.js'
import { HoursFile } from './stats/callers/hours-at-limit-file.js'
import { DistinctCallers } from './stats/distinct-callers.js'
import { FleetStats } from './stats/fleet-stats.js'
import { type CallsInFlight, describeInFlight } from './stats/in-flight.js'
import type { HistogramReader } from './stats/latency.js'
import { nameProtection } from './stats/name-protection.js'
import type { AlertLists } from './stats/node-snapshot.js'
import { NodeStats } from './stats/node-stats.js'
import { storeSnapshot } from './stats/store-snapshot.js'
import type { CounterStore } from '../counter-store/open-store.js'

/** What only a worker has. */
export interface WorkerDeps {
  /** Counts from 0; a restarted worker keeps its place. */
  readonly place: number
  /** Sends alerts to the first process, which posts them for all workers. */
  readonly alerts: AlertSink
}

export interface ObservabilityDeps {
  readonly registry: Registry
  readonly log: Log
  readonly clock: WallClock
  readonly node: NodeInfo
  readonly ruleFollower: RuleFollower
  readonly counterStore: CounterStore
  readonly metrics: DecisionMetrics
  readonly shedding: Pick<SheddingMetrics, 'totals' | 'priorities'>
  /** Calls in flight by rule. */
  readonly inFlight: () => CallsInFlight
  readonly upstreamHealth: Pick<UpstreamHealth, 'counts'>
  /** How long decisions took, in seconds. */
  readonly decisionTimes: HistogramReader
  /** Undefined without workers. */
  readonly worker: WorkerDeps | undefined
}

export interface Observability {
  onDecision(decision: Decision, call: Call): void
  readonly fleet: FleetStats
  readonly alerts: AlertWatch
  close(): Promise<void>
}

const TICK_MS = 1000

export async function openObservability(
  config: Config,
  deps: ObservabilityDeps,
): Promise<Observability> {
  const { registry, log, clock, counterStore, worker } = deps
  const place = worker?.place ?? 0
  const suffix = worker === undefined ? undefined : `.w${place}`
  const { decisionLog: logConfig } = config
  const decisionLog =
    logConfig && (await openDecisionLog({ config: logConfig, suffix, clock, log, registry }))
  const callers = new CallerTracker(clock.now())
  const names = nameProtection(config, counterStore.secret)
  const { dataDir, workers: processes } = config
  const hours = new HoursFile({ callers, dataDir, names, log, clock, index: place, processes })
  hours.restore()
  hours.start()
  const distinct = new DistinctCallers()
  registerCallersMetric(registry, distinct)
  // Alerts read the fleet's clocks and the fleet shows the alerts. The first read is at a tick.
  const peers = new PeerClocks(() => fleet.peerClocks())
  const alerts = watchAlerts(config, deps, { callers, distinct, peers })
  const ownAlerts = () => ({ active: alerts.active(), recent: alerts.recent() })
  const stats = openStats(deps, { callers, distinct, alerts: ownAlerts })
  const exchange = counterStore.store.exchange ?? singleNodeExchange()
  const onProblem = (error: unknown) =>
    log.warn({ problem: messageOf(error) }, 'failed to publish node statistics')
  const fleet = new FleetStats({ own: stats, exchange, names, clock, alerts: ownAlerts, onProblem })
  fleet.start()
  const guard = createGuard(log, clock)
  const timer = setInterval(() => {
    const nowMs = clock.now()
    guard(() => stats.tick(nowMs))
    guard(() => alerts.tick(nowMs))
  }, TICK_MS).unref()
  return {
    fleet,
    alerts,
    onDecision(decision, call) {
      // The decision is already made: an error in statistics must not reach the waiting caller.
      try {
        stats.onDecision(decision, call)
        decisionLog?.onDecision(decision, call)
      } catch (error) {
        guard(() => {
          throw error
        })
      }
    },
    async close() {
      clearInterval(timer)
      await Promise.all([fleet.close(), alerts.close(), hours.close(), decisionLog?.close()])
    },
  }
}

/** Runs observers so that a bug in one is logged, and fails no decision and no process. */
function createGuard(log: Log, clock: WallClock): (run: () => void) => void {
  const throttle = createThrottle(clock)
  return (run) => {
    try {
      run()
    } catch (error) {
      const passed = throttle.pass('statistics')
      if (passed === undefined) return
      log.error({ problem: messageOf(error), ...passed }, 'failed to record statistics')
    }
  }
}

interface CallerSources {
  readonly callers: CallerTracker
  readonly distinct: DistinctCallers
}

function openStats(
  deps: ObservabilityDeps,
  sources: CallerSources & { readonly alerts: () => AlertLists },
): NodeStats {
  const { registry, clock, node, ruleFollower, counterStore, metrics, decisionTimes } = deps
  const { shedding, inFlight } = deps
  return new NodeStats({
    node,
    rulesVersion: () => ruleFollower.version(),
    problem: () => nodeProblem(ruleFollower),
    metrics,
    decisionTimes,
    storeTimes: counterStore.times,
    storeHealth: () => storeSnapshot(counterStore),
    priorities: () => shedding.priorities(),
    inFlight: () => describeInFlight(inFlight(), ruleFollower.catalog),
    ...sources,
    remaining: createRemainingMetrics(registry),
    nowMs: clock.now(),
  })
}

function protectsCapacity({ catalog }: RuleFollower, rule: string): boolean {
  return catalog.rule(rule)?.document['protects'] === 'capacity'
}

function watchAlerts(
  config: Config,
  deps: ObservabilityDeps,
  sources: CallerSources & { readonly peers: PeerClocks },
): AlertWatch {
  const {
    registry,
    log,
    clock,
    node,
    ruleFollower,
    counterStore,
    metrics,
    shedding,
    upstreamHealth,
    worker,
  } = deps
  const webhook = worker === undefined ? openWebhook(config, log) : undefined
  if (worker === undefined) registerDeliveryMetrics(registry, () => webhook?.deliveries())
  const alerts = openAlerts({
    config: config.alerts,
    clock,
    log,
    node: node.id,
    host: node.host,
    reportsOwnClock: worker === undefined || worker.place === 0,
    sink: worker?.alerts ?? webhook,
    inputs: {
      storeHealth: () => counterStore.store.health?.(),
      connectionFailures: () => counterStore.connectionFailures(),
      latencies: () => counterStore.batchLatency,
      peerClocks: (nowMs) => sources.peers.latest(nowMs),
      eachRule: (visit) => metrics.eachRule(visit),
      matched: () => metrics.matched(),
      rulesAgeSeconds: () => ruleFollower.ageSeconds(),
      rulesProblem: () => ruleFollower.problem(),
      exhaustedCallers: (olderThanMs) =>
        // How busy a service is, is no limit of its callers: `shedding` reports it.
        sources.callers
          .exhausted(olderThanMs)
          .filter(({ rule }) => !protectsCapacity(ruleFollower, rule)),
      refusedCall: (rule) => sources.callers.refusedCallOf(rule),
      distinct: () => sources.distinct.estimates(),
      upstreams: () => upstreamHealth.counts(),
      shedding: () => shedding.totals(),
      ring: () => counterStore.ring?.(),
      regions: () => counterStore.regional?.regionStats() ?? [],
      regionOverage: () => counterStore.regional?.overage() ?? 0,
    },
  })
  counterStore.onBreakerOpened((store) => alerts.breakerOpened(store))
  registerAlertMetrics(registry, alerts)
  return alerts
}
