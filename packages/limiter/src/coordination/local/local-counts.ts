/**
 * `coordination: local`: a call is decided from the last known state of the store plus local usage,
 * which is reported twice every `syncEvery`. Only the first call of a caller waits for the store,
 * and the second if it comes after the next round.
 *
 * The fleet over-admits at most min{(nodes - 1) * max, what is offered until all nodes know}:
 * within `syncEvery` and two round trips. Calls of a new caller that are in flight to the store
 * while others are already decided here may add to the former. During a partition each side admits
 * the whole limit.
 */
import {
  algorithmOf,
  type CounterKey,
  type Limit,
  type Outcome,
  type PlannedTake,
  wholeLimit,
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

/** The most counters kept; the store decides further callers. About 40 MB. */
export const LOCAL_COUNTERS_MAX = 100_000

export class LocalCounts implements NodeDecider {
  readonly #deps: SyncDeps
  readonly #debts = new DebtLimits()
  readonly #known = new CounterMap<LocalCounter>()
  readonly #syncs = new Map<number, LocalSync>()
  readonly #statsByRule = new StatsByRule()
  /** Final reports of counters that were dropped. */
  readonly #finalReports = new Set<Promise<void>>()
  /** Answers to requests sent before this are outdated by a reset. */
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
    const limit = this.limitOf(counter, take)
    const step = counter.take(limit, take, this.#deps.placeInWindow(limit))
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
    const limit = this.limitOf(counter, take)
    const now = this.#deps.placeInWindow(limit)
    const state = counter.stateAt(now)
    const outcome = algorithmOf(limit).peek(state, limit, take.amount, now)
    const { granted, remaining, resetAfterMs, retryAfterMs, delayMs, at } = outcome
    const staleMs = ageOf(counter, this.#deps.monotonicMs())
    return { granted, remaining, resetAfterMs, retryAfterMs, delayMs, at, staleMs, state }
  }

  /** With the rule's own limit the store would drop debt, once for each node that calls it. */
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

  /** Learns the state of a counter from the store's answer, if there is one. */
  learn(take: PlannedTake, answer: Answer, sentMs: number): void {
    if (typeof answer === 'string' || !('state' in answer) || this.#isClosed) return
    if (sentMs < this.#changedMs) return
    const { key, limit } = take
    const compiled = wholeLimit(take.compiled)
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
    const counter = new LocalCounter({ key, compiled }, stats, debtLimit, answer.state, sentMs)
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

  /** The counter of a take; if its limit has changed too much, it is reported and dropped. */
  private find(take: PlannedTake): LocalCounter | undefined {
    const { key } = take
    const compiled = wholeLimit(take.compiled)
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

  /** The limit that decides a take: one that keeps debt, under the ceiling of its priority. */
  private limitOf({ debtLimit }: LocalCounter, { limit, compiled }: PlannedTake): Limit {
    const { limit: waiting, immediate } =
      compiled.ceiling === undefined ? debtLimit : this.#debts.get(compiled, debtLimit.nodes)
    return limit === compiled.limit ? waiting : immediate
  }

  /** Whether its rounds are late and it was idle for so long that it should be dropped. */
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

/** References its counter, so that units put back late do not reach a newer one. */
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
