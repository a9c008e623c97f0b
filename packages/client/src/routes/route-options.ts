/** Options of several routes. */
import type { ExpectedVersion } from '../send.js'

/** The reason of a change, which the history shows. */
export interface Change {
  readonly why?: string | undefined
}

export interface VersionedChange extends Change {
  /** The version that the writer has read; a different current version is a `version_conflict`. */
  readonly ifMatch?: ExpectedVersion | undefined
}

export interface PageOptions {
  readonly after?: string | undefined
  readonly limit?: number | undefined
}

export interface HistoryOptions {
  readonly before?: number | undefined
  readonly limit?: number | undefined
}
