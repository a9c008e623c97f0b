/**
 * The contract of a store: five verbs over counters, and optional parts that no decision needs. No
 * feature adds a sixth verb.
 */
import type { CounterKey, Limit, Outcome, RegionPlace, Take } from '@sluice/core'

/**
 * How long a decision waits for a store by default, in milliseconds. Long enough for a Redis on
 * busy cores: the breaker, not the deadline, bounds what a dead one costs.
 */
export const DEFAULT_DEADLINE_MS = 50

export interface Give {
  readonly key: CounterKey
  readonly limit: Limit
  readonly amount: number
  /**
   * When the units were taken, as `at` of their outcome; for places, their holder. Undefined: in
   * the present window.
   */
  readonly at?: number | undefined
  /**
   * Whether the call was never admitted. Then its slot in a leaky bucket becomes free even if the
   * slot has begun, because nothing was let through in it. @default false
   */
  readonly undone?: boolean | undefined
}

export interface Charge {
  readonly key: CounterKey
  readonly limit: Limit
  readonly amount: number
  /** When the units were spent; for places, their holder. */
  readonly at: number
  /**
   * How far below empty the counter may go. For places, whether the holder has exactly the amount
   * (1) or at least as many (0).
   */
  readonly debt: number
}

/**
 * An outcome and, with `states`, the counter's state as the algorithm keeps it; undefined if there
 * is none. The state of a log may be shortened by `shortenLog`.
 */
export interface PeekOutcome extends Outcome {
  readonly state?: unknown
}

/**
 * Why a take has no outcome. `not-run`: it certainly changed nothing. `unknown`: it may have run,
 * but no reply arrived.
 */
export type Silence = 'not-run' | 'unknown'

/**
 * The answer of a remote store to one take. `state` is the counter's state after the take: always
 * set where the limit refused (except for a log), and with `states` everywhere. `held` marks a
 * refusal that may be caused only by units which another call holds while it is being decided; such
 * a refusal must not be remembered.
 */
export type Answer =
  | (Outcome & { readonly state?: unknown; readonly held?: boolean | undefined })
  | Silence

export interface TakeOptions {
  /** How long the store may take, in milliseconds. @default the deadline of the store */
  readonly deadlineMs?: number | undefined
  /**
   * How long after the deadline the call is answered at the latest while this process is too busy
   * to read what has arrived: whole milliseconds, up to 25. @default 25
   */
  readonly capMs?: number | undefined
  /** Whether every outcome carries the counter's state. @default false */
  readonly states?: boolean | undefined
  /**
   * Called at most once, after the deadline, when it is known what became of the unanswered takes:
   * the same groups, with outcomes, or `not-run` where nothing ran. A caller that was refused in
   * the meantime must give back what was granted.
   */
  readonly onLate?: ((answers: Groups<Answer>) => void) | undefined
}

export interface PeekOptions {
  /** Whether every outcome carries the counter's state. @default false */
  readonly states?: boolean | undefined
}

/** What the limiter must know of a remote store: its clock, fleet, secret and settings. */
export interface Remote {
  /** The best estimate of the store's time, in microseconds. */
  time(): number
  /** An upper bound of the store's time; Infinity if unknown. */
  latestTime(): number
  /** The error bound of `time`, in microseconds; Infinity if unknown. */
  uncertaintyUs?(): number
  /** The error of `time` above which units near the edge of a window count in the earlier one. */
  readonly clockToleranceMs?: number | undefined
  /** The number of live nodes at the last heartbeat, this one included. */
  fleetSize(): number
  /** The index of this node among them, starting at 0. @default 0 */
  fleetPlace?(): number
  /**
   * The key of all counter hashes, configured or kept in the store. Rejects if it cannot be read.
   */
  readonly secret: Promise<Uint8Array>
  /**
   * Resolves when the store can be used. Rejects if it answers but cannot be used now; it may be
   * tried again, so that `secret` can still resolve. @default resolves with `secret`
   */
  readonly ready?: Promise<void> | undefined
  /** How long the deny cache keeps a refusal, in milliseconds; 0: not at all. */
  readonly denyCacheMs: number
  /** The default deadline of a decision, in milliseconds. */
  readonly deadlineMs: number
  /** Calls the listener whenever the store answers again after an outage. */
  onAnswering(listener: () => void): void
  /** Announces to the other nodes, best effort, that this node returned units to a counter. */
  announce?(key: CounterKey): void
  /**
   * Calls the listener when another node returned units to a counter, and before and after the
   * store itself does so for a call that was decided in parts: refusals made meanwhile are
   * outdated.
   */
  onGivenBack?(listener: (key: CounterKey) => void): void
  /**
   * Calls the listener when the store itself gives back places of a call that was decided in parts,
   * with the result: whether the store confirmed it. Until then, and for ever if it did not, the
   * record of the holder may have more places than its takes were answered with.
   */
  onPlacesReturned?(listener: (give: Give, isConfirmed: Promise<boolean>) => void): void
}

