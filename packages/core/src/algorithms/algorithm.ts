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
import type { Limit, LimitProblem, LimitSpec } from '../limit.js'
import type { AlgorithmName } from './index.js'
import type { Rate } from './precision.js'

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

/** An optional field of a limit that only some algorithms accept. */
export type LimitField = 'burst' | 'waitMs' | 'queue' | 'maxWaitMs'

/** What code outside the algorithms may know of an algorithm, instead of its name. */
interface AlgorithmTraits {
  /**
   * bucket: a level that refills. queue: calls leave one after the other. window: a count for each
   * window. log: an entry for each instant.
   */
  readonly family: 'bucket' | 'queue' | 'window' | 'log'
  /** Whether a node may draw units ahead of its calls (`coordination: leased`). */
  readonly leasable: boolean
  /** Whether what several nodes counted can be added up (`coordination: local`). */
  readonly mergeable: boolean
  /** Windows begin at multiples of their length since 1970, for every caller alike. */
  readonly alignedToClock: boolean
  /** All that was used is forgotten at one instant, the end of a window. */
  readonly resetsAtOnce: boolean
  /** For how many windows units count at most; a bucket, queue or log does not count in windows. */
  readonly windowsCounted: 0 | 1 | 2
  /** Units of one call that an idle counter admits beyond its capacity. */
  readonly unitsBeyondCapacity: 0 | 1
  /** The capacity is `max` unless an optional field says otherwise. */
  readonly holdsMax: boolean
}

/** Whole numbers, one after the other. */
interface NumberSource {
  readCount(): number
}

/** One number of a state, and in how many bytes Redis stores it. */
interface StateField {
  readonly name: string
  readonly bytes: 2 | 4 | 7
  /** In how many where one of the state's numbers does not fit. */
  readonly wideBytes: 4 | 7
}

/** How a state of a fixed number of numbers is stored; its order is part of the stored format. */
export interface StateLayout<State> {
  readonly fields: readonly StateField[]
  /** Reads the fields in their order. */
  decode(numbers: NumberSource): State
  /** Reads and writes the three doubles that a state takes in memory. */
  read(doubles: Float64Array, at: number): State
  write(state: State, doubles: Float64Array, at: number): void
}

/** The part of a limit's arithmetic that differs between algorithms. */
type PreparedLimit = Pick<Limit, 'capacity' | 'maxWaitUs' | 'borrowable'>

export interface Algorithm<State> extends AlgorithmTraits {
  readonly name: AlgorithmName
  /** From 1 on, and never used again: the format byte of stored states. */
  readonly format: number
  /** The folder of its Lua twin in packages/limiter/src/lua. */
  readonly lua: AlgorithmName

  readonly fields: readonly LimitField[]
  /** The largest `max`, whatever the window. */
  readonly largestMax: number
  /** The most that a limit may hold at once. */
  readonly largestCapacity: number
  /** What one counter holds when nothing is used, for a `max` above 0. */
  capacityOf(spec: LimitSpec): number
  /** For a limit without problems. */
  prepare(spec: LimitSpec, rate: Rate): PreparedLimit
  /** Why a limit with a `max` above 0 cannot be counted exactly. */
  findPrecisionProblem(spec: LimitSpec): LimitProblem | undefined
  /** The same limit with another max and capacity: a part of it, or a multiple. */
  resize(limit: Limit, max: number, capacity: number): LimitSpec

  /** Undefined: a state is a list of numbers of any length. */
  readonly layout: StateLayout<State> | undefined

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
