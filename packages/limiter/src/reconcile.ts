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
    if (answers !== undefined && !allowed) void this.giveBackAll(plan, answers, () => true)
    for (const [i, spending] of spendings.entries()) {
      if (answerAt(answers, 0, i) === 'not-run') this.deferCharge(spending)
    }
  }

  /** Handles each take whose fate was unknown until now. */
  reconcile(pending: PendingDecision, answers: Groups<Answer>): void {
    const { plan, allowed, spendings } = pending
    const before = pending.answers
    pending.answers = answers
    const isDue = (group: number, at: number) => {
      const limit = plan.groups[group]?.[at]?.limit
      // Places that were granted too late are given back where they are held.
      return answerAt(before, group, at) === 'unknown' && !(limit && isConcurrency(limit))
    }
    if (!allowed) {
      void this.giveBackAll(plan, answers, isDue)
      return
    }
    for (const [i, spending] of spendings.entries()) {
      if (isDue(0, i)) this.reconcileSpending(spending, answerAt(answers, 0, i))
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

  /**
   * Returns what was granted to a refused call. The mark of a reservation comes first, and if that
   * is not confirmed nothing else is returned: whoever finds the mark has the units.
   */
  private async giveBackAll(
    plan: Plan,
    answers: Groups<Answer>,
    isDue: (group: number, at: number) => boolean,
  ): Promise<void> {
    const gives: Give[] = []
    for (const [g, takes] of plan.groups.entries()) {
      for (const [i, take] of takes.entries()) {
        const give = isDue(g, i) ? giveOf(take, answerAt(answers, g, i), g) : undefined
        if (give === undefined) continue
        if (isConcurrency(take.limit)) this.#deps.givePlaces(take.key, give.amount)
        else if (take.isMark !== true) gives.push(give)
        else if (!(await this.give(give))) return
      }
    }
    for (const give of gives) void this.give(give)
  }

  /**
   * Tried once: units that may have been returned must not be returned twice. Returns whether the
   * store has confirmed it.
   */
  private async give(give: Give): Promise<boolean> {
    let isDone = true
    this.#deps.invalidate(give.key)
    try {
      await this.#deps.store.give(give)
    } catch {
      this.#givesLost += 1
      isDone = false
    }
    this.#deps.invalidateEverywhere(give.key)
    return isDone
  }
}

/**
 * What a refused call was granted. A limit that charges refusals keeps it, but not in a shadow
 * group, which a refused call never opens.
 */
function giveOf(take: PlannedTake, answer: Answer, group: number): Give | undefined {
  const { key, limit } = take
  if (typeof answer === 'string' || answer.granted <= 0) return undefined
  if (group === 0 && isChargedOnRefusal(take)) return undefined
  return { key, limit, amount: answer.granted, at: answer.at, undone: true }
}
