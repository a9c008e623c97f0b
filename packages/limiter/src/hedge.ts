/**
 * The last known states of counters whose rules are hedged: what a call is decided from while the
 * store takes longer than a share of its deadline. It over-admits at most what is offered in the
 * meantime, because every answer of the store replaces what was guessed.
 */
import { algorithmOf, type Plan, type PlannedTake, passes, type Step } from '@sluice/core'
import { Counters } from './memory/counters.js'
import type { Answer, Groups } from './store.js'

/** At most 48 bytes each, logs excepted. */
const STATES_MAX = 100_000
/** The share of its deadline that a hedged call waits for the store. */
const PATIENCE = 1 / 4

/** Whether every enforced rule of a call wants it: one that does not must wait for the store. */
export function isHedged({ matched, groups }: Plan): boolean {
  if (groups[0] === undefined || groups[0].length === 0) return false
  return matched.every(({ rule }) => rule.mode !== 'enforce' || rule.rule.hedge)
}

export function patienceMs(deadlineMs: number): number {
  return deadlineMs * PATIENCE
}

export class LastStates {
  readonly #states = new Counters(STATES_MAX)

  /** Takes in every state that an answer tells. */
  learn({ groups }: Plan, answers: Groups<Answer>, now: number): void {
    for (const [i, { key, limit }] of (groups[0] ?? []).entries()) {
      const answer = answers[0]?.[i]
      if (answer === undefined || typeof answer === 'string' || answer.state === undefined) continue
      this.#states.write(key, this.#states.find(key), limit, answer.state, now)
    }
  }

  /**
   * What the enforced limits say to a call, all or nothing, by what is known of them; undefined
   * where one of them was never seen. What is granted is gone from the states.
   */
  take({ groups }: Plan, now: number): readonly Step<unknown>[] | undefined {
    const takes = groups[0] ?? []
    const steps: Step<unknown>[] = []
    for (const { key, limit, amount } of takes) {
      const state = this.#states.read(this.#states.find(key), limit)
      if (state === undefined) return undefined
      steps.push(algorithmOf(limit).take(state, limit, amount, now))
    }
    if (passes(steps)) this.advance(takes, steps, now)
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
