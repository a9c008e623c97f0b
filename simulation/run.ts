/** What all worlds have in common: one run of a scenario, and how it is started. */
import type { Execution } from './sim-server.js'

/** The violation, and when it was found. */
export interface Violation {
  readonly invariant: string
  readonly message: string
  readonly atMs: number
}

export interface WorldRun {
  readonly violation: Violation | undefined
  readonly decisions: number
  readonly admitted: number
  /** A hash of the events in their order. */
  readonly hash: string
}

export interface RunOptions {
  /** Receives every event, one line each. */
  readonly log?: ((line: string) => void) | undefined
  /** The only invariant to check; undefined for all. */
  readonly only?: string | undefined
  /** How long the fleet runs on without calls before it is judged. @default 0 */
  readonly restMs?: number | undefined
  /** Receives every operation of the store with its answer. */
  readonly onExecution?: ((execution: Execution) => void) | undefined
}

/** The parts of a scenario, of any world. */
export interface Parts {
  readonly seed: number
  readonly settings: object
  readonly rules: readonly object[]
  readonly nodes: readonly object[]
  readonly traffic: readonly { readonly atMs: number }[]
  readonly faults: readonly { readonly atMs: number }[]
}
