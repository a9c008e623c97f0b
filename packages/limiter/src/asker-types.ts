/** What an asker is made of, and what it tells of itself. */
import type { Decision, Extras, Outcome, Plan, Snapshot, Source } from '@sluice/core'
import type { AskOptions } from './asked.js'
import type { HereStats } from './coordination/here.js'
import type { PostureAnswer } from './posture/posture-answers.js'
import type { Scheduler } from './rounds.js'
import type { Groups, Store } from './store.js'

/** How a decision is made of outcomes; the limiter knows of receipts. */
export type Tell = (
  plan: Plan,
  outcomes: Groups<Outcome>,
  options: AskOptions,
  source: Source,
  extras?: Extras,
) => Decision

export interface AskerParts {
  readonly store: Store
  readonly tell: Tell
  /** The wall clock, for a store that has none of its own. */
  readonly wallUs: () => number
  /** A clock that never steps. */
  readonly monotonicMs: () => number
  /** The most counters kept here while the store is silent. */
  readonly localCounters: number
  readonly scheduler: Scheduler
}

export interface AskerStats {
  /** Counters of this process, of callers that were decided by posture. */
  readonly localCounters: number
  /** Counters whose spending here is still to be charged to the store. */
  readonly reportsWaiting: number
  /** Units spent here that will not be charged. */
  readonly reportsDropped: number
  /** Give-backs that the store did not confirm: those units may stay taken until they decay. */
  readonly givesLost: number
  /** What this node decided by itself, by the id of the rule. */
  readonly coordination: ReadonlyMap<string, HereStats>
}

/** What was read, and who answered. */
export type Looked = Pick<PostureAnswer, 'outcomes' | 'source' | 'extras'>

/** The same, with what it was read for. */
export interface Look extends Looked {
  readonly snapshot: Snapshot
  readonly plan: Plan
}
