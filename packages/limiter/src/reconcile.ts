/**
 * What the store says of a call after it was decided without its whole answer: nothing granted to a
 * refused call stays taken, and nothing admitted is taken twice.
 */
import type { CounterKey, Plan, PlannedTake } from '@sluice/core'
import type { PendingDecision } from './pending-decision.js'
import { answerAt, type Spending } from './fallback/fallback-decider.js'
import type { DeferredCharges } from './deferred-charges.js'
import type { Answer, Give, Groups, Store } from './store.js'

export interface ReconcilerDeps {
  readonly store: Store
  readonly deferredCharges: DeferredCharges
  /** Returns what was taken here, because the store has taken it after all. */
  readonly returnLocal: (spending: Spending) => void
  /** Something was given back: what is known here of the counter is old. */
  readonly invalidate: (key: CounterKey) => void
  /** The same after it was done, for other nodes as well. */
  readonly invalidateEverywhere: (key: CounterKey) => void
}

export class Reconciler {
  readonly #deps: ReconcilerDeps
  #givesLost = 0

  constructor(deps: ReconcilerDeps) {
    this.#deps = deps
  }

  /** Give-backs that the store did not confirm. */
  get givesLost(): number {
    return this.#givesLost
  }

  /** A call was decided by posture, with these answers of the store to a part of it. */
  onFallback(pending: PendingDecision, answers: Groups<Answer> | undefined): void {
    const { plan, allowed, spendings } = pending
    if (answers !== undefined && !allowed) this.giveBackAll(plan, answers)
    for (const [i, spending] of spendings.entries()) {
      if (answerAt(answers, 0, i) === 'not-run') this.deferCharge(spending)
    }
  }

  /** Goes by each take whose fate was not known until now. */
  reconcile(pending: PendingDecision, answers: Groups<Answer>): void {
    const { plan, allowed, spendings } = pending
    const before = pending.answers
    pending.answers = answers
    for (const [g, takes] of plan.groups.entries()) {
      for (const [i, take] of takes.entries()) {
        if (answerAt(before, g, i) !== 'unknown') continue
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
   * What was granted to a call that is refused. A limit that charges for refusals keeps it, but not
   * in a shadow group, which a refused call never opens.
   */
  private giveBack({ key, limit }: PlannedTake, answer: Answer, group: number): void {
    if (typeof answer === 'string' || answer.granted === 0) return
    if (group === 0 && limit.onRefusal === 'charge') return
    void this.give({ key, limit, amount: answer.granted, at: answer.at, undone: true })
  }

  /** Tried once: what may have been given back must not be given twice. */
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
