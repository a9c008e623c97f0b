/**
 * Statistics of this node's decisions: counts by time bucket, callers, remaining shares. A decision
 * only adds to existing totals and sketches; once a second the growth of the totals is assigned to
 * buckets; snapshots are built on request.
 */
import type { Call, CallerVisit, Cost, Decision } from '@sluice/core'
import { amountOf, candidateId } from '@sluice/core'
import type { DecisionMetrics, RuleVisit } from '../metrics/decision-metrics.js'
import type { PriorityTotals } from '../metrics/shedding-metrics.js'
import type { NodeInfo } from '../../rules/sync/open-rule-follower.js'
import type { CallerTracker, KnownCaller } from './callers/caller-tracker.js'
import type { RuleCallers } from './callers/rule-callers.js'
import type { DistinctCallers, RuleDistinctCallers } from './distinct-callers.js'
import { InFlightPeaks } from './in-flight.js'
import { HistogramRing, type HistogramReader, NO_LATENCY } from './latency.js'
import {
  SNAPSHOT_ALERTS_MAX,
  SNAPSHOT_CALLERS_MAX,
  type InFlightSnapshot,
  MINUTE_BUCKETS,
  type NodeSnapshot,
  type PrioritySnapshot,
  RULE_BUCKET_MS,
  SNAPSHOT_RULES_MAX,
  type AlertLists,
  type RuleSnapshot,
  type StoreSnapshot,
  BUCKET_MS,
  BUCKETS,
} from './node-snapshot.js'
import { RemainingShares, RuleSeries } from './rule-series.js'
import { BucketRing } from './series.js'
import { BucketClock } from './time-buckets.js'

export interface NodeStatsDeps {
  readonly node: NodeInfo
  readonly rulesVersion: () => number
  /** What keeps the node from the newest rules. @default nothing */
  readonly problem?: (() => string | undefined) | undefined
  readonly metrics: Pick<DecisionMetrics, 'eachRule'>
  /** Decision latency in seconds. */
  readonly decisionTimes: HistogramReader
  /** Store latency in seconds; undefined for the memory store. */
  readonly storeTimes: HistogramReader | undefined
  readonly storeHealth: () => StoreSnapshot
  /** Calls by priority since the start, the most important first. @default none */
  readonly priorities?: (() => readonly (readonly [string, PriorityTotals])[]) | undefined
  /** Calls in flight by rule. @default none */
  readonly inFlight?: (() => readonly Omit<InFlightSnapshot, 'peak'>[]) | undefined
  /** @default none */
  readonly alerts?: (() => AlertLists) | undefined
  readonly callers: Pick<
    CallerTracker,
    'ofRule' | 'tick' | 'view' | 'shadowView' | 'nameOf' | 'callersSinceMs'
  >
  readonly distinct: Pick<DistinctCallers, 'ofRule' | 'tick'>
  /** The remaining shares as metrics; a negative value means unknown. */
  readonly remaining: { ofRule(rule: string): HistogramReader & { observe(left: number): void } }
  /** Milliseconds since 1970. */
  readonly nowMs: number
}

const MINUTE_MS = 60_000
const PROBLEM_LENGTH_MAX = 500
/** The same bound as in metrics/decision-metrics.ts. */
const RULES_MAX = 20_000

/** Everything that observes the decisions of one rule, found by one lookup. */
interface RuleObservers {
  readonly callers: RuleCallers
  readonly distinct: RuleDistinctCallers | undefined
  readonly remaining: { observe(left: number): void }
  readonly left: RemainingShares
}

export class NodeStats {
  readonly #deps: NodeStatsDeps
  readonly #totalClock: BucketClock
  readonly #ruleClock: BucketClock
  readonly #minuteClock: BucketClock
  readonly #total = { allowed: 0, refused: 0, shadowRefused: 0, degraded: 0 }
  readonly #totalRing = new BucketRing(BUCKETS)
  readonly #minuteRing = new BucketRing(MINUTE_BUCKETS)
  readonly #decisionRing: HistogramRing
  readonly #storeRing: HistogramRing | undefined
  readonly #rules = new Map<string, RuleObservers>()
  /** By the bounded names of the metrics; those of earlier rules stay. */
  readonly #priorityRings = new Map<string, BucketRing>()
  readonly #inFlightPeaks = new InFlightPeaks()
  /** By the bounded names of the metrics, which include candidates. */
  readonly #ruleSeries = new Map<string, RuleSeries>()
  /**
   * The time of the last tick, used for all decisions until the next one: reading a clock for each
   * would cost more than everything else here.
   */
  #nowMs: number
  /** The current call, for `#visit`, which is created once to avoid a closure per decision. */
  #call: Call = NO_CALL
  #isTaken = false
  /** The buckets of this tick. */
  #bucket = 0
  #minute = 0
  /** Cached until the next tick. */
  #snapshot: NodeSnapshot | undefined

