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
import type { Places } from './concurrency/places.js'
import type { DeferredCharges } from './deferred-charges.js'
import type { Answer, Give, Groups, Store } from './store.js'

export interface ReconcilerDeps {
  readonly store: Store
  readonly deferredCharges: DeferredCharges
  /** Returns what was taken locally, because the store has taken it after all. */
  readonly returnLocal: (spending: Spending) => void
  /** The places of this node's calls; those that are granted late are given back there. */
  readonly places: Pick<Places, 'follows' | 'give'>
  /** Drops what this node has cached of a counter. */
  readonly invalidate: (key: CounterKey) => void
  /** The same on the other nodes too, after units were returned. */
  readonly invalidateEverywhere: (key: CounterKey) => void
}

/** Whether a take is to be handled now. */
type IsDue = (group: number, at: number, take: PlannedTake) => boolean

export class Reconciler {
  readonly #deps: ReconcilerDeps
  readonly #unfinished = new Set<Promise<void>>()
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
    const { plan, allowed, spendings, alternatives } = pending
    if (answers !== undefined && !allowed) this.follow(this.giveBackAll(plan, answers, () => true))
    this.deferUnsent(spendings, answers, 0)
    for (const { group, allowed: isOpen, spendings: own } of alternatives) {
      if (allowed && !isOpen && answers !== undefined) {
        this.follow(this.giveBackAll(plan, answers, (g) => g === group, true))
      }
      this.deferUnsent(own, answers, group)
    }
  }

  private deferUnsent(
    spendings: readonly (Spending | undefined)[],
    answers: Groups<Answer> | undefined,
    group: number,
  ): void {
    for (const [i, spending] of spendings.entries()) {
      if (answerAt(answers, group, i) === 'not-run') this.deferCharge(spending)
    }
  }

  /** Handles each take whose fate was unknown until now. */
  reconcile(pending: PendingDecision, answers: Groups<Answer>): void {
    const { plan, allowed, spendings, alternatives } = pending
    const before = pending.answers
    pending.answers = answers
    const isDue = (group: number, at: number, take: PlannedTake) =>
      answerAt(before, group, at) === 'unknown' && !this.#deps.places.follows(take)
    if (!allowed) {
      this.follow(this.giveBackAll(plan, answers, isDue))
      return
    }
    this.giveBackPlaces(plan, answers, isDue)
    this.reconcileGroup(spendings, answers, 0, isDue)
    for (const { group, allowed: isOpen, spendings: own } of alternatives) {
      if (isOpen) this.reconcileGroup(own, answers, group, isDue)
      else {
        const isRefused: IsDue = (g, at, take) => g === group && isDue(g, at, take)
        this.follow(this.giveBackAll(plan, answers, isRefused, true))
      }
    }
  }

  private reconcileGroup(
    spendings: readonly (Spending | undefined)[],
    answers: Groups<Answer>,
    group: number,
    isDue: IsDue,
  ): void {
    for (const [i, spending] of spendings.entries()) {
      if (spending !== undefined && isDue(group, i, spending.take)) {
        this.reconcileSpending(spending, answerAt(answers, group, i))
      }
    }
  }

  /**
   * Returns the places of a reservation that was admitted by posture, which settles nothing. Those
   * of one with a mark are left to whoever finds the mark.
   */
  private giveBackPlaces(plan: Plan, answers: Groups<Answer>, isDue: IsDue): void {
    if (plan.groups[0]?.some(({ isMark }) => isMark === true)) return
    for (const [g, takes] of plan.groups.entries()) {
      for (const [i, take] of takes.entries()) {
        if (!isConcurrency(take.limit) || !isDue(g, i, take)) continue
        const give = giveOf(take, answerAt(answers, g, i), g === 0)
        if (give !== undefined) this.follow(this.give(give))
      }
    }
  }

  private reconcileSpending(spending: Spending, answer: Answer): void {
    if (answer === 'unknown') return
    if (answer === 'not-run') this.deferCharge(spending)
    else if (answer.granted > 0) this.#deps.returnLocal(spending)
    else if (answer.remaining > 0) this.deferCharge(spending)
  }

  /** Resolves once everything that was being given back has been, or is lost. */
  async finish(): Promise<void> {
    await Promise.all(this.#unfinished)
  }

  private follow(giveBack: Promise<unknown>): void {
    const followed = giveBack.then(() => {
      this.#unfinished.delete(followed)
    })
    this.#unfinished.add(followed)
  }

  private deferCharge(spending: Spending | undefined): void {
    if (spending === undefined) return
    const { key, limit, amount } = spending.take
    this.#deps.deferredCharges.add(key, limit, amount, spending.at)
  }

  /**
   * Returns what was granted to a refused call. The mark of a reservation comes first, and if that
   * is not confirmed nothing else is returned: whoever finds the mark has the units. `isOpen`: the
   * first group passed, so that the others keep what they charge for refusals.
   */
  private async giveBackAll(
    plan: Plan,
    answers: Groups<Answer>,
    isDue: IsDue,
    isOpen = false,
  ): Promise<void> {
    const { places } = this.#deps
    const gives: Give[] = []
    for (const [g, takes] of plan.groups.entries()) {
      for (const [i, take] of takes.entries()) {
        const give = isDue(g, i, take)
          ? giveOf(take, answerAt(answers, g, i), isOpen || g === 0)
          : undefined
        if (give === undefined) continue
        if (places.follows(take)) places.give(take.key, give.amount)
        else if (take.isMark !== true) gives.push(give)
        else if (!(await this.give(give))) return
      }
    }
    await Promise.all(gives.map((give) => this.give(give)))
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
function giveOf(take: PlannedTake, answer: Answer, wasOpen: boolean): Give | undefined {
  const { key, limit } = take
  if (typeof answer === 'string' || answer.granted <= 0) return undefined
  if (wasOpen && isChargedOnRefusal(take)) return undefined
  return { key, limit, amount: answer.granted, at: answer.at, undone: true }
}
