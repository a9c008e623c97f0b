/**
 * The contract of what a node decides without a trip to the store: from a lease, from counts that
 * nodes merge, from its own part of a split limit, or from a limit of its own.
 */
import type { CounterKey, Limit, Outcome, PlannedTake } from '@sluice/core'
import type { Scheduler } from '../periodic.js'
import type { Answer, Give, Silence, Store } from '../store.js'

/** An outcome of this node. What was granted is already deducted from what the node holds. */
export interface NodeOutcome extends Outcome {
  /** The age of the store state that this was computed from, in milliseconds. */
  readonly staleMs: number
}

/** Dependencies of the node deciders. */
export interface CoordinationDeps {
  readonly store: Store
  readonly scheduler: Scheduler
  /** Milliseconds of a clock that never steps, but may stand still while the machine sleeps. */
  readonly monotonicMs: () => number
  /** Microseconds of the wall clock, which may step. */
  readonly wallUs: () => number
  /** The store time, in microseconds, at which a unit of this limit spent now counts. */
  readonly placeInWindow: (limit: Limit) => number
  /** The number of live nodes, this one included. */
  readonly fleetSize: () => number
  /** The index of this node among them, starting at 0. */
  readonly fleetPlace: () => number
  /** How long a decision waits for the store, in milliseconds. */
  readonly deadlineMs: number
  /** Drops remembered refusals of a counter, because units are returned to it. */
  readonly invalidate: (key: CounterKey) => void
  /** Called when the store has answered. */
  readonly onStoreAnswer: () => void
  /** Whether the store answered the last request. */
  readonly isStoreAnswering: () => boolean
}

/**
 * The result of a draw for a call that waited for it. `store`: this node has nothing for the call,
 * so the store decides it. `UnansweredDraw`: the store did not answer by the deadline.
 */
export type DrawResult = NodeOutcome | 'store' | UnansweredDraw

/** A draw that was not answered in time and contained the cost of this call. */
export interface UnansweredDraw {
  /** Whether it may have run. */
  readonly silence: Silence
  /** Called if the call was admitted anyway: if the draw did run, its units are spent. */
  onAdmitted(): void
}

/**
 * Decides takes on this node for one coordination mode. Rules change without notice: state belongs
 * to a compiled limit, and a call with another compiled limit is not served from it.
 */
export interface NodeDecider {
  /**
   * An outcome: decided on this node. A promise: the result of a running draw, for a call that may
   * wait up to `waitMs`; never with 0. Undefined: the store must decide. A refusal takes nothing.
   */
  take(take: PlannedTake, waitMs: number): NodeOutcome | Promise<DrawResult> | undefined
  /** Whether such a take can probably be decided without the store. */
  isReady(take: PlannedTake): boolean
  /** Returns what `take` granted, because the call was refused by another limit. */
  putBack(take: PlannedTake, outcome: NodeOutcome): void
  /**
   * The outcome that `take` would give, with its state; takes nothing. Undefined if the store knows
   * better.
   */
  peek?(take: PlannedTake): (NodeOutcome & { readonly state?: unknown }) | undefined
  /**
   * Returns units of an earlier decision. False if this node does not count them, so that they go
   * to the store.
   */
  refund?(give: Give): boolean
  /** The limit to send to the store for a take that is left to it. @default its own */
  storeLimit?(take: PlannedTake): Limit
  /** Learns from a take that the store decided; `sentMs` is on the clock that never steps. */
  learn?(take: PlannedTake, answer: Answer, sentMs: number): void
  /** Drops a remembered refusal of the counter, because units were returned to it. */
  invalidate?(key: CounterKey): void
  /** Drops everything held of a counter that was reset, without returning it. */
  forget(key: CounterKey): void
  /** Returns and reports everything if the store answers. Nothing is decided here afterwards. */
  close(): Promise<void>
  /** By rule id; only rules with something counted on this node now or before. */
  readonly stats: ReadonlyMap<string, CoordinationStats>
}

/**
 * What became of a rule's units on this node. All values but `held` and `counters` grow; `spent`
 * falls by what is put back for calls that were refused elsewhere.
 */
export interface CoordinationStats {
  /** Draws sent to the store, and units that they granted. */
  readonly draws: number
  readonly drawn: number
  /** Leased units that calls took: never more than were drawn. */
  readonly spent: number
  /**
   * Leased units that were returned or have refilled by themselves; and those lost, because the
   * store did not confirm the return.
   */
  readonly givenBack: number
  readonly lost: number
  /** Leased units that are held now. */
  readonly held: number
  /** Units counted on this node that the store confirmed, and those with an unknown fate. */
  readonly reported: number
  readonly unreported: number
  /** Units reported to a counter that was already full: admitted beyond the limit. */
  readonly overAdmitted: number
  /** Counters that this node keeps now. */
  readonly counters: number
}
