/**
 * What every algorithm is: arithmetic on (state, limit, amount, now). It touches no store, no clock
 * and no rule. Times are whole microseconds of the store's clock; amounts are whole units.
 *
 * Two rules hold for all six, and both are about clocks that step back. A state at most one window
 * ahead of now is waited for: its time is taken as now, so nothing is added. A state further ahead
 * comes from another clock: it is moved to now with what was used kept, and that is written even
 * when the call is refused (`rebased`), because otherwise the lock-out would last as long as the
 * step.
 */
import type { AlgorithmName, Limit } from '../limit.js'

/** What one limit says to one amount. */
export interface Outcome {
  /** Units taken: the amount, less where `atLeast` allowed it, or 0. */
  readonly granted: number
  /** What is left afterwards, rounded down. */
  readonly remaining: number
  /** Until nothing is used any more, rounded up. */
  readonly resetAfterMs: number
  /** 0: it fits. Else until it would, rounded up; null: never, waiting does not help. */
  readonly retryAfterMs: number | null
  /** The call is admitted, but must be held this long. */
  readonly delayMs: number
  /** The instant the units belong to, in microseconds: what `give` needs to return them. */
  readonly at: number
}

export interface Step<State> extends Outcome {
  /** What to store if the whole group passes; undefined: leave what is there. */
  readonly state: State | undefined
  /** What to store even if it does not: the state of another clock, moved to this one. */
  readonly rebased: State | undefined
}

export interface Algorithm<State> {
  readonly name: AlgorithmName

  /**
   * Takes `amount`, or says how long to wait. With `atLeast`, takes what is there if that is at
   * least so much (a lease draw). Amount 0 asks for nothing: it fits and changes nothing.
   */
  take(
    state: State | undefined,
    limit: Limit,
    amount: number,
    now: number,
    atLeast?: number,
  ): Step<State>

  /** What `take` would say, with `remaining` as it is now. */
  peek(state: State | undefined, limit: Limit, amount: number, now: number): Outcome

  /**
   * Returns units taken at `at`: never above full, only into the window of `at`. Without `at` the
   * units return to the present window, in a log from the oldest entries on, which never
   * over-admits. `undone` says that the call they were taken for was never admitted; only a leaky
   * bucket makes a difference. Undefined: nothing changes.
   */
  give(
    state: State | undefined,
    limit: Limit,
    amount: number,
    now: number,
    at?: number,
    undone?: boolean,
  ): State | undefined

  /**
   * Takes without asking what was spent at `at`: down to empty, or into a debt of at most `debt`; a
   * bucket never owes more than its limit's own `debt`, or the next call would forget it.
   * Undefined: nothing changes.
   */
  charge(
    state: State | undefined,
    limit: Limit,
    amount: number,
    now: number,
    at: number,
    debt: number,
  ): State | undefined

  /** The time from which the state means nothing and may be forgotten. */
  expiresAt(state: State, limit: Limit): number
}

/** Whether a state's time lies so far ahead that it must come from another clock. */
export function isFromAnotherClock(stateAt: number, limit: Limit, now: number): boolean {
  return stateAt - now > limit.windowUs
}
