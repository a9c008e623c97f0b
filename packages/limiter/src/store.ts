/** The contract of a store: five verbs over counters. No feature adds a sixth. */
import type { CounterKey, Limit, Outcome, Take } from '@sluice/core'

/**
 * How long a decision waits for a store by default, in milliseconds. Long enough for a Redis on
 * busy cores: the breaker, not the deadline, bounds what a dead one costs.
 */
export const DEFAULT_DEADLINE_MS = 50

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

/** One server that holds counters, as this node measures it. */
export interface StoreNodeHealth {
  readonly address: string
  readonly isAnswering: boolean
  readonly isBreakerOpen: boolean
  /** How often its breaker has opened. */
  readonly breakerOpened: number
  /**
   * How far its clock is ahead of the clock of this process, and the error of that measurement;
   * undefined before the first measurement.
   */
  readonly clock: { readonly offsetSeconds: number; readonly errorSeconds: number } | undefined
  /** Batches that were sent and not answered yet. */
  readonly inFlight: number
  /** Takes that wait to be sent. */
  readonly queuedTakes: number
  /** The server's own error message if it denies this node a permission; absent if it does not. */
  readonly refusal?: string | undefined
  /** Absent before the first measurement. */
  readonly memory?: StoreNodeMemory | undefined
}

export interface StoreNodeMemory {
  readonly usedBytes: number
  /** 0: no bound. */
  readonly maxBytes: number
  /** Since the server was started. */
  readonly evictedKeys: number
}

/** The servers of a store outside this process. */
export interface RemoteHealth {
  /**
   * `starting`: no answer yet. `refused`: the server answers and refuses this node, which keeps
   * trying. `unfit`: the server can never be used.
   */
  readonly state: 'starting' | 'ready' | 'refused' | 'unfit'
  readonly nodes: readonly StoreNodeHealth[]
  /** Live limiter nodes, this one included, and how old that number is. */
  readonly fleet: { readonly size: number; readonly ageMs: number }
}

/** Memory of all counters together. */
export interface StoreMemory {
  readonly usedBytes: number
  /** 0: no bound in bytes. */
  readonly maxBytes: number
  /** Undefined where the store cannot count them. */
  readonly counters: number | undefined
  /** Counters dropped for lack of room although they still meant something. */
  readonly evicted: number
  /** Those of callers that were blocked; equal to `evicted` where the store cannot distinguish. */
  readonly evictedBlocked: number
}

/** What a store measures of itself. It judges nothing: alert thresholds are the reader's. */
export interface StoreHealth {
  /** Undefined where the counters are in this process. */
  readonly remote: RemoteHealth | undefined
  /** Undefined before the first measurement. */
  readonly memory: StoreMemory | undefined
  /** Whether counters survive a restart of the store; undefined before the first measurement. */
  readonly isPersistent: boolean | undefined
}

/** Lets nodes that share a store publish a text each, such as a status snapshot. */
export interface NodeExchange {
  /**
   * Replaces the text of this node. It expires some seconds after the last post, and when the store
   * is closed. Rejects if the store does not accept it in time, or while another post is running.
   */
  post(text: string): Promise<void>
  /** The texts of all live nodes, this one included. Rejects if the store does not answer. */
  read(): Promise<readonly string[]>
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
  /** Shows single counters to operators; no decision depends on it. */
  readonly inspector?: Inspector | undefined
  /** Reports measurements, for metrics, alerts and the nodes page; no decision depends on it. */
  health?(): StoreHealth
  /** Set where nodes share the store. */
  readonly exchange?: NodeExchange | undefined
  /**
   * Opens a store over the same connections for warm-up, with deadlines, breakers, clock bounds and
   * capacity bounds of its own, and without an observer. Closing it closes no connection.
   */
  warmUpStore?(): Store
}

export interface SyncStore {
  take(groups: Groups<Take>): Groups<Outcome>
  peek(groups: Groups<Take>): Groups<PeekOutcome>
  give(give: Give): void
  charge(charge: Charge): void
  reset(key: CounterKey): void
}
