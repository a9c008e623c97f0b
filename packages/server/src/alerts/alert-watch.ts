/** Looks at everything that must not go unseen, once a second. */
import type { CounterStats } from '@sluice/limiter'
import type { RedisStats } from '@sluice/limiter/redis'
import type { WallClock } from '../clock.js'
import type { AlertsConfig } from '../config/config.js'
import type { Log } from '../log/logger.js'
import type { DecisionMetrics, RuleVisit } from '../metrics/decisions.js'
import type { Alert, AlertName, Alerts, AlertSink, Finding } from './alert.js'
import { AlertBook } from './alert-book.js'
import { RuleCollection } from './conditions/affected-rules.js'
import { type ConnectionFailures, openBreaker, StoreSilence } from './conditions/breaker.js'
import { type CallerAtZero, findCallersAtZero } from './conditions/caller-at-zero.js'
import { ClockOffsets, ClockSpread, type PeerClock } from './conditions/clocks.js'
import { Availability, DegradedShares } from './conditions/degraded.js'
import { findStaleRules } from './conditions/rules-stale.js'
import { FleetUnknown, StoreRefusal } from './conditions/store-refused.js'
import { StoreEvictions, StoreMemory } from './conditions/store-room.js'
import { type Latencies, StoreSlowness } from './conditions/store-slow.js'
import { CallersUnusual, RefusalsUnusual, SampleTimes } from './conditions/unusual.js'
import { type UpstreamCounts, UpstreamFailing } from './conditions/upstream-failing.js'

/** What there is to look at, each asked when it is needed. */
export interface AlertSight {
  /** Undefined: counters are elsewhere. */
  redis(): RedisStats | undefined
  memory(): CounterStats | undefined
  /** Calls that met no connection, by node of Redis; undefined: counters are in this process. */
  connectionFailures(): ConnectionFailures | undefined
  /** How fast the nodes of Redis answer; undefined: counters are in this process. */
  latencies(): Latencies | undefined
  /** The clocks of the other nodes; undefined: not known yet. */
  peerClocks(nowMs: number): readonly PeerClock[] | undefined
  eachRule(visit: RuleVisit): void
  matched(): ReturnType<DecisionMetrics['matched']>
  rulesAgeSeconds(): number
  rulesProblem(): string | undefined
  /** Callers that have had nothing left for longer than that. */
  zero(olderThanMs: number, nowMs: number): readonly CallerAtZero[]
  /** Which call the caller with most refusals of a rule made last, as text. */
  refusedCall(rule: string): string | undefined
  /** By rule, how many distinct callers it met in five minutes, about. */
  distinct(): Iterable<readonly [rule: string, callers: number]>
  upstreams(): Iterable<UpstreamCounts>
}

export interface AlertWatchParts {
  readonly config: AlertsConfig
  readonly clock: WallClock
  readonly log: Log
  /** The id of this node. */
  readonly node: string
  /** The machine it runs on. */
  readonly host: string
  /** False in all workers but one: they have one clock, and it is one alert. @default true */
  readonly tellsOwnClock?: boolean | undefined
  readonly sight: AlertSight
  /** Where alerts go beside the log; undefined: nowhere. */
  readonly sink?: AlertSink | undefined
}

export interface AlertWatch extends Alerts {
  /** Once a second. */
  tick(nowMs: number): void
  /** A breaker may close again before the next second. */
  breakerOpened(store: string): void
  /** How often each has begun since the start. */
  begun(): ReadonlyMap<AlertName, number>
  /** Ends what goes on, for whoever was told of it, and closes the sink. */
  close(): Promise<void>
}

export function openAlerts(parts: AlertWatchParts): AlertWatch {
  return new LookingAlerts(parts)
}

class LookingAlerts implements AlertWatch {
  readonly #parts: AlertWatchParts
  readonly #book: AlertBook
  readonly #silence = new StoreSilence()
  readonly #degraded = new DegradedShares()
  readonly #availability = new Availability()
  readonly #clockOffsets: ClockOffsets
  readonly #clockSpread = new ClockSpread()
  readonly #refusal = new StoreRefusal()
  readonly #fleet = new FleetUnknown()
  readonly #memory = new StoreMemory()
  readonly #evictions = new StoreEvictions()
  readonly #slowness = new StoreSlowness()
  readonly #refusals: RefusalsUnusual
  readonly #callers: CallersUnusual
  readonly #times = new SampleTimes()
  readonly #upstreams = new UpstreamFailing()
  /** Rules that answered by posture since the store is down. */
  readonly #affected = new RuleCollection()
  #isClosed = false

  constructor(parts: AlertWatchParts) {
    const { config, log, node, host, sink, tellsOwnClock } = parts
    this.#parts = parts
    this.#book = new AlertBook({ log, node, runbook: config.runbook, off: config.off })
    this.#clockOffsets = new ClockOffsets({ id: node, host }, tellsOwnClock)
    this.#refusals = new RefusalsUnusual(config.usualMs)
    this.#callers = new CallersUnusual(config.usualMs)
    if (sink !== undefined) this.#book.onChange((alert) => sink.tell(alert))
  }

