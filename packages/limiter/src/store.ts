/** The contract of a store: five verbs over counters. No feature adds a sixth. */
import type { CounterKey, Limit, Outcome, Take } from '@sluice/core'

export interface Give {
  readonly key: CounterKey
  readonly limit: Limit
  readonly amount: number
  /** When the units were taken, as their outcome said; undefined: the present window. */
  readonly at?: number | undefined
  /**
   * Whether the call they were taken for was never admitted. Then its slot in a leaky bucket is
   * free even if it has begun: nothing left in it. @default false
   */
  readonly undone?: boolean | undefined
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

/**
 * An outcome and, where `states` asks for it, the counter's state as the algorithm keeps it;
 * undefined: there is none. Of a log it may be the state as `shortenLog` makes it.
 */
export interface PeekOutcome extends Outcome {
  readonly state?: unknown
}

/**
 * Why a take has no outcome. `not-run`: it certainly changed nothing. `unknown`: it may have run,
 * and nobody heard.
 */
export type Silence = 'not-run' | 'unknown'

/**
 * What a store beyond this process answers. An outcome may carry `state`, the counter's state after
 * the take: always where the limit refused (a log excepted), and wherever it was asked for. `held`
 * marks a refusal that may be due only to units which another call holds while it is decided: it
 * says nothing about the next call, so it must not be remembered.
 */
export type Answer =
  | (Outcome & { readonly state?: unknown; readonly held?: boolean | undefined })
  | Silence

export interface TakeOptions {
  /** How long the store may take, in milliseconds. @default what the store was made with */
  readonly deadlineMs?: number | undefined
  /** Whether every outcome is to carry the counter's state. @default false */
  readonly states?: boolean | undefined
  /**
   * Called at most once, after the deadline, when the fate of what was answered with silence is
   * known: the same groups, with outcomes or `not-run` where there was none. Whoever refused
   * meanwhile gives back what was granted.
   */
  readonly onLate?: ((answers: Groups<Answer>) => void) | undefined
}

export interface PeekOptions {
  /** Whether every outcome is to carry the counter's state, for people. @default false */
  readonly states?: boolean | undefined
}

/** What a store beyond this process tells of itself, for posture, deny cache and keys. */
export interface Remote {
  /** The store's time in microseconds, as well as it is known. */
  time(): number
  /** The same, but never behind it; Infinity where it is not known. */
  latestTime(): number
  /** How far `time` may be off, in microseconds; Infinity where it is not known. */
  uncertaintyUs?(): number
  /** How far off it may be before a unit near the edge of a window counts in the earlier one. */
  readonly clockToleranceMs?: number | undefined
  /** Live nodes, this one among them, as last seen. */
  fleetSize(): number
  /** This node's place among them, from 0 on, as last seen. @default 0 */
  fleetPlace?(): number
  /** The key of all hashes: given to the store, or kept in it. Rejects if it cannot be known. */
  readonly secret: Promise<Uint8Array>
  /**
   * Resolves when the store can be used. Rejects where it answers and cannot, although it may be
   * tried again, so that `secret` still comes. @default with `secret`
   */
  readonly ready?: Promise<void> | undefined
  /** How long a refusal is remembered, in milliseconds; 0: not at all. */
  readonly denyCacheMs: number
  /** How long a decision waits by default, in milliseconds. */
  readonly deadlineMs: number
  /** Calls the listener whenever the store answers again after it did not. */
  onAnswering(listener: () => void): void
  /** Lets other nodes know that this one gave back to a counter, soon and as well as it can. */
  announce?(key: CounterKey): void
  /**
   * Calls the listener when another node gave back to a counter, and when the store does by itself,
   * before and after: a call that was decided in parts had taken from it, and a refusal of that
   * moment is old.
   */
  onGivenBack?(listener: (key: CounterKey) => void): void
}

/** Where one counter lies and what it takes there. */
export interface StoredCounter {
  /** As the store spells it. */
  readonly key: string
  /** The address of the server that has it; null: it is in this process. */
  readonly node: string | null
  /** Until it expires by itself; null: nothing is there, or it is in this process. */
  readonly ttlMs: number | null
  /** What it takes, as well as that can be learned; null: nothing is there. */
  readonly bytes: number | null
}

/**
 * A window into a store, for people who look after it: no verb, and no decision depends on it. A
 * store without one is looked at by `peek` alone.
 */
export interface Inspector {
  inspect(key: CounterKey, limit: Limit): Promise<StoredCounter>
}

export type Groups<Item> = readonly (readonly Item[])[]

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
   * format the store does not know, is absent. Where the store cannot answer in time it says so, in
   * the place of each outcome; it never guesses. A group of which only a part was answered may be
   * charged for that part. A call without takes needs no answer of a server: it has one at once.
   */
  take(groups: Groups<Take>, options?: TakeOptions): Promise<Groups<Answer>>

  /** What `take` would say to each take alone; changes nothing. */
  peek(groups: Groups<Take>, options?: PeekOptions): Promise<Groups<PeekOutcome>>

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
  /** Set where the counters are elsewhere. */
  readonly remote?: Remote | undefined
  /** For people only. */
  readonly inspector?: Inspector | undefined
}

export interface SyncStore {
  take(groups: Groups<Take>): Groups<Outcome>
  peek(groups: Groups<Take>): Groups<PeekOutcome>
  give(give: Give): void
  charge(charge: Charge): void
  reset(key: CounterKey): void
}
