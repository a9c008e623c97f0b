/** Evaluates all alert conditions once a second. */
import type { RegionStats, StoreHealth } from '@sluice/limiter'
import type { RingStats } from '@sluice/limiter/ring'
import type { WallClock } from '../../lib/wall-clock.js'
import type { AlertsConfig } from '../../config/config.js'
import type { Log } from '../log/logger.js'
import type { DecisionMetrics, RuleVisit } from '../metrics/decision-metrics.js'
import type { Alert, AlertName, Alerts, AlertSink, Finding } from './alert.js'
import { AlertRegistry } from './alert-registry.js'
import { AffectedRuleSet } from './conditions/affected-rules.js'
import { type ConnectionFailures, openBreaker, StoreOutage } from './conditions/breaker-open.js'
import { type ExhaustedCaller, findExhaustedCallers } from './conditions/caller-exhausted.js'
import { ClockOffsets, ClockSpread, type PeerClock } from './conditions/clock-offset.js'
import { Availability, DegradedShares } from './conditions/degraded.js'
import { RegionClocks, RegionOverage, RegionSilence } from './conditions/regions.js'
import { findStaleRules } from './conditions/rules-stale.js'
import { FleetUnknown, StoreRefusal } from './conditions/store-refused.js'
import { RingSilence, RingViews } from './conditions/ring.js'
import { type SheddingCounts, SheddingKept, SheddingShare } from './conditions/shedding.js'
import { StoreEvictions, StoreMemory } from './conditions/store-memory.js'
import { type Latencies, StoreSlowness } from './conditions/store-slow.js'
import { CallerAnomalies, RefusalAnomalies, SampleTimes } from './conditions/anomaly.js'
import { type UpstreamCounts, UpstreamFailures } from './conditions/upstream-failing.js'

/** Where conditions read their measurements. */
export interface AlertInputs {
  /** Undefined if the store reports no health. */
  storeHealth(): StoreHealth | undefined
  /** Calls without a connection, by Redis node; undefined for the memory store. */
  connectionFailures(): ConnectionFailures | undefined
  /** Batch latencies by Redis node; undefined for the memory store. */
  latencies(): Latencies | undefined
  /** The clocks of the other nodes; undefined until they are known. */
  peerClocks(nowMs: number): readonly PeerClock[] | undefined
  eachRule(visit: RuleVisit): void
  matched(): ReturnType<DecisionMetrics['matched']>
  rulesAgeSeconds(): number
  rulesProblem(): string | undefined
  /** Callers that have had no budget left for longer than `olderThanMs`. */
  exhaustedCallers(olderThanMs: number, nowMs: number): readonly ExhaustedCaller[]
  /** The last refused call, as text, of the caller with most refusals of a rule. */
  refusedCall(rule: string): string | undefined
  /** The estimated number of distinct callers of each rule in the last five minutes. */
  distinct(): Iterable<readonly [rule: string, callers: number]>
  upstreams(): Iterable<UpstreamCounts>
  shedding(): SheddingCounts
  /** Undefined where there is no ring. */
  ring(): RingStats | undefined
  /** The other regions; none if there is only one. */
  regions(): readonly RegionStats[]
  /** The largest share beyond a merged limit in the last second; see `RegionalStore`. */
  regionOverage(): number
}

const NO_HEALTH: StoreHealth = { remote: undefined, memory: undefined, isPersistent: undefined }

export interface AlertWatchDeps {
  readonly config: AlertsConfig
  readonly clock: WallClock
  readonly log: Log
  /** The id of this node. */
  readonly node: string
  readonly host: string
  /** False in all workers but one, because they share one clock. @default true */
  readonly reportsOwnClock?: boolean | undefined
  readonly inputs: AlertInputs
  /** Where alerts go in addition to the log. */
  readonly sink?: AlertSink | undefined
}

export interface AlertWatch extends Alerts {
  /** Called once a second. */
  tick(nowMs: number): void
  /** Reports a breaker at once: it may close again before the next tick. */
  breakerOpened(store: string): void
  /** How often each alert has begun since the start. */
  totals(): ReadonlyMap<AlertName, number>
  /** Resolves all active alerts and closes the sink. */
  close(): Promise<void>
}

