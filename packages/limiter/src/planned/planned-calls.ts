/**
 * Calls that their entry point plans and composes itself, because several of them are decided
 * together, in one trip to the store: the descriptors of an Envoy request.
 */
import {
  type Call,
  type Decision,
  type DecisionExtras,
  type Outcome,
  type Plan,
  SluiceError,
  type Snapshot,
  type Source,
} from '@sluice/core'
import type { Limiter } from '../limiter-types.js'
import type { Settled } from '../reservation/reservation-verbs.js'
import type { Groups } from '../store.js'

export interface CallPlanOptions {
  readonly canWait: boolean
  readonly gate: boolean
}

/** What plans are made with. */
export interface CallPlanner {
  readonly snapshot: Snapshot
  /**
   * The takes of a call by the rules, without limits of concurrency; its decision if it is shed, or
   * no rule matches it. Throws RULES_ABSENT without rules.
   */
  plan(call: Call, options: CallPlanOptions): Plan | Settled
}

export interface PlannedCalls {
  /**
   * Makes one plan of all calls; each counter is taken from at most once. It is made again if the
   * key that names counters became known only after the first.
   */
  plan(planner: CallPlanner): Plan
  /**
   * Keeps what was decided of each call, and returns the decision of all of them together. The plan
   * may be a part of the one that was made: the limits that are known to refuse, in one group.
   */
  compose(
    plan: Plan,
    outcomes: Groups<Outcome & { readonly state?: unknown }>,
    source: Source,
    extras: DecisionExtras | undefined,
  ): Decision
}

export interface PlannedOptions {
  /** How long the calls may wait for the store, unless a rule says less. @default the store's */
  readonly deadlineMs?: number | undefined
  /** How long after the deadline they are answered at the latest. @default 25 */
  readonly capMs?: number | undefined
}

/** Not a name, so that it is no part of the public limiter. */
export const DECIDE_PLANNED = Symbol('decide planned calls')

export interface PlannedDecider {
  [DECIDE_PLANNED](calls: PlannedCalls, options: PlannedOptions): Decision | Promise<Decision>
}

/**
 * Decides calls that their entry point has planned. A promise only if a remote store decides. The
 * limiter must be one of `createLimiter`.
 */
export function decidePlanned(
  limiter: Limiter,
  calls: PlannedCalls,
  options: PlannedOptions,
): Decision | Promise<Decision> {
  if (DECIDE_PLANNED in limiter) {
    return (limiter as Limiter & PlannedDecider)[DECIDE_PLANNED](calls, options)
  }
  throw new SluiceError('OPTION_INVALID', 'limiter: accepted: one made by createLimiter')
}
