/**
 * Counts that nodes merge: a call is decided from what the store said last and what was spent here
 * since, and what was spent is reported twice every `syncEvery`. No call waits for the store but
 * the first of a caller, and the second if it does not come before the next round.
 *
 * The fleet admits at most min{(nodes - 1) * max, what is offered until all have heard} too much:
 * within `syncEvery` and two round trips. To the former, calls of a new caller may add that are on
 * their way to the store while others are decided here already. During a partition each side admits
 * the whole limit.
 */
import {
  algorithmOf,
  type CounterKey,
  type Limit,
  type Outcome,
  type PlannedTake,
} from '@sluice/core'
import type { Answer, Give } from '../../store.js'
import { CounterMap } from './counter-map.js'
import { DebtLimits } from './debt-limit.js'
import type {
  NodeDecider,
  NodeOutcome,
  CoordinationStats,
  CoordinationDeps,
} from '../node-decider.js'
import { LocalCounter } from './local-counter.js'
import {
  giveBack,
  isOfAnotherClock,
  LocalSync,
  nodesOf,
  reportOnce,
  type SyncDeps,
} from './local-sync.js'
import { StatsByRule } from '../coordination-stats.js'

/** Counters known here; those of further callers are decided by the store. About 40 MB. */
export const LOCAL_COUNTERS_MAX = 100_000

export class LocalCounts implements NodeDecider {
  readonly #deps: SyncDeps
  readonly #debts = new DebtLimits()
  readonly #known = new CounterMap<LocalCounter>()
  readonly #syncs = new Map<number, LocalSync>()
  readonly #statsByRule = new StatsByRule()
  /** Last reports of counters that are not known any more. */
  readonly #finalReports = new Set<Promise<void>>()
  /** What was asked before this is of other rules, or from before a reset. */
  #changedMs = -Infinity
  #isClosed = false

  constructor(deps: CoordinationDeps) {
    this.#deps = { ...deps, debts: this.#debts, drop: (counter) => this.drop(counter) }
  }

  get stats(): ReadonlyMap<string, CoordinationStats> {
    return this.#statsByRule.all
  }

