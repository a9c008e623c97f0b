/** Looks at everything that must not go unseen, once a second. */
import type { CounterStats } from '@sluice/limiter'
import type { RedisStats } from '@sluice/limiter/redis'
import type { WallClock } from '../clock.js'
import type { AlertsConfig } from '../config/config.js'
import type { Log } from '../log/logger.js'
import type { DecisionMetrics, RuleVisit } from '../metrics/decisions.js'
import type { Alert, AlertName, Alerts, AlertSink } from './alert.js'
import { AlertBook } from './alert-book.js'
import { openBreaker, StoreSilence } from './conditions/breaker.js'
import { type CallerAtZero, findCallersAtZero } from './conditions/caller-at-zero.js'
import { ClockOffsets, ClockSpread } from './conditions/clocks.js'
import { Availability, DegradedShares } from './conditions/degraded.js'
import { findStaleRules } from './conditions/rules-stale.js'
import { FleetUnknown, StoreRefusal } from './conditions/store-refused.js'
import { StoreEvictions, StoreMemory } from './conditions/store-room.js'
import { type Latencies, StoreSlowness } from './conditions/store-slow.js'
import { CallersUnusual, RefusalsUnusual, SampleTimes } from './conditions/unusual.js'

/** What there is to look at, each asked when it is needed. */
export interface AlertSight {
  /** Undefined: counters are elsewhere. */
  redis(): RedisStats | undefined
  memory(): CounterStats | undefined
  /** How fast the nodes of Redis answer; undefined: counters are in this process. */
  latencies(): Latencies | undefined
  eachRule(visit: RuleVisit): void
  matched(): ReturnType<DecisionMetrics['matched']>
  rulesAgeSeconds(): number
  rulesProblem(): string | undefined
  /** Callers that have had nothing left for longer than that. */
  zero(olderThanMs: number, nowMs: number): readonly CallerAtZero[]
  /** By rule, how many distinct callers it met in five minutes, about. */
  distinct(): Iterable<readonly [rule: string, callers: number]>
}

export interface AlertWatchParts {
  readonly config: AlertsConfig
  readonly clock: WallClock
  readonly log: Log
  /** The id of this node. */
  readonly node: string
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
  readonly #clockOffsets = new ClockOffsets()
  readonly #clockSpread = new ClockSpread()
  readonly #refusal = new StoreRefusal()
  readonly #fleet = new FleetUnknown()
  readonly #memory = new StoreMemory()
  readonly #evictions = new StoreEvictions()
  readonly #slowness = new StoreSlowness()
  readonly #refusals: RefusalsUnusual
  readonly #callers: CallersUnusual
  readonly #times = new SampleTimes()
  #isClosed = false

  constructor(parts: AlertWatchParts) {
    const { config, log, node, sink } = parts
    this.#parts = parts
    this.#book = new AlertBook({ log, node, runbook: config.runbook, off: config.off })
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
    this.lookAtStore(nowMs)
    this.lookAtRules(nowMs)
    const { config, sight } = this.#parts
    const rules = { rulesAgeSeconds: sight.rulesAgeSeconds(), rulesProblem: sight.rulesProblem() }
    this.#book.update('rules-stale', findStaleRules(rules, config.rulesStaleMs), nowMs)
    const callers = sight.zero(config.callerAtZeroMs, nowMs)
    this.#book.update('caller-at-zero', findCallersAtZero(callers, nowMs), nowMs)
  }

  breakerOpened(store: string): void {
    if (this.#isClosed) return
    this.#book.found('breaker-open', openBreaker(store), this.#parts.clock.now())
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#book.endAll(this.#parts.clock.now())
    await this.#parts.sink?.close()
  }

  private lookAtStore(nowMs: number): void {
    const { sight } = this.#parts
    const redis = sight.redis()
    const nodes = redis?.nodes ?? []
    const memory = sight.memory()
    this.#book.update('breaker-open', this.#silence.look(redis), nowMs)
    this.#book.update('store-refused', this.#refusal.look(redis), nowMs)
    this.#book.update('fleet-unknown', this.#fleet.look(redis), nowMs)
    this.#book.update('store-slow', this.#slowness.look(sight.latencies()), nowMs)
    this.#book.update('clock-offset', this.#clockOffsets.look(nodes), nowMs)
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
    this.#degraded.nextSecond()
    sight.eachRule((rule, made, badly, counted) => {
      this.#degraded.saw(rule, made, badly)
      if (took !== undefined) this.#refusals.saw(rule, counted, took)
    })
    this.#book.update('degraded', this.#degraded.findings(), nowMs)
    const { decisions, degraded } = sight.matched()
    this.#book.update('availability', this.#availability.tick(decisions, degraded), nowMs)
    if (took !== undefined && took !== 'begin') {
      for (const [rule, callers] of sight.distinct()) this.#callers.saw(rule, callers)
    }
    const isRefusing = (rule: string) => this.#refusals.isUnusual(rule)
    this.#book.update('refusals-unusual', this.#refusals.findings(), nowMs)
    this.#book.update('callers-unusual', this.#callers.findings(isRefusing), nowMs)
  }
}
