/**
 * Everything that looks on while decisions are made: statistics, alerts, the decision log, metrics
 * of callers. Each is told of a decision after it was made; none can change it or hold it up.
 */
import type { Call, Decision } from '@sluice/core'
import { type AlertWatch, openAlerts } from './alerts/alert-watch.js'
import type { AlertSink } from './alerts/alert.js'
import { registerDeliveryMetrics } from './alerts/delivery-metrics.js'
import { openWebhook } from './alerts/open-webhook.js'
import { PeerClocks } from './alerts/peer-clocks.js'
import type { WallClock } from './clock.js'
import type { Config } from './config/config.js'
import { openDecisionLog } from './decision-log/decision-log.js'
import type { UpstreamHealth } from './gateway/upstream-health.js'
import type { Log } from './log/logger.js'
import { createThrottle } from './log/throttle.js'
import { messageOf } from './message-of.js'
import { registerAlertMetrics } from './metrics/alerts.js'
import { registerCallersMetric } from './metrics/callers.js'
import type { DecisionMetrics } from './metrics/decisions.js'
import type { Registry } from './metrics/registry.js'
import { createRemainingMetrics } from './metrics/remaining.js'
import type { NodeInfo } from './source/open-source.js'
import { nodeProblem, type RuleSource } from './source/rule-source.js'
import { ownBoard } from './stats/board.js'
import { CallerTracker } from './stats/callers/caller-tracker.js'
import { HoursFile } from './stats/callers/hours-file.js'
import { DistinctCallers } from './stats/distinct-callers.js'
import { FleetStats } from './stats/fleet-stats.js'
import type { Measured } from './stats/latency.js'
import { nameProtection } from './stats/name-protection.js'
import type { SeenAlerts } from './stats/node-sight.js'
import { NodeStats } from './stats/node-stats.js'
import { isRedis, storeSight } from './stats/store-sight.js'
import type { OpenedStore } from './store/open-store.js'

/** What one of several processes has of its own. */
export interface WorkerParts {
  /** From 0 on; the one that takes the place of a worker that died has the same. */
  readonly place: number
  /** To the process that posts for all of them. */
  readonly alerts: AlertSink
}

export interface ObservationParts {
  readonly registry: Registry
  readonly log: Log
  readonly clock: WallClock
  readonly node: NodeInfo
  readonly source: RuleSource
  readonly opened: OpenedStore
  readonly metrics: DecisionMetrics
  readonly upstreamHealth: Pick<UpstreamHealth, 'counts'>
  /** How long decisions took, in seconds. */
  readonly decisionTimes: Measured
  /** Undefined in a process that is alone. */
  readonly worker: WorkerParts | undefined
}

export interface Observation {
  decided(decision: Decision, call: Call): void
  readonly fleet: FleetStats
  readonly alerts: AlertWatch
  close(): Promise<void>
}

const TICK_MS = 1000

export async function observe(config: Config, parts: ObservationParts): Promise<Observation> {
  const { registry, log, clock, opened, worker } = parts
  const place = worker?.place ?? 0
  const suffix = worker === undefined ? undefined : `.w${place}`
  const { decisionLog: wanted } = config
  const decisionLog =
    wanted && (await openDecisionLog({ config: wanted, suffix, clock, log, registry }))
  const callers = new CallerTracker(clock.now())
  const names = nameProtection(config, opened.secret)
  const { dataDir, workers: processes } = config
  const hours = new HoursFile({ callers, dataDir, names, log, clock, index: place, processes })
  hours.restore()
  hours.start()
  const distinct = new DistinctCallers()
  registerCallersMetric(registry, distinct)
  // The fleet shows the alerts, so it is made after them; none of them asks before the first tick.
  const peers = new PeerClocks(() => fleet.peerClocks())
  const alerts = watchAlerts(config, parts, { callers, distinct, peers })
  const ownAlerts = () => ({ active: alerts.active(), recent: alerts.recent() })
  const stats = openStats(config, parts, { callers, distinct, alerts: ownAlerts })
  const board = isRedis(opened.store) ? opened.store.board : ownBoard()
  const onProblem = (error: unknown) =>
    log.warn({ problem: messageOf(error) }, 'the other nodes are not told what this one sees')
  const fleet = new FleetStats({ own: stats, board, names, clock, alerts: ownAlerts, onProblem })
  fleet.start()
  const safely = createSafely(log, clock)
  const timer = setInterval(() => {
    const nowMs = clock.now()
    safely(() => stats.tick(nowMs))
    safely(() => alerts.tick(nowMs))
  }, TICK_MS).unref()
  return {
    fleet,
    alerts,
    decided(decision, call) {
      // Made already: whatever goes wrong here must not take it from whoever waits for it.
      try {
        stats.decided(decision, call)
        decisionLog?.decided(decision, call)
      } catch (error) {
        safely(() => {
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

/** A mistake in what looks on is told, and costs no decision and no process. */
function createSafely(log: Log, clock: WallClock): (run: () => void) => void {
  const throttle = createThrottle(clock)
  return (run) => {
    try {
      run()
    } catch (error) {
      const passed = throttle.pass('observation')
      if (passed === undefined) return
      log.error({ problem: messageOf(error), ...passed }, 'what was seen could not be kept')
    }
  }
}

interface Seen {
  readonly callers: CallerTracker
  readonly distinct: DistinctCallers
}

function openStats(
  config: Config,
  parts: ObservationParts,
  seen: Seen & { readonly alerts: () => SeenAlerts },
): NodeStats {
  const { registry, clock, node, source, opened, metrics, decisionTimes } = parts
  return new NodeStats({
    node,
    rulesVersion: () => source.version(),
    problem: () => nodeProblem(source),
    metrics,
    decisionTimes,
    storeTimes: opened.times,
    storeHealth: storeSight(opened, config.redis?.layout ?? 'plain'),
    ...seen,
    remaining: createRemainingMetrics(registry),
    nowMs: clock.now(),
  })
}

function watchAlerts(
  config: Config,
  parts: ObservationParts,
  seen: Seen & { readonly peers: PeerClocks },
): AlertWatch {
  const { registry, log, clock, node, source, opened, metrics, upstreamHealth, worker } = parts
  const webhook = worker === undefined ? openWebhook(config, log) : undefined
  if (worker === undefined) registerDeliveryMetrics(registry, () => webhook?.deliveries())
  const alerts = openAlerts({
    config: config.alerts,
    clock,
    log,
    node: node.id,
    host: node.host,
    tellsOwnClock: worker === undefined || worker.place === 0,
    sink: worker?.alerts ?? webhook,
    sight: {
      redis: () => opened.redisStats(),
      memory: () => opened.memoryStats(),
      connectionFailures: () => opened.connectionFailures(),
      latencies: () => opened.batchLatency,
      peerClocks: (nowMs) => seen.peers.latest(nowMs),
      eachRule: (visit) => metrics.eachRule(visit),
      matched: () => metrics.matched(),
      rulesAgeSeconds: () => source.ageSeconds(),
      rulesProblem: () => source.problem(),
      zero: (olderThanMs) => seen.callers.zero(olderThanMs),
      refusedCall: (rule) => seen.callers.refusedCallOf(rule),
      distinct: () => seen.distinct.estimates(),
      upstreams: () => upstreamHealth.counts(),
    },
  })
  opened.onBreakerOpened((store) => alerts.breakerOpened(store))
  registerAlertMetrics(registry, alerts)
  return alerts
}