/** Where one counter is stored, and how much memory it uses. */
export interface StoredCounter {
  /** The key as the store spells it. */
  readonly key: string
  /** The address of the server that holds it; null if it is in this process. */
  readonly node: string | null
  /** Milliseconds until it expires; null if it does not exist or is in this process. */
  readonly ttlMs: number | null
  /** Its memory in bytes, as far as known; null if it does not exist. */
  readonly bytes: number | null
}

/**
 * Shows operators where a counter is stored. No decision depends on it; without one, only `peek`
 * shows counters.
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

/** A counter of another region, or why it is not known. */
export type RegionPeek =
  | { readonly region: string; readonly outcome: PeekOutcome }
  | { readonly region: string; readonly problem: string }

/** Where regions leave a short text each, such as when they were last alive. */
export interface HeartbeatExchange {
  /**
   * Replaces the text of a region. Rejects if the store does not accept it in time, or counts with
   * another key secret.
   */
  write(region: string, text: string): Promise<void>
  /** The last text of each of these regions; undefined for none in the last minutes. */
  read(regions: readonly string[]): Promise<readonly (string | undefined)[]>
}

export type Groups<Item> = readonly (readonly Item[])[]

export interface Store {
  /**
   * Decides one call. `groups` are lists of takes; a group is charged whole or not at all. The
   * first group opens the others: if it is refused, none of the others is charged. The others are
   * independent of each other. A call names a counter at most once.
   *
   * Returns an outcome for each take, in the same places. `retryAfterMs` is 0 if the limit had
   * room; if its group was not charged, `granted` is 0 and `remaining` is what is left now. Only a
   * limit with `onRefusal: charge` is charged, down to empty, when its own group is refused, and a
   * take with `overdraw`, down to the limit's debt, but not in a group that the first group kept
   * closed. A block (`isBlock`) takes no units. Where its group is refused and its own take had
   * room, it is charged, and then refuses, if the take before it in the group was refused for a
   * time; so the take of its limit is directly before it.
   *
   * Only the store's clock counts: `at` of an outcome is its time, and nodes that share a store
   * share that clock. An amount of 0 always has room and changes nothing; with `gate` it has room
   * while one whole unit is left. An amount below 0 always has room, and gives back as `give` does
   * if its group is charged; `granted` is then the amount, or 0 if nothing changed. A state of
   * another algorithm, or in an unknown format, counts as absent. If the store cannot answer in
   * time, it says so in the place of each outcome; it never guesses. A group that was answered only
   * in part may have been charged for that part. A call without takes needs no server: it is
   * answered at once.
   */
  take(groups: Groups<Take>, options?: TakeOptions): Promise<Groups<Answer>>

  /** The outcome that `take` would give each take alone; changes nothing. */
  peek(groups: Groups<Take>, options?: PeekOptions): Promise<Groups<PeekOutcome>>

  /**
   * Returns units, never above full, and only to the window that contains `at`. Does nothing if the
   * counter does not exist. Also frees a slot in the queue of a leaky bucket, and places of a
   * holder, which is then `at`.
   */
  give(give: Give): Promise<void>

  /**
   * Takes units that were already spent. Cannot be refused; goes down to empty, or below by at most
   * `debt`. Of places it renews the lease of the holder `at`: see concurrency.ts of the algorithms.
   */
  charge(charge: Charge): Promise<void>

  /** Deletes a counter. */
  reset(key: CounterKey): Promise<void>

  close(): Promise<void>

  /** The same five verbs synchronously, for counters in this process. */
  readonly sync?: SyncStore | undefined
  /** Set for counters outside this process. */
  readonly remote?: Remote | undefined
  /** Shows single counters to operators; no decision depends on it. */
  readonly inspector?: Inspector | undefined
  /** Reports measurements, for metrics, alerts and the nodes page; no decision depends on it. */
  health?(): StoreHealth
  /** Set where nodes share the store. */
  readonly exchange?: NodeExchange | undefined
  /** Set where the store is one of several, one in each region. */
  readonly regions?: RegionPlace | undefined
  /** The counter of a take in each other region, for operators. */
  peekRegions?(take: Take): Promise<readonly RegionPeek[]>
  /** Set where regions can show each other that they are alive. */
  readonly heartbeatExchange?: HeartbeatExchange | undefined
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
