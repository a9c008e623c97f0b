/** The options of the remote limiter, and what they may be. */
import { readAddress } from '../address.js'
import { type Fetch, fetchBySystem } from '../exchange.js'
import type { Failure } from './decision-request.js'
import type { FallbackLimiter, Posture } from './decision-types.js'
import { RemoteLimiterError } from './remote-limiter-error.js'

/** Whether the server answers, or why it does not. */
export interface RemoteState {
  readonly state: 'answering' | Failure
  /** What the server said, or what its connection reported. */
  readonly detail: string
}

export interface RemoteLimiterOptions {
  /** The URL of the decision API: `http://127.0.0.1:8081`. */
  readonly url: string
  /** The token of the decision API. */
  readonly token?: string | undefined
  /** Sends the token over plain HTTP to other machines than this one too. @default false */
  readonly insecure?: boolean | undefined
  /**
   * How long a decision waits for the server, 1 to 60,000 ms. Twice the time that a server waits
   * for its store by default, so that the postures of its rules answer first. @default 100
   */
  readonly deadlineMs?: number | undefined
  /**
   * What happens to calls while the server does not answer: `open` admits them, because a limiter
   * must not be the outage; `closed` refuses them. @default 'open'
   */
  readonly posture?: Posture | undefined
  /** Decides while the server does not answer, instead of `posture`. */
  readonly fallback?: FallbackLimiter | undefined
  /** The most calls that wait for the server; others are decided by posture. @default 10000 */
  readonly maxPending?: number | undefined
  /** Called when the server stops answering, for another reason, or again. */
  readonly onState?: ((state: RemoteState) => void) | undefined
  /** The same as log lines; `false`: none. @default console */
  readonly logger?: RemoteLogger | false | undefined
  /** @default the global one */
  readonly fetch?: Fetch | undefined
}

export interface RemoteLogger {
  warn(message: string): void
  error(message: string): void
}

export interface RemoteSettings {
  readonly base: string
  readonly token: string | undefined
  readonly deadlineMs: number
  readonly posture: Posture
  readonly fallback: FallbackLimiter | undefined
  readonly maxPending: number
  readonly onState: (state: RemoteState) => void
  readonly logger: RemoteLogger | undefined
  readonly fetch: Fetch
}

const DEADLINE_MS = 100
const DEADLINE_MS_MAX = 60_000
const PENDING_MAX = 10_000
const PENDING_MAX_MAX = 1_000_000

export function readOptions(options: RemoteLimiterOptions): RemoteSettings {
  const { deadlineMs = DEADLINE_MS, posture = 'open', fallback, logger = console } = options
  const { maxPending = PENDING_MAX, onState = () => {}, fetch = fetchBySystem } = options
  if (!(deadlineMs >= 1 && deadlineMs <= DEADLINE_MS_MAX)) {
    throw invalid('deadlineMs', deadlineMs, `1 to ${DEADLINE_MS_MAX}`)
  }
  if (!(Number.isInteger(maxPending) && maxPending >= 1 && maxPending <= PENDING_MAX_MAX)) {
    throw invalid('maxPending', maxPending, `a whole number from 1 to ${PENDING_MAX_MAX}`)
  }
  if (!['open', 'closed'].includes(posture)) throw invalid('posture', posture, "'open' or 'closed'")
  if (fallback !== undefined && options.posture !== undefined) {
    throw invalid('fallback', 'one beside posture', 'either of them')
  }
  if (fallback !== undefined && typeof fallback?.check !== 'function') {
    throw invalid('fallback', 'one without check', 'a limiter')
  }
  return {
    base: readBase(options),
    token: options.token,
    deadlineMs,
    posture,
    fallback,
    maxPending,
    onState,
    logger: logger === false ? undefined : logger,
    fetch,
  }
}

function readBase(options: RemoteLimiterOptions): string {
  try {
    return readAddress(options)
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    throw new RemoteLimiterError('OPTION_INVALID', 500, message, { cause: error })
  }
}

function invalid(option: string, found: unknown, accepted: string): RemoteLimiterError {
  const message = `${option}: found ${String(found)}; accepted: ${accepted}`
  return new RemoteLimiterError('OPTION_INVALID', 500, message)
}
