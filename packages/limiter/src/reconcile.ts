/**
 * Reconciles a call that was decided without the store's whole answer, once that arrives: nothing
 * granted to a refused call stays taken, and nothing admitted is taken twice.
 */
import {
  type CounterKey,
  isChargedOnRefusal,
  isConcurrency,
  type Plan,
  type PlannedTake,
} from '@sluice/core'
import type { PendingDecision } from './pending-decision.js'
import { answerAt, type Spending } from './fallback/fallback-decider.js'
import type { DeferredCharges } from './deferred-charges.js'
import type { Answer, Give, Groups, Store } from './store.js'

export interface ReconcilerDeps {
  readonly store: Store
  readonly deferredCharges: DeferredCharges
  /** Returns what was taken locally, because the store has taken it after all. */
  readonly returnLocal: (spending: Spending) => void
  /** Gives back places; what becomes of those that are granted late is not decided here. */
  readonly givePlaces: (key: CounterKey, amount: number) => void
  /** Drops what this node has cached of a counter. */
  readonly invalidate: (key: CounterKey) => void
  /** The same on the other nodes too, after units were returned. */
  readonly invalidateEverywhere: (key: CounterKey) => void
}

export class Reconciler {
  readonly #deps: ReconcilerDeps
  #givesLost = 0

  constructor(deps: ReconcilerDeps) {
    this.#deps = deps
  }

  /** Returns that the store did not confirm. */
  get givesLost(): number {
    return this.#givesLost
  }

  /** Handles a call that was decided by fallback, with the answers that the store did give. */
  onFallback(pending: PendingDecision, answers: Groups<Answer> | undefined): void {
    const { plan, allowed, spendings } = pending
    if (answers !== undefined && !allowed) this.giveBackAll(plan, answers)
    for (const [i, spending] of spendings.entries()) {
      if (answerAt(answers, 0, i) === 'not-run') this.deferCharge(spending)
    }
  }

  /** Handles each take whose fate was unknown until now. */
  reconcile(pending: PendingDecision, answers: Groups<Answer>): void {
    const { plan, allowed, spendings } = pending
    const before = pending.answers
    pending.answers = answers
    for (const [g, takes] of plan.groups.entries()) {
      for (const [i, take] of takes.entries()) {
        if (answerAt(before, g, i) !== 'unknown' || isConcurrency(take.limit)) continue
        const answer = answerAt(answers, g, i)
        if (!allowed) this.giveBack(take, answer, g)
        else if (g === 0) this.reconcileSpending(spendings[i], answer)
      }
    }
  }

  private reconcileSpending(spending: Spending | undefined, answer: Answer): void {
    if (spending === undefined || answer === 'unknown') return
    if (answer === 'not-run') this.deferCharge(spending)
    else if (answer.granted > 0) this.#deps.returnLocal(spending)
    else if (answer.remaining > 0) this.deferCharge(spending)
  }

  private deferCharge(spending: Spending | undefined): void {
    if (spending === undefined) return
    const { key, limit, amount } = spending.take
    this.#deps.deferredCharges.add(key, limit, amount, spending.at)
  }

  private giveBackAll(plan: Plan, answers: Groups<Answer>): void {
    for (const [g, takes] of plan.groups.entries()) {
      for (const [i, take] of takes.entries()) this.giveBack(take, answerAt(answers, g, i), g)
    }
  }

  /**
   * Returns what was granted to a refused call. A limit that charges refusals keeps it, but not in
   * a shadow group, which a refused call never opens.
   */
  private giveBack(take: PlannedTake, answer: Answer, group: number): void {
    const { key, limit } = take
    if (typeof answer === 'string' || answer.granted <= 0) return
    if (group === 0 && isChargedOnRefusal(take)) return
    if (isConcurrency(limit)) {
      this.#deps.givePlaces(key, answer.granted)
      return
    }
    void this.give({ key, limit, amount: answer.granted, at: answer.at, undone: true })
  }

  /** Tried once: units that may have been returned must not be returned twice. */
  private async give(give: Give): Promise<void> {
    this.#deps.invalidate(give.key)
    try {
      await this.#deps.store.give(give)
    } catch {
      this.#givesLost += 1
    }
    this.#deps.invalidateEverywhere(give.key)
  }
}
