/** The contract of a store: five verbs over counters. No feature adds a sixth. */
import type { CounterKey, Limit, Outcome, Take } from '@sluice/core'

export interface Give {
  readonly key: CounterKey
  readonly limit: Limit
  readonly amount: number
  /** When the units were taken, as their outcome said; undefined: the present window. */
  readonly at?: number | undefined
}

export interface Charge {
  readonly key: CounterKey
  readonly limit: Limit
  readonly amount: number
  /** When the units were spent. */
  readonly at: number
  /** How far beyond empty the counter may go. */
  readonly debt: number
}

/** An outcome with the counter's state, as the algorithm keeps it; undefined: there is none. */
export interface Peeked extends Outcome {
  readonly state: unknown
}

type Groups<Item> = readonly (readonly Item[])[]

export interface Store {
  /**
   * Decides one call. `groups` are lists of takes; a group is charged whole or not at all. The
   * first group opens the others: if it is refused, none of the others is charged. The others do
   * not see each other. A call names a counter at most once.
   *
   * Answers an outcome for each take, in the same places. `retryAfterMs` is 0 where the limit had
   * room; where its group was not charged, `granted` is 0 and `remaining` is what is left now. Only
   * a limit with `onRefusal: charge` is charged, down to empty, when its own group is refused; not
   * in a group that the first one kept shut.
   *
   * The store's clock is the only one: `at` of an outcome is its time, and nodes that share a store
   * share it. An amount of 0 has room and changes nothing. A state of another algorithm, or in a
   * format the store does not know, is absent. The store rejects if it cannot answer; it never
   * guesses.
   */
  take(groups: Groups<Take>): Promise<Groups<Outcome>>

  /** What `take` would say to each take alone; changes nothing. */
  peek(groups: Groups<Take>): Promise<Groups<Peeked>>

  /**
   * Returns units: never above full, and only into the window that `at` lies in. A counter that is
   * not there needs nothing. Also frees a place in a leaky bucket's queue.
   */
  give(give: Give): Promise<void>

  /**
   * Takes units that were already spent: cannot be refused, and goes down to empty or into bounded
   * debt.
   */
  charge(charge: Charge): Promise<void>

  /** Forgets a counter. */
  reset(key: CounterKey): Promise<void>

  close(): Promise<void>

  /** The same five verbs without waiting, where the counters are in this process. */
  readonly sync?: SyncStore | undefined
}

export interface SyncStore {
  take(groups: Groups<Take>): Groups<Outcome>
  peek(groups: Groups<Take>): Groups<Peeked>
  give(give: Give): void
  charge(charge: Charge): void
  reset(key: CounterKey): void
}
