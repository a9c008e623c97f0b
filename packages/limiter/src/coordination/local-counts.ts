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
import type { Answer, Give } from '../store.js'
import { ByKey } from './by-key.js'
import { DebtLimits } from './debt-limit.js'
import type { Here, HereOutcome, HereStats, NodeParts } from './here.js'
import { LocalCounter } from './local-counter.js'
import {
  giveBack,
  isOfAnotherClock,
  LocalSync,
  nodesOf,
  reportOnce,
  type SyncParts,
} from './local-sync.js'
import { Tallies } from './tally.js'

/** Counters known here; those of further callers are decided by the store. About 40 MB. */
export const LOCAL_COUNTERS_MAX = 100_000

export class LocalCounts implements Here {
  readonly #parts: SyncParts
  readonly #debts = new DebtLimits()
  readonly #known = new ByKey<LocalCounter>()
  readonly #syncs = new Map<number, LocalSync>()
  readonly #tallies = new Tallies()
  /** Last reports of counters that are not known any more. */
  readonly #leaving = new Set<Promise<void>>()
  /** What was asked before this is of other rules, or from before a reset. */
  #changedMs = -Infinity
  #isClosed = false

  constructor(parts: NodeParts) {
    this.#parts = { ...parts, debts: this.#debts, drop: (counter) => this.drop(counter) }
  }

  get stats(): ReadonlyMap<string, HereStats> {
    return this.#tallies.all
  }

  take(take: PlannedTake): HereOutcome | undefined {
    const counter = this.find(take)
    if (counter === undefined) return undefined
    const nowMs = this.#parts.monotonicMs()
    if (this.isStale(counter, nowMs)) {
      this.drop(counter)
      return undefined
    }
    if (counter.isUnread) return undefined
    counter.askedMs = nowMs
    counter.wasAsked = true
    const limit = counter.limitOf(take)
    const step = counter.take(limit, take.amount, this.#parts.placeAt(limit))
    return new LocalOutcome(step, ageOf(counter, nowMs), counter)
  }

  isReady(take: PlannedTake): boolean {
    return this.find(take) !== undefined
  }

  putBack({ key }: PlannedTake, outcome: HereOutcome): void {
    const counter = LocalOutcome.counterOf(outcome) ?? this.#known.get(key)
    if (counter === undefined || counter.isForgotten) return
    this.returned(counter, outcome.granted, outcome.at, false)
  }

  look(take: PlannedTake): (HereOutcome & { readonly state: unknown }) | undefined {
    const counter = this.find(take)
    if (counter === undefined || counter.isUnread) return undefined
    const limit = counter.limitOf(take)
    const now = this.#parts.placeAt(limit)
    const state = counter.stateAt(now)
    const outcome = algorithmOf(limit).peek(state, limit, take.amount, now)
    const { granted, remaining, resetAfterMs, retryAfterMs, delayMs, at } = outcome
    const staleMs = ageOf(counter, this.#parts.monotonicMs())
    return { granted, remaining, resetAfterMs, retryAfterMs, delayMs, at, staleMs, state }
  }

  /** By the rule's own limit the store would forget what is owed, once for each node that asks. */
  inStore({ limit, of }: PlannedTake): Limit {
    const owing = this.#debts.of(of, nodesOf(this.#parts))
    return limit === of.limit ? owing.limit : owing.immediate
  }

  refund({ key, amount, at }: Give): boolean {
    const counter = this.#known.get(key)
    if (counter === undefined) return false
    this.returned(counter, amount, at ?? this.#parts.placeAt(counter.owing.limit), true)
    return true
  }

  /** Silence teaches nothing. */
  learn(take: PlannedTake, answer: Answer, sentMs: number): void {
    if (typeof answer === 'string' || !('state' in answer) || this.#isClosed) return
    if (sentMs < this.#changedMs) return
    const { key, of, limit } = take
    if (isOfAnotherClock(answer.at, this.#parts.placeAt(limit), limit)) return
    const before = this.#known.get(key)
    if (before !== undefined && !before.isUnread) {
      const now = this.#parts.placeAt(before.owing.limit)
      if (before.goesOnAs(of)) before.hear(answer.state, answer.granted, sentMs, now)
      return
    }
    if (before !== undefined) this.drop(before)
    if (this.#known.size >= LOCAL_COUNTERS_MAX) return
    const tally = this.#tallies.of(of.rule)
    const owing = this.#debts.of(of, nodesOf(this.#parts))
    const counter = new LocalCounter(take, tally, owing, answer.state, sentMs)
    counter.wasAsked = before !== undefined
    tally.counters += 1
    this.#known.add(counter)
    this.syncOf(of.syncEveryMs).add(counter)
  }

  forget(key: CounterKey): void {
    this.#changedMs = this.#parts.monotonicMs()
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
    await Promise.all([...syncs.map((sync) => sync.close()), ...this.#leaving])
    for (const counter of counters) this.strike(counter)
  }

  /** The counter of a take; one that has become another is reported and left to the store. */
  private find({ key, of }: PlannedTake): LocalCounter | undefined {
    const counter = this.#isClosed ? undefined : this.#known.get(key)
    if (counter === undefined || counter.of === of) return counter
    if (counter.goesOnAs(of)) {
      counter.of = of
      counter.owing = this.#debts.of(of, nodesOf(this.#parts))
      return counter
    }
    this.drop(counter)
    this.keepLeaving(reportOnce([counter], this.#parts))
    return undefined
  }

  /** Its rounds are late, and nobody asked for so long that it should be dropped. */
  private isStale(counter: LocalCounter, nowMs: number): boolean {
    const idleMs = this.#syncs.get(counter.everyMs)?.idleMs ?? 0
    return nowMs - counter.askedMs >= idleMs && !counter.isOpen
  }

  private returned(counter: LocalCounter, amount: number, at: number, wasMade: boolean): void {
    const now = this.#parts.placeAt(counter.owing.limit)
    const reported = counter.putBack(amount, at, now, wasMade)
    if (reported > 0) void giveBack(counter, reported, at, this.#parts)
  }

  private drop(counter: LocalCounter): void {
    this.strike(counter)
    const sync = this.#syncs.get(counter.everyMs)
    sync?.delete(counter)
    if (sync?.counters.size === 0) this.#syncs.delete(counter.everyMs)
  }

  private strike(counter: LocalCounter): void {
    counter.isKnown = false
    this.#known.delete(counter)
    counter.tally.counters -= 1
  }

  private syncOf(everyMs: number): LocalSync {
    const known = this.#syncs.get(everyMs)
    if (known !== undefined) return known
    const made = new LocalSync(everyMs, this.#parts)
    this.#syncs.set(everyMs, made)
    return made
  }

  private keepLeaving(report: Promise<void>): void {
    this.#leaving.add(report)
    void report.finally(() => this.#leaving.delete(report))
  }
}

function ageOf({ readMs }: LocalCounter, nowMs: number): number {
  return Math.max(0, Math.round(nowMs - readMs))
}

/** Knows the counter it is of, so that what is put back late does not reach a newer one. */
class LocalOutcome implements HereOutcome {
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

  static counterOf(outcome: HereOutcome): LocalCounter | undefined {
    return #counter in outcome ? outcome.#counter : undefined
  }
}
