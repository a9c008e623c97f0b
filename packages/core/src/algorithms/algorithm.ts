/**
 * The contract of every algorithm: arithmetic on (state, limit, amount, now), with no access to a
 * store, a clock or a rule. Times are whole microseconds of the store's clock; amounts are whole
 * units.
 *
 * Two rules cover clocks that step back, for all algorithms. If a state is at most one window
 * ahead of now, its own time is used as now, so nothing is added until the clock catches up. If it
 * is further ahead, another clock wrote it: the state is rebased to now, keeping what was used. A
 * rebased state is stored even when the call is refused (`rebased`); otherwise the lock-out would
 * last as long as the step.
 */
import type { Limit, LimitProblem, LimitSpec } from '../limit.js'
import type { AlgorithmName, ModuleName } from './index.js'
import type { Rate } from './precision.js'

/** The result of one limit for one amount. */
export interface Outcome {
  /**
   * Units taken: the amount, fewer if `atLeast` allows it, or 0. A take that overdraws takes what
   * it can owe, even if it is refused; one that gives back has its negative amount.
   */
  readonly granted: number
  /** Units left afterwards, rounded down. */
  readonly remaining: number
  /** Time until nothing is used any more, rounded up. */
  readonly resetAfterMs: number
  /** 0 if the amount fits; else the time until it would, rounded up; null if it never will. */
  readonly retryAfterMs: number | null
  /** The call is admitted, but must be held this long. */
  readonly delayMs: number
  /**
   * The instant the units belong to, in microseconds; for places, their holder. `give` needs it to
   * return them.
   */
  readonly at: number
}

export interface Step<State> extends Outcome {
  /** The state to store if the whole group passes; undefined leaves the stored state unchanged. */
  readonly state: State | undefined
  /** The state to store even if the group is refused: one of another clock, rebased to this one. */
  readonly rebased: State | undefined
}

/** An optional field of a limit that only some algorithms accept. */
export type LimitField =
  | 'burst'
  | 'waitMs'
  | 'queue'
  | 'maxWaitMs'
  | 'start'
  | 'window'
  | 'zone'
  | 'debt'
  | 'leaseMs'

/** The traits that code outside the algorithms reads instead of an algorithm's name. */
interface AlgorithmTraits {
  /**
   * bucket: a level that refills. queue: calls leave one after the other. window: a count per
   * window. log: an entry per instant. places: a count per holder, without a window. block: no
   * units, a time for which all is refused.
   */
  readonly family: 'bucket' | 'queue' | 'window' | 'log' | 'places' | 'block'
  /** Whether a node may draw units ahead of its calls (`coordination: leased`). */
  readonly leasable: boolean
  /** Whether counts of several nodes can be added up (`coordination: local`). */
  readonly mergeable: boolean
  /** Whether each node may have a fixed part of the limit (`coordination: split`). */
  readonly splittable: boolean
  /** Whether windows begin at edges that are the same for all callers: see `window-edges.ts`. */
  readonly alignedToClock: boolean
  /** Whether the usage of all callers is forgotten at one instant, the edge of a window. */
  readonly resetsAtOnce: boolean
  /** The most windows for which a unit counts; 0 for a bucket, queue or log. */
  readonly windowsCounted: 0 | 1 | 2
  /** Units of one call that an idle counter admits on top of its capacity. */
  readonly unitsBeyondCapacity: 0 | 1
  /** Whether the capacity is `max` unless an optional field overrides it. */
  readonly holdsMax: boolean
}

/** A sequence of whole numbers. */
interface NumberSource {
  readCount(): number
}

/** One number of a state and the bytes it takes in Redis. */
interface StateField {
  readonly name: string
  readonly bytes: 2 | 4 | 7
  /** The bytes it takes when one of the state's numbers does not fit. */
  readonly wideBytes: 4 | 7
}

/** How a state with a fixed count of numbers is stored; the order is part of the stored format. */
export interface StateLayout<State> {
  readonly fields: readonly StateField[]
  /** Reads the fields in stored order. */
  decode(numbers: NumberSource): State
  /** Reads and writes the three doubles that a state takes in memory. */
  read(doubles: Float64Array, at: number): State
  write(state: State, doubles: Float64Array, at: number): void
}

/** The part of a limit's arithmetic that differs between algorithms. */
interface PreparedLimit extends Pick<Limit, 'capacity' | 'maxWaitUs' | 'borrowable'> {
  /** @default the window as written */
  readonly windowUs?: number
}

export interface Algorithm<State> extends AlgorithmTraits {
  /** The name in rules. Two modules have the same one if a limit field chooses between them. */
  readonly name: AlgorithmName | 'block'
  /** The format byte of stored states: from 1 on, and never reused. */
  readonly format: number
  /** The folder of its Lua implementation in packages/limiter/src/lua. */
  readonly lua: ModuleName | 'block'

  readonly fields: readonly LimitField[]
  /** The largest `max`, whatever the window. */
  readonly largestMax: number
  /** The largest capacity of a limit. */
  readonly largestCapacity: number
  /** The units that an unused counter holds, for a `max` above 0. */
  capacityOf(spec: LimitSpec): number
  /** Prepares the arithmetic of a limit that has no problems. */
  prepare(spec: LimitSpec, rate: Rate): PreparedLimit
  /** Returns why a limit with a `max` above 0 cannot be counted exactly. */
  findPrecisionProblem(spec: LimitSpec): LimitProblem | undefined
  /** Returns the limit with another max and capacity: a fraction or a multiple of it. */
  resize(limit: Limit, max: number, capacity: number): LimitSpec

  /** Undefined if a state is a list of numbers of any length. */
  readonly layout: StateLayout<State> | undefined

  /**
   * Takes `amount`, or returns how long to wait. With `atLeast`, takes whatever is left if that is
   * at least as much (a lease draw). `holder` is whose places are taken (concurrency only).
   * Amount 0 always fits and changes nothing.
   */
  take(
    state: State | undefined,
    limit: Limit,
    amount: number,
    now: number,
    atLeast?: number,
    holder?: number,
  ): Step<State>

  /** Returns what `take` would return, with the present `remaining`. */
  peek(state: State | undefined, limit: Limit, amount: number, now: number): Outcome

  /**
   * Returns units taken at `at`: never above full, only into the window of `at`. Without `at` the
   * units return to the present window, in a log to the oldest entries first, which never
   * over-admits. `undone` states that the call they were taken for was never admitted; only a leaky
   * bucket treats that differently. Returns undefined if nothing changes.
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
   * Takes units already spent at `at` without a check: down to empty, or into a debt of at most
   * `debt`. A bucket never owes more than its limit's own `debt`, because the next call would cut
   * the excess. Returns undefined if nothing changes.
   */
  charge(
    state: State | undefined,
    limit: Limit,
    amount: number,
    now: number,
    at: number,
    debt: number,
  ): State | undefined

  /** Returns the time from which the state no longer has an effect and may be dropped. */
  expiresAt(state: State, limit: Limit): number
}

/** Whether a state's time is so far ahead that another clock must have written it. */
export function isFromAnotherClock(stateAt: number, limit: Limit, now: number): boolean {
  return stateAt - now > limit.windowUs
}