  constructor(deps: NodeStatsDeps) {
    const { nowMs, decisionTimes, storeTimes } = deps
    this.#deps = deps
    this.#nowMs = nowMs
    this.#totalClock = new BucketClock(BUCKET_MS, nowMs)
    this.#ruleClock = new BucketClock(RULE_BUCKET_MS, nowMs)
    this.#minuteClock = new BucketClock(MINUTE_MS, nowMs)
    this.#decisionRing = new HistogramRing(decisionTimes, BUCKETS, this.#totalClock.end)
    this.#storeRing = storeTimes && new HistogramRing(storeTimes, BUCKETS, this.#totalClock.end)
  }

  get node(): NodeInfo {
    return this.#deps.node
  }

  /** The hot path: this function and `#visit`. */
  onDecision(decision: Decision, call: Call): void {
    const total = this.#total
    if (!decision.allowed) total.refused++
    else if (decision.shadow.length > 0) total.shadowRefused++
    else total.allowed++
    if (decision.postures !== undefined) total.degraded++
    this.#call = call
    // A refused call consumed nothing of the rules that would have admitted it.
    this.#isTaken = decision.allowed
    decision.eachCaller(this.#visit)
    if (decision.shadow.length > 0) this.recordShadowRefusals(decision)
  }

  private recordShadowRefusals(decision: Decision): void {
    for (const refusal of decision.shadowRefusals()) {
      const { rule } = refusal
      const observers = this.#rules.get(rule) ?? this.observersOf(rule)
      observers?.callers.recordShadowRefusal(refusal, this.#nowMs)
    }
  }

  readonly #visit: CallerVisit = (rule, by, caller, outcome, left, cost, call, resetAfterMs) => {
    const observers = this.#rules.get(rule) ?? this.observersOf(rule)
    if (observers === undefined) return
    const taken = this.#isTaken ? takenBy(cost, this.#call) : 0
    const nowMs = this.#nowMs
    observers.callers.record(by, caller, outcome, left, taken, call, nowMs, resetAfterMs)
    observers.distinct?.record(caller.hi, caller.lo)
    observers.remaining.observe(left)
  }

  /** Called once a second with the wall clock. */
  tick(nowMs: number): void {
    this.#nowMs = nowMs
    this.#snapshot = undefined
    const { metrics, distinct, callers } = this.#deps
    const ruleEnd = this.#ruleClock.end
    this.advance(nowMs)
    metrics.eachRule(this.#visitCounted)
    if (this.#ruleClock.end > ruleEnd) this.dropIdle()
    distinct.tick(nowMs)
    callers.tick(nowMs)
  }

  /** Assigns the growth of the totals to buckets; forgets future buckets of a clock set back. */
  private advance(nowMs: number): void {
    const [ruleEnd, minuteEnd] = [this.#ruleClock.end, this.#minuteClock.end]
    const bucket = this.#totalClock.advance(nowMs)
    this.#bucket = this.#ruleClock.advance(nowMs)
    this.#minute = this.#minuteClock.advance(nowMs)
    this.#totalRing.feed(bucket, this.#total)
    this.#decisionRing.feed(bucket)
    this.#storeRing?.feed(bucket)
    this.#minuteRing.feed(this.#minute, this.#total)
    this.feedPriorities(bucket)
    this.#inFlightPeaks.record(this.#deps.inFlight?.() ?? [], this.#minute)
    if (this.#bucket < ruleEnd) {
      for (const steps of this.#ruleSeries.values()) steps.rewind(this.#bucket, nowMs)
    }
    if (this.#minute < minuteEnd) {
      for (const { left } of this.#rules.values()) left.rewind(this.#minute)
    }
  }

  private feedPriorities(bucket: number): void {
    for (const [priority, { admitted, shed, shadowShed }] of this.#deps.priorities?.() ?? []) {
      const ring = this.#priorityRings.get(priority) ?? new BucketRing(BUCKETS)
      this.#priorityRings.set(priority, ring)
      ring.feed(bucket, {
        allowed: admitted,
        refused: shed,
        shadowRefused: shadowShed,
        degraded: 0,
      })
    }
  }

  readonly #visitCounted: RuleVisit = (name, _decisions, _degraded, counted) => {
    // Calls without a matching rule are only in the totals.
    if (name === '') return
    const known = this.#ruleSeries.get(name)
    const steps = known ?? new RuleSeries(name)
    if (known === undefined) this.#ruleSeries.set(name, steps)
    if (steps.feed(this.#bucket, counted, this.#nowMs))
      this.#rules.get(name)?.left.feed(this.#minute)
  }

  private observersOf(rule: string): RuleObservers | undefined {
    if (this.#rules.size >= RULES_MAX) return undefined
    const { callers, distinct, remaining } = this.#deps
    const shares = remaining.ofRule(rule)
    const made = {
      callers: callers.ofRule(rule),
      distinct: distinct.ofRule(rule),
      remaining: shares,
      left: new RemainingShares(shares, this.#minuteClock.end),
    }
    this.#rules.set(rule, made)
    return made
  }

  private dropIdle(): void {
    for (const steps of this.#ruleSeries.values()) {
      if (steps.dropIdle(this.#ruleClock.end)) this.#rules.delete(steps.name)
    }
  }

  /** The snapshot for the other nodes, as of the last tick; the same until the next. */
  snapshot(nowMs: number): NodeSnapshot {
    this.#snapshot ??= this.makeSnapshot(nowMs)
    return this.#snapshot
  }

  private makeSnapshot(nowMs: number): NodeSnapshot {
    const { node, rulesVersion, problem, storeHealth, callers } = this.#deps
    const { id, host, pid, release, startedAt } = node
    const { firstBucket, end } = this.#totalClock
    return {
      format: 1,
      node: { id, host, pid },
      release,
      startedAt,
      rulesVersion: rulesVersion(),
      problem: problem?.()?.slice(0, PROBLEM_LENGTH_MAX) ?? null,
      atMs: nowMs,
      total: this.#totalRing.series(firstBucket, end),
      minutes: this.#minuteRing.series(this.#minuteClock.firstBucket, this.#minuteClock.end),
      decisions: this.#decisionRing.latency(firstBucket, end),
      store: this.#storeRing?.latency(firstBucket, end) ?? NO_LATENCY,
      storeHealth: storeHealth(),
      rules: this.busiest().map((steps) => this.ruleSnapshot(steps)),
      priorities: this.prioritySnapshots(),
      inFlight: this.inFlightSnapshots(),
      callersSinceMs: callers.callersSinceMs,
      callers: callers.view(SNAPSHOT_CALLERS_MAX, nowMs),
      shadowCallers: callers.shadowView(SNAPSHOT_CALLERS_MAX),
      alerts: firstAlerts(this.#deps.alerts?.()),
    }
  }

  private prioritySnapshots(): readonly PrioritySnapshot[] {
    const { firstBucket, end } = this.#totalClock
    return (this.#deps.priorities?.() ?? []).flatMap(([priority]) => {
      const series = this.#priorityRings.get(priority)?.series(firstBucket, end)
      return series === undefined ? [] : { priority, series }
    })
  }

  private inFlightSnapshots(): readonly InFlightSnapshot[] {
    return (this.#deps.inFlight?.() ?? []).map((calls) => {
      const peak = this.#inFlightPeaks.get(calls.rule, this.#minute)
      return { ...calls, peak: Math.max(peak, calls.inFlight) }
    })
  }

  /** A rule, even if the snapshot leaves it out; undefined if it made no decisions. */
  rule(rule: string): RuleSnapshot | undefined {
    const steps = this.#ruleSeries.get(rule)
    return steps?.ring.hasData === true && !steps.isCandidate ? this.ruleSnapshot(steps) : undefined
  }

  /** The name of a caller, if this node knows it. */
  nameOf(rule: string, hash: string): KnownCaller | undefined {
    return this.#deps.callers.nameOf(rule, hash)
  }

  /** Most refusals first, then most decisions. */
  private busiest(): readonly RuleSeries[] {
    const { end } = this.#ruleClock
    const all: { steps: RuleSeries; decisions: number; refused: number }[] = []
    for (const steps of this.#ruleSeries.values()) {
      if (steps.ring.hasData && !steps.isCandidate) all.push({ steps, ...steps.ring.sum(end + 1) })
    }
    all.sort((a, b) => b.refused - a.refused || b.decisions - a.decisions)
    return all.slice(0, SNAPSHOT_RULES_MAX).map(({ steps }) => steps)
  }

  private ruleSnapshot(steps: RuleSeries): RuleSnapshot {
    const { firstBucket, end } = this.#ruleClock
    const { name } = steps
    const candidate = this.#ruleSeries.get(candidateId(name))?.ring
    const observers = this.#rules.get(name)
    return {
      rule: name,
      series: steps.ring.series(firstBucket, end),
      candidate: candidate?.hasData === true ? candidate.series(firstBucket, end) : null,
      refusingSinceMs: steps.refusingSinceMs(this.#nowMs),
      sketch: observers?.distinct?.isCounted === true ? observers.distinct.registers() : null,
      left: observers?.left.counts(this.#minuteClock.end) ?? NO_LEFT,
    }
  }
}

const NO_CALL: Call = { attributes: {} }
const NO_LEFT: readonly number[] = [0, 0, 0, 0, 0, 0]

function takenBy(cost: Cost, call: Call): number {
  const callCost = call.cost ?? 1
  if (cost === 1) return callCost
  const amount = amountOf(cost, call, callCost)
  // Always a number here: a rule that cannot read the cost makes no decision.
  return typeof amount === 'number' ? amount : 0
}

function firstAlerts(alerts: AlertLists | undefined): AlertLists {
  return {
    active: alerts?.active.slice(0, SNAPSHOT_ALERTS_MAX) ?? [],
    recent: alerts?.recent.slice(0, SNAPSHOT_ALERTS_MAX) ?? [],
  }
}