  /** Functions of their own: metrics take these two and leave the object. */
  readonly active = (): readonly Alert[] => this.#book.active()
  readonly begun = (): ReadonlyMap<AlertName, number> => this.#book.begun()

  recent(): readonly Alert[] {
    return this.#book.recent()
  }

  onChange(listener: (alert: Alert) => void): () => void {
    return this.#book.onChange(listener)
  }

  tick(nowMs: number): void {
    if (this.#isClosed) return
    this.lookAtDecisions(nowMs)
    this.lookAtStore(nowMs)
    this.lookAtRules(nowMs)
    const { config, sight } = this.#parts
    const rules = { rulesAgeSeconds: sight.rulesAgeSeconds(), rulesProblem: sight.rulesProblem() }
    this.#book.update('rules-stale', findStaleRules(rules, config.rulesStaleMs), nowMs)
    const callers = sight.zero(config.callerAtZeroMs, nowMs)
    this.#book.update('caller-at-zero', findCallersAtZero(callers, nowMs), nowMs)
    this.#book.update('upstream-failing', this.#upstreams.look(sight.upstreams()), nowMs)
  }

  breakerOpened(store: string): void {
    if (this.#isClosed) return
    this.#degraded.begin()
    this.recordDecisions()
    if (!this.#book.isOff('breaker-open')) this.attribute()
    const finding = openBreaker(store, this.#affected.describe())
    this.#book.found('breaker-open', finding, this.#parts.clock.now())
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#book.endAll(this.#parts.clock.now())
    await this.#parts.sink?.close()
  }

  /**
   * Looks at the store and at what rules decided without it. A store that is down is the cause of
   * those decisions: it is told first, with how many rules it concerns, and they are no alerts of
   * their own for as long as it lasts.
   */
  private lookAtDecisions(nowMs: number): void {
    const redis = this.#parts.sight.redis()
    this.#degraded.nextSecond()
    this.#availability.nextSecond()
    this.recordDecisions()
    this.#silence.look(redis, this.#parts.sight.connectionFailures())
    this.#refusal.look(redis)
    // What is told of already was felt before, for whatever reason.
    const isNews = this.#availability.isFelt && !this.#book.isActive('availability')
    const isFelt = this.#degraded.isFelt || isNews
    const isDown =
      this.isCause('breaker-open', this.#silence.findings(isFelt)) ||
      this.isCause('store-refused', this.#refusal.findings())
    if (isDown) this.attribute()
    else this.#affected.clear()
    const affected = this.#affected.describe()
    this.#book.update('breaker-open', this.#silence.findings(isFelt, affected), nowMs)
    this.#book.update('store-refused', this.#refusal.findings(affected), nowMs)
    this.#book.update('degraded', this.#degraded.findings(), nowMs)
    this.#book.update('availability', this.#availability.findings(), nowMs)
  }

  /** Whether an alert tells of a store that is down, or did a moment ago. */
  private isCause(name: AlertName, findings: readonly Finding[]): boolean {
    return !this.#book.isOff(name) && (findings.length > 0 || this.#book.isActive(name))
  }

  private recordDecisions(): void {
    const { sight } = this.#parts
    sight.eachRule((rule, made, badly) => this.#degraded.record(rule, made, badly))
    const { decisions, degraded } = sight.matched()
    this.#availability.record(decisions, degraded)
  }

  /** Puts what was decided by posture so far down to the store. */
  private attribute(): void {
    this.#affected.add(this.#degraded.recentRules())
    this.#degraded.forget()
    this.#availability.forget()
  }

  private lookAtStore(nowMs: number): void {
    const { sight } = this.#parts
    const redis = sight.redis()
    const nodes = redis?.nodes ?? []
    const memory = sight.memory()
    this.#book.update('fleet-unknown', this.#fleet.look(redis), nowMs)
    this.#book.update('store-slow', this.#slowness.look(sight.latencies()), nowMs)
    const clocks = this.#clockOffsets.look(nodes, () => sight.peerClocks(nowMs))
    this.#book.update('clock-offset', clocks, nowMs)
    this.#book.update('clock-spread', this.#clockSpread.look(nodes), nowMs)
    this.#book.update('store-memory', this.#memory.look(nodes), nowMs)
    const evictions = [
      ...this.#evictions.lookAtRedis(nodes),
      ...(memory === undefined ? [] : this.#evictions.lookAtMemory(memory)),
    ]
    this.#book.update('store-evictions', evictions, nowMs)
  }

  private lookAtRules(nowMs: number): void {
    const { sight } = this.#parts
    const took = this.#times.tick(nowMs)
    if (took !== undefined) {
      sight.eachRule((rule, _made, _badly, counted) => this.#refusals.saw(rule, counted, took))
    }
    if (took !== undefined && took !== 'begin') {
      for (const [rule, callers] of sight.distinct()) this.#callers.saw(rule, callers)
    }
    const isRefusing = (rule: string) => this.#refusals.isUnusual(rule)
    const refused = this.#refusals.findings((rule) => sight.refusedCall(rule))
    this.#book.update('refusals-unusual', refused, nowMs)
    this.#book.update('callers-unusual', this.#callers.findings(isRefusing), nowMs)
  }
}
