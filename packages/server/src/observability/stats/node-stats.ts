/**
 * What this node sees of its decisions: counts by steps of time, callers, shares left. What is kept
 * of a decision is added to totals and sketches that are there already; steps are cut from those
 * once a second, and everything else is made when somebody looks.
 */
import type { Call, CallerVisit, Cost, Decision } from '@sluice/core'
import { amountOf, candidateId } from '@sluice/core'
import type { DecisionMetrics, RuleVisit } from '../metrics/decision-metrics.js'
import type { NodeInfo } from '../../rules/sync/open-rule-follower.js'
import type { CallerTracker, KnownCaller } from './callers/caller-tracker.js'
import type { RuleCallers } from './callers/rule-callers.js'
import type { DistinctCallers, RuleDistinctCallers } from './distinct-callers.js'
import { HistogramRing, type HistogramReader, NO_LATENCY } from './latency.js'
import {
  SNAPSHOT_ALERTS_MAX,
  SNAPSHOT_CALLERS_MAX,
  MINUTE_BUCKETS,
  type NodeSnapshot,
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
  /** What keeps it from the newest rules, for people. @default nothing */
  readonly problem?: (() => string | undefined) | undefined
  readonly metrics: Pick<DecisionMetrics, 'eachRule'>
  /** How long decisions took, in seconds. */
  readonly decisionTimes: HistogramReader
  /** How long the store took, in seconds; undefined: it is in this process. */
  readonly storeTimes: HistogramReader | undefined
  readonly storeHealth: () => StoreSnapshot
  /** @default none */
  readonly alerts?: (() => AlertLists) | undefined
  readonly callers: Pick<
    CallerTracker,
    'ofRule' | 'tick' | 'view' | 'shadowView' | 'nameOf' | 'callersSinceMs'
  >
  readonly distinct: Pick<DistinctCallers, 'ofRule' | 'tick'>
  /** Shares left, as the metrics have them; below 0: not known. */
  readonly remaining: { ofRule(rule: string): HistogramReader & { observe(left: number): void } }
  /** Milliseconds since 1970. */
  readonly nowMs: number
}

const MINUTE_MS = 60_000
const PROBLEM_LENGTH_MAX = 500
/** As many as decisions are counted by: see metrics/decisions.ts. */
const RULES_MAX = 20_000

/** What the decisions of one rule are told to; found by one look. */
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
  /** By the names that decisions are counted by, which have a bound: candidates too. */
  readonly #ruleSeries = new Map<string, RuleSeries>()
  /**
   * The time of the last tick. It is the time of all decisions until the next one: reading a clock
   * for each would cost more than all else that is done with it here.
   */
  #nowMs: number
  /** Of the call that is looked at: the visitor is made once, or each decision would make one. */
  #call: Call = NO_CALL
  #isTaken = false
  /** Of this tick. */
  #bucket = 0
  #minute = 0
  /** Undefined: nobody has looked since the last tick. */
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

  /** Everything an ordinary decision costs here is in this function and `#visit`. */
  onDecision(decision: Decision, call: Call): void {
    const total = this.#total
    if (!decision.allowed) total.refused++
    else if (decision.shadow.length > 0) total.shadowRefused++
    else total.allowed++
    if (decision.postures !== undefined) total.degraded++
    this.#call = call
    // A call that one rule refused took nothing of another that had room.
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

  /** Once a second, by the wall clock. */
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

  /** Cuts the steps of everything together, and forgets what a clock put back has yet to reach. */
  private advance(nowMs: number): void {
    const [ruleEnd, minuteEnd] = [this.#ruleClock.end, this.#minuteClock.end]
    const bucket = this.#totalClock.advance(nowMs)
    this.#bucket = this.#ruleClock.advance(nowMs)
    this.#minute = this.#minuteClock.advance(nowMs)
    this.#totalRing.feed(bucket, this.#total)
    this.#decisionRing.feed(bucket)
    this.#storeRing?.feed(bucket)
    this.#minuteRing.feed(this.#minute, this.#total)
    if (this.#bucket < ruleEnd) {
      for (const steps of this.#ruleSeries.values()) steps.rewind(this.#bucket, nowMs)
    }
    if (this.#minute < minuteEnd) {
      for (const { left } of this.#rules.values()) left.rewind(this.#minute)
    }
  }

  readonly #visitCounted: RuleVisit = (name, _decisions, _degraded, counted) => {
    // Calls that no rule speaks of are in the totals alone.
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

  /** What the other nodes are told: up to the last tick, and the same until the next. */
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
      callersSinceMs: callers.callersSinceMs,
      callers: callers.view(SNAPSHOT_CALLERS_MAX, nowMs),
      shadowCallers: callers.shadowView(SNAPSHOT_CALLERS_MAX),
      alerts: firstAlerts(this.#deps.alerts?.()),
    }
  }

  /** One rule, also where it is not among those that are told; undefined: it decided nothing. */
  rule(rule: string): RuleSnapshot | undefined {
    const steps = this.#ruleSeries.get(rule)
    return steps?.ring.hasData === true && !steps.isCandidate ? this.ruleSnapshot(steps) : undefined
  }

  /** What this node knows of a caller that is told by its hash. */
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
  // A rule that cannot read the cost judges no call, so that it is not visited.
  return typeof amount === 'number' ? amount : 0
}

function firstAlerts(alerts: AlertLists | undefined): AlertLists {
  return {
    active: alerts?.active.slice(0, SNAPSHOT_ALERTS_MAX) ?? [],
    recent: alerts?.recent.slice(0, SNAPSHOT_ALERTS_MAX) ?? [],
  }
}
