/** The options, events and errors of a paced fetch. */
import type { PaceClock } from './clock.js'
import type { RateLimitReading } from './read-rate-limit.js'

/** How one call is treated; passed as `pace` in the second argument of the paced fetch. */
export interface CallPace {
  /** Calls with a higher number leave the queue first. @default 0 */
  readonly priority?: number | undefined
  /** The time for the whole call, retries included, until its response begins. */
  readonly deadlineMs?: number | undefined
}

export type PacedInit = RequestInit & { readonly pace?: CallPace | undefined }
export type PacedInput = string | URL | Request

export interface PacedFetchOptions {
  /**
   * Calls with the same key share one pace.
   * @default the origin and the credentials: `Authorization`, `X-Api-Key` and `Api-Key`
   */
  readonly key?: ((request: { url: URL; headers: Headers }) => string) | undefined
  /** The number of waiting calls; further ones are refused at once. @default 1000 */
  readonly maxQueue?: number | undefined
  /** The number of calls in flight for one key. @default 64 */
  readonly maxInFlight?: number | undefined
  /** The time for each call that sets none. @default none */
  readonly deadlineMs?: number | undefined
  /** How often one call is retried at most. @default 3 */
  readonly retries?: number | undefined
  /** The share of calls of one key that may be retries, once ten were. @default 0.1 */
  readonly retryRatio?: number | undefined
  /**
   * The name of a `BroadcastChannel` by which tabs share what they learn. Keys are shared as
   * digests, which browsers compute in secure contexts only; elsewhere nothing is shared.
   * @default none
   */
  readonly channel?: string | undefined
  readonly clock?: PaceClock | undefined
  /** A number from 0 to 1. @default Math.random */
  readonly random?: (() => number) | undefined
}

/** What happened, with the key of the pace; see `PacedFetch.on`. */
export interface PaceEvents {
  /** A call has to wait for its turn. */
  readonly queued: { readonly key: string; readonly waiting: number }
  /** A call was sent. */
  readonly sent: { readonly key: string; readonly waitedMs: number }
  /** A response arrived. */
  readonly answered: {
    readonly key: string
    readonly status: number
    readonly reading: RateLimitReading
  }
  /** The server refused the call for its rate. */
  readonly refused: { readonly key: string; readonly status: number; readonly waitMs: number }
  /** A call is sent again after `waitMs`. */
  readonly retried: { readonly key: string; readonly attempt: number; readonly waitMs: number }
}

export interface PacedFetchStats {
  readonly sent: number
  readonly answered: number
  /** Responses that refused a call for its rate. */
  readonly refused: number
  readonly retried: number
  /** Calls that failed with a `PacedFetchError`. */
  readonly dropped: number
  readonly waiting: number
  readonly inFlight: number
}

export interface PacedFetch {
  (input: PacedInput, init?: PacedInit): Promise<Response>
  /** Listens to an event; the result ends that. */
  on<Name extends keyof PaceEvents>(
    name: Name,
    listener: (event: PaceEvents[Name]) => void,
  ): () => void
  stats(): PacedFetchStats
  /** Closes the channel between tabs. */
  close(): void
}

/** The call was not sent, or not in time. */
export class PacedFetchError extends Error {
  /** `queue_full` or `deadline`. */
  readonly code: 'queue_full' | 'deadline'

  constructor(code: 'queue_full' | 'deadline', message: string) {
    super(message)
    this.name = 'PacedFetchError'
    this.code = code
  }
}
