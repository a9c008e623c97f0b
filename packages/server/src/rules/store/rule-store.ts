/**
 * The contract of a rule store: records that change together in numbered versions. It knows nothing
 * of what a good rule is; the editor checks before it commits, and every node again when it reads.
 *
 * Versions count from 1 and never go back. A writer names the version it has seen; if the store has
 * gone on meanwhile, nothing is written. So whoever computed a change from what it read can trust
 * that nothing else was there.
 */
import type { Change, Kind, StoredKey, StoredRecord } from './records.js'

/**
 * Where a store stands. `mark` is drawn at random for every version, and `lineage` for every
 * history: a store that was put back to an older backup has other marks at the same numbers.
 */
export interface Position {
  readonly version: number
  readonly mark: string
  readonly lineage: string
}

/** A part of what was asked for, at most `CHUNK_RECORDS_MAX` records. */
export interface RecordChunk {
  /** Whether this is the first chunk of everything, so that what is not in it is gone. */
  readonly isWhole: boolean
  /** In a delta, removed records have `body: null`. */
  readonly records: readonly StoredRecord[]
  /** In the last chunk: where the store stood. All chunks are of that one moment. */
  readonly position: Position | undefined
}

export const CHUNK_RECORDS_MAX = 1000
/** The changes that one version of the history lists; `changesAfter` returns all of them. */
export const CHANGES_LISTED_MAX = 100
/** Of one commit: what a person imports at once. */
export const COMMIT_CHANGES_MAX = 20_000

export interface Commit {
  /** The version that the changes were computed from. */
  readonly base: number
  /** Who: the name of the token. */
  readonly by: string
  readonly why: string | undefined
  /** A record at most once. None: an error of the caller. */
  readonly changes: readonly Change[]
}

/** One change of the past, as it is told. */
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
  /** The first of them: at most 100, and of the rule asked for only where one was. */
  readonly changes: readonly PastChange[]
}

export interface HistoryQuery {
  /** Only versions that changed this rule, its candidate or its overrides. */
  readonly rule?: string | undefined
  /** Only versions below this one. */
  readonly before?: number | undefined
  /** At most so many, newest first. */
  readonly limit: number
}

export interface KeysQuery {
  /** Only keys whose id is above this one: they come in the order of their ids. */
  readonly after?: string | undefined
  readonly user?: string | undefined
  readonly limit: number
}

export interface NodeReport {
  /** Random, for the life of the process. */
  readonly id: string
  readonly host: string
  readonly pid: number
  /** Of Sluice. */
  readonly release: string
  /** The version of the rules that it runs. */
  readonly rulesVersion: number
  /** An ISO time. */
  readonly startedAt: string
  /** What keeps it from running the newest rules, for people. */
  readonly problem?: string | undefined
}

export interface LiveNode extends NodeReport {
  /** How long ago it reported, by the clock of the store. */
  readonly seenMsAgo: number
}

export interface StoreStatus {
  /** Whether the store answered when it was last asked. */
  readonly isConnected: boolean
  /** How news comes: at once, by asking regularly, or not at all now. */
  readonly news: 'push' | 'poll' | 'none'
  /** What is wrong, for people; undefined: nothing. */
  readonly problem: string | undefined
  /** Whether it is read and followed, but takes no changes for now. */
  readonly isReadOnly?: boolean | undefined
  /** The oldest version that can be gone back to; undefined: every one that there was. */
  readonly keptSince?: number | undefined
}

export interface RuleStore {
  /** For people, without secrets: `files in .sluice/rules`, `postgres db.internal:5432/sluice`. */
  readonly name: string
  /**
   * What changed after `since`; everything, where it is undefined or nobody knows any more what
   * was removed since then. Rejects with a `DivergedError` if the store's history is not the one
   * that `since` belongs to, unless it has begun a new lineage on purpose: then everything. No
   * chunk but a last one without records if there is nothing new.
   */
  read(since: Position | undefined): AsyncIterable<RecordChunk>
  /**
   * All changes or none, as the next version. Rejects with a `ConflictError` if the store is no
   * longer at `base`. When it resolves, the version is safe on disk. A change that leaves a record
   * as it is still counts as one.
   */
  commit(commit: Commit): Promise<Position>
  history(query: HistoryQuery): Promise<readonly PastVersion[]>
  /**
   * Every change after a version, newest first, of one rule (with its candidate and overrides) or
   * of all: what has to be undone to go back there. Rejects with a `RangeError` if the version is
   * not one of this store's, or no longer kept: see `StoreStatus.keptSince`.
   */
  changesAfter(version: number, rule?: string): AsyncIterable<PastChange>
  keys(query: KeysQuery): Promise<readonly StoredKey[]>
  key(id: string): Promise<StoredKey | undefined>
  /**
   * Begins a new lineage one version above both the store's own and `above`, so that nodes that
   * refuse to follow an older store read it whole and follow. Changes no record.
   */
  adopt(above: number, by: string, why: string | undefined): Promise<Position>
  /** Tells that this node lives, and what it runs. */
  report(node: NodeReport): Promise<void>
  /** Those that reported within a minute. */
  nodes(): Promise<readonly LiveNode[]>
  /** Calls the listener when there may be something new; returns what ends that. */
  onChange(listener: () => void): () => void
  status(): StoreStatus
  close(): Promise<void>
}

/** The store went on since the version that a writer had seen. */
export class ConflictError extends Error {
  readonly version: number

  constructor(version: number) {
    super(`the rule store is at version ${version} by now`)
    this.name = 'ConflictError'
    this.version = version
  }
}

/** The store's history is not the one that a node follows: it was put back, or is another one. */
export class DivergedError extends Error {
  readonly store: Position

  constructor(store: Position, message: string) {
    super(message)
    this.name = 'DivergedError'
    this.store = store
  }
}

/** The store did not answer; whether a commit was made is not known where `isUncertain`. */
export class UnavailableError extends Error {
  readonly isUncertain: boolean

  constructor(message: string, options: ErrorOptions & { readonly isUncertain?: boolean } = {}) {
    super(message, options)
    this.name = 'UnavailableError'
    this.isUncertain = options.isUncertain ?? false
  }
}