  take(take: PlannedTake): NodeOutcome | undefined {
    const counter = this.find(take)
    if (counter === undefined) return undefined
    const nowMs = this.#deps.monotonicMs()
    if (this.isStale(counter, nowMs)) {
      this.drop(counter)
      return undefined
    }
    if (counter.isUnread) return undefined
    counter.usedMs = nowMs
    counter.wasUsedAgain = true
    const limit = counter.limitOf(take)
    const step = counter.take(limit, take.amount, this.#deps.placeInWindow(limit))
    return new LocalOutcome(step, ageOf(counter, nowMs), counter)
  }

  isReady(take: PlannedTake): boolean {
    return this.find(take) !== undefined
  }

  putBack({ key }: PlannedTake, outcome: NodeOutcome): void {
    const counter = LocalOutcome.counterOf(outcome) ?? this.#known.get(key)
    if (counter === undefined || counter.isForgotten) return
    this.returnUnits(counter, outcome.granted, outcome.at, false)
  }

  peek(take: PlannedTake): (NodeOutcome & { readonly state: unknown }) | undefined {
    const counter = this.find(take)
    if (counter === undefined || counter.isUnread) return undefined
    const limit = counter.limitOf(take)
    const now = this.#deps.placeInWindow(limit)
    const state = counter.stateAt(now)
    const outcome = algorithmOf(limit).peek(state, limit, take.amount, now)
    const { granted, remaining, resetAfterMs, retryAfterMs, delayMs, at } = outcome
    const staleMs = ageOf(counter, this.#deps.monotonicMs())
    return { granted, remaining, resetAfterMs, retryAfterMs, delayMs, at, staleMs, state }
  }

  /** By the rule's own limit the store would forget what is owed, once for each node that asks. */
  storeLimit({ limit, compiled }: PlannedTake): Limit {
    const debtLimit = this.#debts.get(compiled, nodesOf(this.#deps))
    return limit === compiled.limit ? debtLimit.limit : debtLimit.immediate
  }

  refund({ key, amount, at }: Give): boolean {
    const counter = this.#known.get(key)
    if (counter === undefined) return false
    this.returnUnits(counter, amount, at ?? this.#deps.placeInWindow(counter.debtLimit.limit), true)
    return true
  }

  /** Silence teaches nothing. */
  learn(take: PlannedTake, answer: Answer, sentMs: number): void {
    if (typeof answer === 'string' || !('state' in answer) || this.#isClosed) return
    if (sentMs < this.#changedMs) return
    const { key, compiled, limit } = take
    if (isOfAnotherClock(answer.at, this.#deps.placeInWindow(limit), limit)) return
    const before = this.#known.get(key)
    if (before !== undefined && !before.isUnread) {
      const now = this.#deps.placeInWindow(before.debtLimit.limit)
      if (before.canContinueAs(compiled))
        before.mergeAnswer(answer.state, answer.granted, sentMs, now)
      return
    }
    if (before !== undefined) this.drop(before)
    if (this.#known.size >= LOCAL_COUNTERS_MAX) return
    const stats = this.#statsByRule.get(compiled.rule)
    const debtLimit = this.#debts.get(compiled, nodesOf(this.#deps))
    const counter = new LocalCounter(take, stats, debtLimit, answer.state, sentMs)
    counter.wasUsedAgain = before !== undefined
    stats.counters += 1
    this.#known.add(counter)
    this.syncOf(compiled.syncEveryMs).add(counter)
  }

  forget(key: CounterKey): void {
    this.#changedMs = this.#deps.monotonicMs()
    const counter = this.#known.get(key)
    if (counter === undefined) return
    counter.forget()
    this.drop(counter)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const syncs = [...this.#syncs.values()]
    const counters = syncs.flatMap((sync) => [...sync.counters])
    this.#syncs.clear()
    await Promise.all([...syncs.map((sync) => sync.close()), ...this.#finalReports])
    for (const counter of counters) this.remove(counter)
  }

  /** The counter of a take; one that has become another is reported and left to the store. */
  private find({ key, compiled }: PlannedTake): LocalCounter | undefined {
    const counter = this.#isClosed ? undefined : this.#known.get(key)
    if (counter === undefined || counter.compiled === compiled) return counter
    if (counter.canContinueAs(compiled)) {
      counter.compiled = compiled
      counter.debtLimit = this.#debts.get(compiled, nodesOf(this.#deps))
      return counter
    }
    this.drop(counter)
    this.trackFinalReport(reportOnce([counter], this.#deps))
    return undefined
  }

  /** Its rounds are late, and nobody asked for so long that it should be dropped. */
  private isStale(counter: LocalCounter, nowMs: number): boolean {
    const idleMs = this.#syncs.get(counter.everyMs)?.idleMs ?? 0
    return nowMs - counter.usedMs >= idleMs && !counter.isOpen
  }

  private returnUnits(counter: LocalCounter, amount: number, at: number, wasMade: boolean): void {
    const now = this.#deps.placeInWindow(counter.debtLimit.limit)
    const reported = counter.putBack(amount, at, now, wasMade)
    if (reported > 0) void giveBack(counter, reported, at, this.#deps)
  }

  private drop(counter: LocalCounter): void {
    this.remove(counter)
    const sync = this.#syncs.get(counter.everyMs)
    sync?.delete(counter)
    if (sync?.counters.size === 0) this.#syncs.delete(counter.everyMs)
  }

  private remove(counter: LocalCounter): void {
    counter.isKnown = false
    this.#known.delete(counter)
    counter.stats.counters -= 1
  }

  private syncOf(everyMs: number): LocalSync {
    const known = this.#syncs.get(everyMs)
    if (known !== undefined) return known
    const made = new LocalSync(everyMs, this.#deps)
    this.#syncs.set(everyMs, made)
    return made
  }

  private trackFinalReport(report: Promise<void>): void {
    this.#finalReports.add(report)
    void report.finally(() => this.#finalReports.delete(report))
  }
}

function ageOf({ readMs }: LocalCounter, nowMs: number): number {
  return Math.max(0, Math.round(nowMs - readMs))
}

/** Knows the counter it is of, so that what is put back late does not reach a newer one. */
class LocalOutcome implements NodeOutcome {
  readonly granted: number
  readonly remaining: number
  readonly resetAfterMs: number
  readonly retryAfterMs: number | null
  readonly delayMs: number
  readonly at: number
  readonly staleMs: number
  readonly #counter: LocalCounter

  constructor(outcome: Outcome, staleMs: number, counter: LocalCounter) {
    this.granted = outcome.granted
    this.remaining = outcome.remaining
    this.resetAfterMs = outcome.resetAfterMs
    this.retryAfterMs = outcome.retryAfterMs
    this.delayMs = outcome.delayMs
    this.at = outcome.at
    this.staleMs = staleMs
    this.#counter = counter
  }

  static counterOf(outcome: NodeOutcome): LocalCounter | undefined {
    return #counter in outcome ? outcome.#counter : undefined
  }
}
