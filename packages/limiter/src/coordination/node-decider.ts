/**
 * What a node answers by itself, without a trip to the store: from a lease, from counts that nodes
 * merge, or from a part of the limit that is its own.
 */
import type { CounterKey, Limit, Outcome, PlannedTake } from '@sluice/core'
import type { Scheduler } from '../periodic.js'
import type { Answer, Give, Silence, Store } from '../store.js'

/** An outcome that was made here. What was granted is already gone from what this node holds. */
export interface NodeOutcome extends Outcome {
  /** How long ago the store said what this was made from, in milliseconds. */
  readonly staleMs: number
}

/** What the parts of coordination are made of. */
export interface CoordinationDeps {
  readonly store: Store
  readonly scheduler: Scheduler
  /** Milliseconds of a clock that never steps, but may stand still while the machine sleeps. */
  readonly monotonicMs: () => number
  /** Microseconds of the wall clock, which may step. */
  readonly wallUs: () => number
  /** The store's time, in microseconds, to which a unit of this limit belongs that is spent now. */
  readonly placeInWindow: (limit: Limit) => number
  /** Live nodes, this one among them. */
  readonly fleetSize: () => number
  /** This node's place among them, from 0 on. */
  readonly fleetPlace: () => number
  /** How long a decision waits for the store, in milliseconds. */
  readonly deadlineMs: number
  /** Something was given back to a counter, or will be: a refusal remembered of it is old. */
  readonly invalidate: (key: CounterKey) => void
  /** The store has answered. */
  readonly onStoreAnswer: () => void
  /** Whether it did when it was last asked. */
  readonly isStoreAnswering: () => boolean
}

/**
 * What a draw came to for a call that waited for it. `ask`: nothing to be had here, so the store
 * decides this call itself. A silence: the store did not answer within its deadline.
 */
export type DrawResult = NodeOutcome | 'store' | UnansweredDraw

/** A draw that was not answered in time, in which the cost of this call was contained. */
export interface UnansweredDraw {
  /** Whether it may have run. */
  readonly silence: Silence
  /** The call was let pass all the same: if the draw did run, its units are spent. */
  onAdmitted(): void
}

/**
 * One way of deciding takes on this node. Rules change without its being told: what it holds is of
 * a compiled limit, and a call that meets another one is not served from it.
 */
export interface NodeDecider {
  /**
   * An outcome: decided here. A promise: of a draw that is under way, for a call that may wait so
   * long; with 0 there is none. Undefined: the store must be asked. A refusal takes nothing.
   */
  take(take: PlannedTake, waitMs: number): NodeOutcome | Promise<DrawResult> | undefined
  /** Whether such a take would probably not need the store. */
  isReady(take: PlannedTake): boolean
  /** The call was refused elsewhere: what `take` granted it here is returned. */
  putBack(take: PlannedTake, outcome: NodeOutcome): void
  /**
   * What `take` would say, with the state it would say it from; takes nothing. Undefined: the store
   * knows better.
   */
  peek?(take: PlannedTake): (NodeOutcome & { readonly state?: unknown }) | undefined
  /**
   * Units of an earlier decision are returned, by whoever has its receipt. False: this node does
   * not count them, so they go to the store.
   */
  refund?(give: Give): boolean
  /** The limit by which the store is to decide a take that is left to it. @default its own */
  storeLimit?(take: PlannedTake): Limit
  /** The store decided a take itself; `sentMs` by the clock that never steps. */
  learn?(take: PlannedTake, answer: Answer, sentMs: number): void
  /** Something was given back to the counter: that it refused before says nothing any more. */
  invalidate?(key: CounterKey): void
  /** The counter was reset: nothing of it is held here, and nothing of it is given back. */
  forget(key: CounterKey): void
  /** Gives back and reports everything, if the store answers. Nothing is decided here any more. */
  close(): Promise<void>
  /** By the id of the rule; only rules of which something is or was counted here. */
  readonly stats: ReadonlyMap<string, CoordinationStats>
}

/**
 * What became of a rule's units on this node. All but `held` and `counters` grow; `spent` falls by
 * what is put back of calls that were refused elsewhere.
 */
export interface CoordinationStats {
  /** Times the store was asked for a lease, and units that it granted. */
  readonly draws: number
  readonly drawn: number
  /** Units of leases that calls took: never more than were drawn. */
  readonly spent: number
  /**
   * Units of leases that were given back, or that time has returned; and those that were not,
   * because the store did not confirm it.
   */
  readonly givenBack: number
  readonly lost: number
  /** Units of leases that are held now. */
  readonly held: number
  /** Units counted here and confirmed by the store, and those of which nobody knows. */
  readonly reported: number
  readonly unreported: number
  /** Units that this node reported to a counter that was full: admitted beyond the limit. */
  readonly overAdmitted: number
  /** Callers that are counted here now. */
  readonly counters: number
}