export function openAlerts(deps: AlertWatchDeps): AlertWatch {
  return new PeriodicAlerts(deps)
}

class PeriodicAlerts implements AlertWatch {
  readonly #deps: AlertWatchDeps
  readonly #registry: AlertRegistry
  readonly #outage = new StoreOutage()
  readonly #degraded = new DegradedShares()
  readonly #availability = new Availability()
  readonly #clockOffsets: ClockOffsets
  readonly #clockSpread = new ClockSpread()
  readonly #refusal = new StoreRefusal()
  readonly #fleet = new FleetUnknown()
  readonly #memory = new StoreMemory()
  readonly #evictions = new StoreEvictions()
  readonly #slowness = new StoreSlowness()
  readonly #refusals: RefusalAnomalies
  readonly #callers: CallerAnomalies
  readonly #times = new SampleTimes()
  readonly #upstreams = new UpstreamFailures()
  readonly #sheds = new SheddingShare()
  readonly #shedsKept = new SheddingKept()
  readonly #ringSilence = new RingSilence()
  readonly #ringViews = new RingViews()
  readonly #regionSilence = new RegionSilence()
  readonly #regionClocks = new RegionClocks()
  readonly #regionOverage = new RegionOverage()
  /** Rules that decided by posture since the store went down. */
  readonly #affected = new AffectedRuleSet()
  #isClosed = false

  constructor(deps: AlertWatchDeps) {
    const { config, log, node, host, sink, reportsOwnClock } = deps
    this.#deps = deps
    this.#registry = new AlertRegistry({ log, node, runbook: config.runbook, off: config.off })
    this.#clockOffsets = new ClockOffsets({ id: node, host }, reportsOwnClock)
    this.#refusals = new RefusalAnomalies(config.baselineMs)
    this.#callers = new CallerAnomalies(config.baselineMs)
    if (sink !== undefined) this.#registry.onChange((alert) => sink.notify(alert))
  }

  /** Bound functions, because metrics detach them from the object. */
  readonly active = (): readonly Alert[] => this.#registry.active()
  readonly totals = (): ReadonlyMap<AlertName, number> => this.#registry.totals()

  recent(): readonly Alert[] {
    return this.#registry.recent()
  }

  onChange(listener: (alert: Alert) => void): () => void {
    return this.#registry.onChange(listener)
  }

