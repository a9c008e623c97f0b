/** What an asker is made of, and what it tells of itself. */
import type { Decision, DecisionExtras, Outcome, Plan, Snapshot, Source } from '@sluice/core'
import type { DecideOptions } from './pending-decision.js'
import type { CoordinationStats } from './coordination/node-decider.js'
import type { FallbackDecision } from './fallback/fallback-decider.js'
import type { Scheduler } from './periodic.js'
import type { Groups, Store } from './store.js'

/** How a decision is made of outcomes; the limiter knows of receipts. */
export type ComposeDecision = (
  plan: Plan,
  outcomes: Groups<Outcome>,
  options: DecideOptions,
  source: Source,
  extras?: DecisionExtras,
) => Decision

export interface RemoteDeciderDeps {
  readonly store: Store
  readonly compose: ComposeDecision
  /** The wall clock, for a store that has none of its own. */
  readonly wallUs: () => number
  /** A clock that never steps. */
  readonly monotonicMs: () => number
  /** The most counters kept here while the store is silent. */
  readonly localCounters: number
  readonly scheduler: Scheduler
}

export interface LimiterStats {
  /** Counters of this process, of callers that were decided by posture. */
  readonly localCounters: number
  /** Counters whose spending here is still to be charged to the store. */
  readonly reportsWaiting: number
  /** Units spent here that will not be charged. */
  readonly reportsDropped: number
  /** Give-backs that the store did not confirm: those units may stay taken until they decay. */
  readonly givesLost: number
  /** What this node decided by itself, by the id of the rule. */
  readonly coordination: ReadonlyMap<string, CoordinationStats>
}

/** What was read, and who answered. */
export type PeekResult = Pick<FallbackDecision, 'outcomes' | 'source' | 'extras'>

/** The same, with what it was read for. */
export interface PlannedPeek extends PeekResult {
  readonly snapshot: Snapshot
  readonly plan: Plan
}
