/** What several routes take. */
import type { ExpectedVersion } from '../send.js'

/** Of every change: told in the history. */
export interface Change {
  readonly why?: string | undefined
}

export interface VersionedChange extends Change {
  /** The version that the writer has seen; another one by now is `version_conflict`. */
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
