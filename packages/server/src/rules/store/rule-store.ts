/**
 * The contract of a rule store: records that change together in numbered versions. A store does not
 * validate rules: the editor does before it commits, and every node again when it reads.
 *
 * Versions count from 1 and never go back. A commit names the version that its changes were
 * computed from; if the store is at another version, nothing is written (optimistic concurrency).
 */
import type { Change, Kind, StoredKey, StoredRecord } from './records.js'

/**
 * The position of a store. `mark` is random for every version, and `lineage` for every history, so
 * that a store restored from an older backup has other marks at the same versions.
 */
export interface Position {
  readonly version: number
  readonly mark: string
  readonly lineage: string
}

/** A part of a read: at most `CHUNK_RECORDS_MAX` records. */
export interface RecordChunk {
  /** Whether this is the first chunk of a whole read: records that are not in the read are gone. */
  readonly isWhole: boolean
  /** In a read of changes, removed records have `body: null`. */
  readonly records: readonly StoredRecord[]
  /** The position of the store, in the last chunk only. All chunks are one snapshot. */
  readonly position: Position | undefined
}

export const CHUNK_RECORDS_MAX = 1000
/** The changes that one version of the history lists; `changesAfter` returns all of them. */
export const CHANGES_LISTED_MAX = 100
/** Changes of one commit. */
export const COMMIT_CHANGES_MAX = 20_000

export interface Commit {
  /** The version that the changes were computed from. */
  readonly base: number
  /** The name of the token that commits. */
  readonly by: string
  readonly why: string | undefined
  /** At least one, and each record at most once. */
  readonly changes: readonly Change[]
}

/** One change of the history. */
export interface PastChange {
  readonly kind: Kind
  readonly id: string
  /** Null: there was none. */
  readonly before: unknown
  /** Null: it was removed. */
  readonly after: unknown
}

export interface PastVersion {
  readonly version: number
  /** An ISO time, by the clock of the store. */
  readonly at: string
  readonly by: string
  readonly why: string | undefined
  readonly changeCount: number
  /** The first `CHANGES_LISTED_MAX` of them; of the queried rule only, if there is one. */
  readonly changes: readonly PastChange[]
}

export interface HistoryQuery {
  /** Only versions that changed this rule, its candidate or its overrides. */
  readonly rule?: string | undefined
  /** Only versions lower than this one. */
  readonly before?: number | undefined
  /** At most this many, newest first. */
  readonly limit: number
}

export interface KeysQuery {
  /** Only keys whose id is greater: keys come in the order of their ids. */
  readonly after?: string | undefined
  readonly user?: string | undefined
  readonly limit: number
}

export interface NodeReport {
  /** Random for each process. */
  readonly id: string
  readonly host: string
  readonly pid: number
  /** The release of Sluice. */
  readonly release: string
  /** The active version of its rules. */
  readonly rulesVersion: number
  /** An ISO time. */
  readonly startedAt: string
  /** Why it does not run the newest rules. */
  readonly problem?: string | undefined
}

export interface LiveNode extends NodeReport {
  /** Time since its last report, by the clock of the store. */
  readonly seenMsAgo: number
}

export interface StoreStatus {
  /** Whether the store answered the last request. */
  readonly isConnected: boolean
  /** How this node learns of changes: by notification, by polling, or not at all for now. */
  readonly news: 'push' | 'poll' | 'none'
  /** What is wrong, as text; undefined: nothing. */
  readonly problem: string | undefined
  /** Whether it serves reads, but takes no commits for now. */
  readonly isReadOnly?: boolean | undefined
  /** The oldest version that a rollback can target; undefined: all of them. */
  readonly keptSince?: number | undefined
}

export interface RuleStore {
  /**
   * For messages, without secrets: `files in .sluice/rules`, `postgres db.internal:5432/sluice`.
   */
  readonly name: string
  /**
   * Reads the changes after `since`; everything, if `since` is undefined or removals since then are
   * no longer known. Rejects with a `DivergedError` if `since` is not part of the store's history,
   * unless the store was adopted since: then reads everything. Without changes there is one chunk
   * without records.
   */
  read(since: Position | undefined): AsyncIterable<RecordChunk>
  /**
   * Commits all changes or none, as the next version. Rejects with a `ConflictError` if the store
   * is not at `base`. When it resolves, the version is durable. A change to an equal body counts
   * too.
   */
  commit(commit: Commit): Promise<Position>
  history(query: HistoryQuery): Promise<readonly PastVersion[]>
  /**
   * Yields every change after a version, newest first, of one rule (with its candidate and
   * overrides) or of all: what a rollback has to undo. Rejects with a `RangeError` if the version
   * is unknown or no longer kept: see `StoreStatus.keptSince`.
   */
  changesAfter(version: number, rule?: string): AsyncIterable<PastChange>
  keys(query: KeysQuery): Promise<readonly StoredKey[]>
  key(id: string): Promise<StoredKey | undefined>
  /**
   * Starts a new lineage, one version higher than both the store's own and `above`, so that nodes
   * that stopped following a restored store read it whole and follow it. Changes no record.
   */
  adopt(above: number, by: string, why: string | undefined): Promise<Position>
  /** Records that this node is alive, and which rules it runs. */
  report(node: NodeReport): Promise<void>
  /** Lists the nodes that reported within a minute. */
  nodes(): Promise<readonly LiveNode[]>
  /** Calls the listener when the store may have changed; returns a function that unsubscribes. */
  onChange(listener: () => void): () => void
  status(): StoreStatus
  close(): Promise<void>
}

/** The store is no longer at the version that a commit was computed from. */
export class ConflictError extends Error {
  readonly version: number

  constructor(version: number) {
    super(`the rule store is at version ${version} by now`)
    this.name = 'ConflictError'
    this.version = version
  }
}

/** The store's history is not the one that a node follows: it was restored, or is another store. */
export class DivergedError extends Error {
  readonly store: Position

  constructor(store: Position, message: string) {
    super(message)
    this.name = 'DivergedError'
    this.store = store
  }
}

/** The store did not answer. If `isUncertain`, a commit may have been made or not. */
export class UnavailableError extends Error {
  readonly isUncertain: boolean

  constructor(message: string, options: ErrorOptions & { readonly isUncertain?: boolean } = {}) {
    super(message, options)
    this.name = 'UnavailableError'
    this.isUncertain = options.isUncertain ?? false
  }
}
