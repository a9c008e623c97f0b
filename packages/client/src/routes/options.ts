/** What several routes take. */
import type { Seen } from '../send.js'

/** Of every change: told in the history. */
export interface Change {
  readonly why?: string | undefined
}

export interface SeenChange extends Change {
  /** The version that the writer has seen; another one by now is `version_conflict`. */
  readonly ifMatch?: Seen | undefined
}

export interface Page {
  readonly after?: string | undefined
  readonly limit?: number | undefined
}

export interface PastPage {
  readonly before?: number | undefined
  readonly limit?: number | undefined
}

/** What was done, where there is nothing else to tell. */
export interface Done {
  /** Of the rule store, with it. */
  readonly version: number
}