  tick(nowMs: number): void {
    if (this.#isClosed) return
    this.evaluateDecisions(nowMs)
    this.evaluateStore(nowMs)
    this.evaluateRules(nowMs)
    const { config, inputs } = this.#deps
    const rules = { rulesAgeSeconds: inputs.rulesAgeSeconds(), rulesProblem: inputs.rulesProblem() }
    this.#registry.update('rules-stale', findStaleRules(rules, config.rulesStaleMs), nowMs)
    const callers = inputs.exhaustedCallers(config.callerExhaustedMs, nowMs)
    this.#registry.update('caller-exhausted', findExhaustedCallers(callers, nowMs), nowMs)
    this.#registry.update('upstream-failing', this.#upstreams.evaluate(inputs.upstreams()), nowMs)
    const shedding = inputs.shedding()
    this.#registry.update('shedding', this.#sheds.evaluate(shedding), nowMs)
    this.#registry.update('shedding-kept', this.#shedsKept.evaluate(shedding), nowMs)
    const regions = inputs.regions()
    this.#registry.update('region-unreachable', this.#regionSilence.evaluate(regions), nowMs)
    this.#registry.update('region-clocks', this.#regionClocks.evaluate(regions), nowMs)
    const overage = this.#regionOverage.evaluate(inputs.regionOverage())
    this.#registry.update('region-overage', overage, nowMs)
  }

  breakerOpened(store: string): void {
    // A silent member of a ring has a deputy: `ring-peer-silent` reports it.
    if (this.#isClosed || this.#deps.inputs.ring() !== undefined) return
    this.#degraded.begin()
    this.recordDecisions()
    if (!this.#registry.isOff('breaker-open')) this.attribute()
    const finding = openBreaker(store, this.#affected.describe())
    this.#registry.report('breaker-open', finding, this.#deps.clock.now())
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#registry.resolveAll(this.#deps.clock.now())
    await this.#deps.sink?.close()
  }

  /**
   * Evaluates store outages and decisions by posture together. While the store is down, it is the
   * one alert, with the number of affected rules; `degraded` and `availability` are folded into it.
   */
  private evaluateDecisions(nowMs: number): void {
    const isRing = this.#deps.inputs.ring() !== undefined
    const remote = isRing ? undefined : this.#deps.inputs.storeHealth()?.remote
    this.#degraded.nextSecond()
    this.#availability.nextSecond()
    this.recordDecisions()
    this.#outage.evaluate(remote, this.#deps.inputs.connectionFailures())
    this.#refusal.evaluate(remote)
    // An active availability alert has another cause: this outage did not begin it.
    const isNews = this.#availability.hasImpact && !this.#registry.isActive('availability')
    const hasImpact = this.#degraded.hasImpact || isNews
    const isDown =
      this.isCause('breaker-open', this.#outage.findings(hasImpact)) ||
      this.isCause('store-refused', this.#refusal.findings())
    if (isDown) this.attribute()
    else this.#affected.clear()
    const affected = this.#affected.describe()
    this.#registry.update('breaker-open', this.#outage.findings(hasImpact, affected), nowMs)
    this.#registry.update('store-refused', this.#refusal.findings(affected), nowMs)
    this.#registry.update('degraded', this.#degraded.findings(), nowMs)
    this.#registry.update('availability', this.#availability.findings(), nowMs)
  }

  /** Whether this alert reports a store that is down, or did so within its hold time. */
  private isCause(name: AlertName, findings: readonly Finding[]): boolean {
    return !this.#registry.isOff(name) && (findings.length > 0 || this.#registry.isActive(name))
  }

  private recordDecisions(): void {
    const { inputs } = this.#deps
    inputs.eachRule((rule, decisionCount, degradedCount) =>
      this.#degraded.record(rule, decisionCount, degradedCount),
    )
    const { decisions, degraded } = inputs.matched()
    this.#availability.record(decisions, degraded)
  }

  /** Attributes all decisions by posture so far to the store outage. */
  private attribute(): void {
    this.#affected.add(this.#degraded.recentRules())
    this.#degraded.forget()
    this.#availability.forget()
  }

  private evaluateStore(nowMs: number): void {
    const { inputs } = this.#deps
    const { remote, memory } = inputs.storeHealth() ?? NO_HEALTH
    const nodes = remote?.nodes ?? []
    const ring = inputs.ring()
    const silent = this.#ringSilence.evaluate(ring && remote)
    this.#registry.update('ring-peer-silent', silent, nowMs)
    this.#registry.update('ring-views-differ', this.#ringViews.evaluate(ring), nowMs)
    this.#registry.update('fleet-unknown', this.#fleet.evaluate(remote), nowMs)
    this.#registry.update('store-slow', this.#slowness.evaluate(inputs.latencies()), nowMs)
    const clocks = this.#clockOffsets.evaluate(nodes, () => inputs.peerClocks(nowMs))
    this.#registry.update('clock-offset', clocks, nowMs)
    this.#registry.update('clock-spread', this.#clockSpread.evaluate(nodes), nowMs)
    this.#registry.update('store-memory', this.#memory.evaluate(nodes), nowMs)
    const isInProcess = remote === undefined && memory !== undefined
    const evictions = isInProcess
      ? this.#evictions.evaluateMemory(memory)
      : this.#evictions.evaluateRedis(nodes)
    this.#registry.update('store-evictions', evictions, nowMs)
  }

  private evaluateRules(nowMs: number): void {
    const { inputs } = this.#deps
    const elapsed = this.#times.tick(nowMs)
    if (elapsed !== undefined) {
      inputs.eachRule((rule, _made, _badly, counted) =>
        this.#refusals.observe(rule, counted, elapsed),
      )
    }
    if (elapsed !== undefined && elapsed !== 'begin') {
      for (const [rule, callers] of inputs.distinct()) this.#callers.observe(rule, callers)
    }
    const isRefusing = (rule: string) => this.#refusals.isAnomalous(rule)
    const refused = this.#refusals.findings((rule) => inputs.refusedCall(rule))
    this.#registry.update('refusals-anomaly', refused, nowMs)
    this.#registry.update('callers-anomaly', this.#callers.findings(isRefusing), nowMs)
  }
}
