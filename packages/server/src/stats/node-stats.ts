/**
 * What this node sees of its decisions: counts by steps of time, callers, shares left. What is kept
 * of a decision is added to totals and sketches that are there already; steps are cut from those
 * once a second, and everything else is made when somebody looks.
 */
import type { Call, CallerVisit, Cost, Decision } from '@sluice/core'
import { amountOf, candidateId } from '@sluice/core'
import type { DecisionMetrics, RuleVisit } from '../metrics/decisions.js'
import type { NodeInfo } from '../source/open-source.js'
import type { KnownCaller } from './callers/caller-tracker.js'
import type { RuleCallers } from './callers/rule-callers.js'
import { HistogramRing, type Measured, NO_LATENCY } from './latency.js'
import {
  ALERTS_TOLD_MAX,
  CALLERS_TOLD_MAX,
  MINUTE_STEPS,
  type NodeSight,
  RULE_STEP_MS,
  RULES_TOLD_MAX,
  type SeenAlerts,
  type SeenCaller,
  type SeenRule,
  type SeenShadowCaller,
  type SeenStore,
  STEP_MS,
  STEPS,
} from './node-sight.js'
import { LeftShares, RuleSteps } from './rule-steps.js'
import { StepRing } from './series.js'
import { StepClock } from './steps.js'

interface Callers {
  /** The same one each time; undefined: there are too many rules. */
  ofRule(rule: string): RuleCallers | undefined
  tick(nowMs: number): void
  /** The first ones of each rule by each order. */
  view(most: number, nowMs: number): readonly SeenCaller[]
  /** The first ones of each rule that would have been refused. */
  shadowView(most: number): readonly SeenShadowCaller[]
  /** Undefined: this node has not met it, or too little to name it. */
  nameOf(rule: string, hash: string): KnownCaller | undefined
  /** Since when they are counted. */
  readonly callersSinceMs: number
}

/** How many different callers one rule has. */
interface RuleDistinct {
  seen(hi: number, lo: number): void
  /** False: there was no memory for it, and its registers mean nothing. */
  readonly isCounted: boolean
  registers(): string
}

interface Distinct {
  /** The same one each time; undefined: there are too many rules. */
  ofRule(rule: string): RuleDistinct | undefined
  tick(nowMs: number): void
}

export interface NodeStatsParts {
  readonly node: NodeInfo
  readonly rulesVersion: () => number
  /** What keeps it from the newest rules, for people. @default nothing */
  readonly problem?: (() => string | undefined) | undefined
  readonly metrics: Pick<DecisionMetrics, 'eachRule'>
  /** How long decisions took, in seconds. */
  readonly decisionTimes: Measured
  /** How long the store took, in seconds; undefined: it is in this process. */
  readonly storeTimes: Measured | undefined
  readonly storeHealth: () => SeenStore
  /** @default none */
  readonly alerts?: (() => SeenAlerts) | undefined
  readonly callers: Callers
  readonly distinct: Distinct
  /** Shares left, as the metrics have them; below 0: not known. */
  readonly remaining: { ofRule(rule: string): Measured & { observe(left: number): void } }
  /** Milliseconds since 1970. */
  readonly nowMs: number
}

const MINUTE_MS = 60_000
const PROBLEM_LENGTH_MAX = 500
/** As many as decisions are counted by: see metrics/decisions.ts. */
const RULES_MAX = 20_000

/** What the decisions of one rule are told to; found by one look. */
interface SeenBy {
  readonly callers: RuleCallers | undefined
  readonly distinct: RuleDistinct | undefined
  readonly remaining: { observe(left: number): void }
  readonly left: LeftShares
}

export class NodeStats {
  readonly #parts: NodeStatsParts
  readonly #steps: StepClock
  readonly #ruleSteps: StepClock
  readonly #minutes: StepClock
  readonly #total = { allowed: 0, refused: 0, shadowRefused: 0, degraded: 0 }
  readonly #totalRing = new StepRing(STEPS)
  readonly #minuteRing = new StepRing(MINUTE_STEPS)
  readonly #decisionRing: HistogramRing
  readonly #storeRing: HistogramRing | undefined
  readonly #rules = new Map<string, SeenBy>()
  /** By the names that decisions are counted by, which have a bound: candidates too. */
  readonly #named = new Map<string, RuleSteps>()
  /**
   * The time of the last tick. It is the time of all decisions until the next one: reading a clock
   * for each would cost more than all else that is done with it here.
   */
  #nowMs: number
  /** Of the call that is looked at: the visitor is made once, or each decision would make one. */
  #call: Call = NO_CALL
  #isTaken = false
  /** Of this tick. */
  #step = 0
  #minute = 0
  /** Undefined: nobody has looked since the last tick. */
  #sight: NodeSight | undefined

