/**
 * Keeps the last known states of counters whose rules are hedged, and admits a call by them while
 * the store takes longer than a share of its deadline. A stale state never refuses: it may be of
 * any age, and units may have been returned since. Over-admission is bounded by what is offered in
 * the meantime, because every answer of the store replaces the estimate.
 */
import { layoutOf, type Plan, type PlannedTake, passes, type Step, stepOf } from '@sluice/core'
import { Counters } from './memory/counters.js'
import type { Answer, Groups } from './store.js'

/** At most 48 bytes each. */
const STATES_MAX = 100_000
/** The share of its deadline that a hedged call waits for the store. */
const HEDGE_SHARE = 1 / 4

/**
 * Whether a call may be answered early. Every enforced rule must be hedged, and no limit, of shadow
 * rules neither, may be a log: its state is all of its entries, and Redis would send up to 80 kB
 * with each decision.
 */
export function isHedged({ matched, groups }: Plan): boolean {
  if (groups[0] === undefined || groups[0].length === 0) return false
  if (!matched.every(({ rule }) => rule.mode !== 'enforce' || rule.rule.hedge)) return false
  return groups.every((takes) => takes.every(({ limit }) => layoutOf(limit) !== undefined))
}

export function hedgeDelayMs(deadlineMs: number): number {
  return deadlineMs * HEDGE_SHARE
}

export class StaleStates {
  readonly #states = new Counters(STATES_MAX)

  /** Records every state in an answer. */
  learn({ groups }: Plan, answers: Groups<Answer>, now: number): void {
    for (const [i, { key, limit }] of (groups[0] ?? []).entries()) {
      const answer = answers[0]?.[i]
      if (answer === undefined || typeof answer === 'string' || answer.state === undefined) continue
      this.#states.write(key, this.#states.find(key), limit, answer.state, now)
    }
  }

  /**
   * Admits a call by the last known states of its enforced limits, and charges those states.
   * Undefined if one of them is unknown or has no room, so that only the store can decide.
   */
  admit({ groups }: Plan, now: number): readonly Step<unknown>[] | undefined {
    const takes = groups[0] ?? []
    const steps: Step<unknown>[] = []
    for (const take of takes) {
      const state = this.#states.read(this.#states.find(take.key), take.limit)
      if (state === undefined) return undefined
      steps.push(stepOf(take, state, now))
    }
    if (!passes(steps)) return undefined
    this.advance(takes, steps, now)
    return steps
  }

  forget(key: PlannedTake['key']): void {
    this.#states.delete(key)
  }

  private advance(
    takes: readonly PlannedTake[],
    steps: readonly Step<unknown>[],
    now: number,
  ): void {
    for (const [i, { key, limit }] of takes.entries()) {
      const state = steps[i]?.state
      if (state !== undefined) this.#states.write(key, this.#states.find(key), limit, state, now)
    }
  }
}
