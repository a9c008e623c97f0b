/** The messages between a worker and the process that holds the rule store. All of it is JSON. */
import {
  ConflictError,
  DivergedError,
  type Position,
  type StoreStatus,
  UnavailableError,
} from '../rule-store.js'

/** `read` and `changesAfter` return the number of a stream, from which `next` pulls. */
export type Verb =
  | 'hello'
  | 'read'
  | 'changesAfter'
  | 'next'
  | 'end'
  | 'commit'
  | 'history'
  | 'keys'
  | 'key'
  | 'adopt'
  | 'report'
  | 'nodes'

export type RulesMessage =
  | {
      readonly sluice: 'rules-request'
      readonly id: number
      readonly verb: Verb
      readonly args: readonly unknown[]
    }
  | { readonly sluice: 'rules-response'; readonly id: number; readonly value?: unknown }
  | { readonly sluice: 'rules-error'; readonly id: number; readonly failure: Failure }
  | { readonly sluice: 'rules-change'; readonly status: StoreStatus }
  | { readonly sluice: 'rules-status'; readonly status: StoreStatus }

/** The first response of the process that holds the store. */
export interface Hello {
  readonly name: string
  readonly status: StoreStatus
  /** Whether this worker writes the last known good rules to disk for all. */
  readonly isKeeper: boolean
}

/** The response to `next`. */
export interface StreamBatch {
  readonly values: readonly unknown[]
  readonly isDone: boolean
}

/** One end of a channel between two processes. */
export interface IpcChannel {
  send(message: RulesMessage): void
  /** Returns a function that unsubscribes. */
  onMessage(listener: (message: RulesMessage) => void): () => void
}

export type Failure =
  | { readonly kind: 'conflict'; readonly version: number }
  | { readonly kind: 'diverged'; readonly store: Position; readonly message: string }
  | { readonly kind: 'unavailable'; readonly message: string; readonly isUncertain: boolean }
  | { readonly kind: 'range'; readonly message: string }
  | { readonly kind: 'other'; readonly message: string }

export function failureOf(error: unknown): Failure {
  const message = error instanceof Error ? error.message : String(error)
  if (error instanceof ConflictError) return { kind: 'conflict', version: error.version }
  if (error instanceof DivergedError) return { kind: 'diverged', store: error.store, message }
  if (error instanceof UnavailableError) {
    return { kind: 'unavailable', message, isUncertain: error.isUncertain }
  }
  return { kind: error instanceof RangeError ? 'range' : 'other', message }
}

export function errorOf(failure: Failure): Error {
  switch (failure.kind) {
    case 'conflict':
      return new ConflictError(failure.version)
    case 'diverged':
      return new DivergedError(failure.store, failure.message)
    case 'unavailable':
      return new UnavailableError(failure.message, { isUncertain: failure.isUncertain })
    case 'range':
      return new RangeError(failure.message)
    case 'other':
      return new Error(failure.message)
  }
}