  constructor(parts: NodeStatsParts) {
    const { nowMs, decisionTimes, storeTimes } = parts
    this.#parts = parts
    this.#nowMs = nowMs
    this.#steps = new StepClock(STEP_MS, nowMs)
    this.#ruleSteps = new StepClock(RULE_STEP_MS, nowMs)
    this.#minutes = new StepClock(MINUTE_MS, nowMs)
    this.#decisionRing = new HistogramRing(decisionTimes, STEPS, this.#steps.end)
    this.#storeRing = storeTimes && new HistogramRing(storeTimes, STEPS, this.#steps.end)
  }

  get node(): NodeInfo {
    return this.#parts.node
  }

  /** Everything an ordinary decision costs here is in this function and `#visit`. */
  decided(decision: Decision, call: Call): void {
    const total = this.#total
    if (!decision.allowed) total.refused++
    else if (decision.shadow.length > 0) total.shadowRefused++
    else total.allowed++
    if (decision.postures !== undefined) total.degraded++
    this.#call = call
    // A call that one rule refused took nothing of another that had room.
    this.#isTaken = decision.allowed
    decision.eachCaller(this.#visit)
    if (decision.shadow.length > 0) this.wouldRefuse(decision)
  }

  private wouldRefuse(decision: Decision): void {
    for (const refusal of decision.shadowRefusals()) {
      const { rule } = refusal
      const seenBy = this.#rules.get(rule) ?? this.seenByOf(rule)
      seenBy?.callers?.wouldRefuse(refusal, this.#nowMs)
    }
  }

  readonly #visit: CallerVisit = (rule, by, caller, outcome, left, cost, call, resetAfterMs) => {
    const seenBy = this.#rules.get(rule) ?? this.seenByOf(rule)
    if (seenBy === undefined) return
    const taken = this.#isTaken ? takenBy(cost, this.#call) : 0
    const nowMs = this.#nowMs
    seenBy.callers?.seen(by, caller, outcome, left, taken, call, nowMs, resetAfterMs)
    seenBy.distinct?.seen(caller.hi, caller.lo)
    seenBy.remaining.observe(left)
  }

  /** Once a second, by the wall clock. */
  tick(nowMs: number): void {
    this.#nowMs = nowMs
    this.#sight = undefined
    const { metrics, distinct, callers } = this.#parts
    const ruleEnd = this.#ruleSteps.end
    this.advance(nowMs)
    metrics.eachRule(this.#visitCounted)
    if (this.#ruleSteps.end > ruleEnd) this.dropIdle()
    distinct.tick(nowMs)
    callers.tick(nowMs)
  }

  /** Cuts the steps of everything together, and forgets what a clock put back has yet to reach. */
  private advance(nowMs: number): void {
    const [ruleEnd, minuteEnd] = [this.#ruleSteps.end, this.#minutes.end]
    const step = this.#steps.advance(nowMs)
    this.#step = this.#ruleSteps.advance(nowMs)
    this.#minute = this.#minutes.advance(nowMs)
    this.#totalRing.feed(step, this.#total)
    this.#decisionRing.feed(step)
    this.#storeRing?.feed(step)
    this.#minuteRing.feed(this.#minute, this.#total)
    if (this.#step < ruleEnd) {
      for (const steps of this.#named.values()) steps.rewind(this.#step, nowMs)
    }
    if (this.#minute < minuteEnd) {
      for (const { left } of this.#rules.values()) left.rewind(this.#minute)
    }
  }

  readonly #visitCounted: RuleVisit = (name, _decisions, _degraded, counted) => {
    // Calls that no rule speaks of are in the totals alone.
    if (name === '') return
    const known = this.#named.get(name)
    const steps = known ?? new RuleSteps(name)
    if (known === undefined) this.#named.set(name, steps)
    if (steps.feed(this.#step, counted, this.#nowMs)) this.#rules.get(name)?.left.feed(this.#minute)
  }

  private seenByOf(rule: string): SeenBy | undefined {
    if (this.#rules.size >= RULES_MAX) return undefined
    const { callers, distinct, remaining } = this.#parts
    const shares = remaining.ofRule(rule)
    const made = {
      callers: callers.ofRule(rule),
      distinct: distinct.ofRule(rule),
      remaining: shares,
      left: new LeftShares(shares, this.#minutes.end),
    }
    this.#rules.set(rule, made)
    return made
  }

  private dropIdle(): void {
    for (const steps of this.#named.values()) {
      if (steps.dropIdle(this.#ruleSteps.end)) this.#rules.delete(steps.name)
    }
  }

  /** What the other nodes are told: up to the last tick, and the same until the next. */
  sight(nowMs: number): NodeSight {
    this.#sight ??= this.makeSight(nowMs)
    return this.#sight
  }

  private makeSight(nowMs: number): NodeSight {
    const { node, rulesVersion, problem, storeHealth, callers } = this.#parts
    const { id, host, pid, release, startedAt } = node
    const { beganAt, end } = this.#steps
    return {
      format: 1,
      node: { id, host, pid },
      release,
      startedAt,
      rulesVersion: rulesVersion(),
      problem: problem?.()?.slice(0, PROBLEM_LENGTH_MAX) ?? null,
      atMs: nowMs,
      total: this.#totalRing.series(beganAt, end),
      minutes: this.#minuteRing.series(this.#minutes.beganAt, this.#minutes.end),
      decisions: this.#decisionRing.latency(beganAt, end),
      store: this.#storeRing?.latency(beganAt, end) ?? NO_LATENCY,
      storeHealth: storeHealth(),
      rules: this.busiest().map((steps) => this.seenRule(steps)),
      callersSinceMs: callers.callersSinceMs,
      callers: callers.view(CALLERS_TOLD_MAX, nowMs),
      shadowCallers: callers.shadowView(CALLERS_TOLD_MAX),
      alerts: firstAlerts(this.#parts.alerts?.()),
    }
  }

  /** One rule, also where it is not among those that are told; undefined: it decided nothing. */
  rule(rule: string): SeenRule | undefined {
    const steps = this.#named.get(rule)
    return steps?.ring.isKept === true && !steps.isCandidate ? this.seenRule(steps) : undefined
  }

  /** What this node knows of a caller that is told by its hash. */
  nameOf(rule: string, hash: string): KnownCaller | undefined {
    return this.#parts.callers.nameOf(rule, hash)
  }

  /** Most refusals first, then most decisions. */
  private busiest(): readonly RuleSteps[] {
    const { end } = this.#ruleSteps
    const all: { steps: RuleSteps; decisions: number; refused: number }[] = []
    for (const steps of this.#named.values()) {
      if (steps.ring.isKept && !steps.isCandidate) all.push({ steps, ...steps.ring.sum(end + 1) })
    }
    all.sort((a, b) => b.refused - a.refused || b.decisions - a.decisions)
    return all.slice(0, RULES_TOLD_MAX).map(({ steps }) => steps)
  }

  private seenRule(steps: RuleSteps): SeenRule {
    const { beganAt, end } = this.#ruleSteps
    const { name } = steps
    const candidate = this.#named.get(candidateId(name))?.ring
    const seenBy = this.#rules.get(name)
    return {
      rule: name,
      series: steps.ring.series(beganAt, end),
      candidate: candidate?.isKept === true ? candidate.series(beganAt, end) : null,
      refusingSinceMs: steps.refusingSinceMs(this.#nowMs),
      sketch: seenBy?.distinct?.isCounted === true ? seenBy.distinct.registers() : null,
      left: seenBy?.left.counts(this.#minutes.end) ?? NO_LEFT,
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

function firstAlerts(alerts: SeenAlerts | undefined): SeenAlerts {
  return {
    active: alerts?.active.slice(0, ALERTS_TOLD_MAX) ?? [],
    recent: alerts?.recent.slice(0, ALERTS_TOLD_MAX) ?? [],
  }
}
