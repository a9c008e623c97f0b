/**
 * The HTTP headers of a decision: draft-ietf-httpapi-ratelimit-headers-11, the widely used
 * `X-RateLimit-*` fields, and `Retry-After` of RFC 9110. Older drafts are written on request.
 */
import { moduleOf } from '../algorithms/index.js'
import { windowParameter } from '../policy-field.js'
import type { Decision } from './decision.js'

/**
 * Which fields of the IETF draft are sent: `true` those of draft 11, which draft 8 shares; `false`
 * none.
 */
export type StandardHeaders = boolean | 'draft-6' | 'draft-7' | 'draft-8'

export interface HeaderOptions {
  /** The wall clock, in ms since 1970: `X-RateLimit-Reset` is an instant. */
  readonly nowMs: number
  /**
   * Added to every time in the headers, so that callers do not all retry at once. See `jitterMs`.
   */
  readonly jitterMs?: number | undefined
  /** The fields of the IETF draft. @default true */
  readonly standard?: StandardHeaders | undefined
  /** Whether `X-RateLimit-*` are sent. @default true */
  readonly legacy?: boolean | undefined
}

export type Headers = readonly (readonly [name: string, value: string])[]

/**
 * Returns the headers of a response, allowed or refused. Without an enforced limit, as if a remote
 * limiter refused because its server is gone, only those of a refusal.
 */
export function rateLimitHeaders(decision: Decision, options: HeaderOptions): Headers {
  const flat = flatRateLimitHeaders(decision, options)
  const headers: (readonly [string, string])[] = []
  for (let i = 0; i < flat.length; i += 2) headers.push([flat[i] ?? '', flat[i + 1] ?? ''])
  return headers
}

/** The same headers as alternating names and values, for servers that write a flat list. */
export function flatRateLimitHeaders(decision: Decision, options: HeaderOptions): string[] {
  const policy = decision.policyField()
  const { nowMs, jitterMs: jitter = 0, standard = true, legacy = true } = options
  // Capacity is no policy of the caller, so a shed call hears only when to come back.
  if (decision.reason === 'shed') return refusalHeaders(decision, 0)
  // Without limits there is nothing to show, but a refusal still says when to come back.
  if (policy === '') return decision.allowed ? [] : refusalHeaders(decision, jitter)
  const reset = String(seconds(nowMs + (decision.resetAfterMs ?? 0) + jitter))
  // Written whole in the usual case, because a list that grows is copied.
  const flat =
    standard === true && legacy
      ? [
          'RateLimit-Policy',
          policy,
          'RateLimit',
          decision.leftField(jitter),
          'X-RateLimit-Limit',
          String(decision.limit),
          'X-RateLimit-Remaining',
          String(decision.remaining),
          'X-RateLimit-Reset',
          reset,
        ]
      : [
          ...standardHeaders(decision, policy, jitter, standard),
          ...(legacy ? legacyHeaders(decision, reset) : []),
        ]
  if (!decision.allowed) flat.push(...refusalHeaders(decision, jitter))
  return flat
}

function refusalHeaders(decision: Decision, jitter: number): string[] {
  const retryAfter = retryAfterSeconds(decision, jitter)
  const retry = retryAfter === null ? [] : ['Retry-After', String(retryAfter)]
  return [...retry, 'Cache-Control', 'no-store']
}

function legacyHeaders({ limit, remaining }: Decision, reset: string): string[] {
  return [
    'X-RateLimit-Limit',
    String(limit),
    'X-RateLimit-Remaining',
    String(remaining),
    'X-RateLimit-Reset',
    reset,
  ]
}

function standardHeaders(
  decision: Decision,
  policy: string,
  jitter: number,
  standard: StandardHeaders,
): string[] {
  if (standard === true || standard === 'draft-8') {
    return ['RateLimit-Policy', policy, 'RateLimit', decision.leftField(jitter)]
  }
  return standard === false ? [] : olderHeaders(decision, jitter, standard)
}

/** Drafts 6 and 7 name no policies: they list all of them, and describe the binding limit only. */
function olderHeaders(
  decision: Decision,
  jitter: number,
  standard: 'draft-6' | 'draft-7',
): string[] {
  const policies = decision
    .policies()
    .map(({ limit, windowMs, window }) => `${limit}${windowParameter(windowMs, window)}`)
  // A reset before the retry would invite calls that are refused again.
  const waitMs = decision.allowed ? decision.resetAfterMs : decision.retryAfterMs
  const reset = seconds((waitMs ?? decision.resetAfterMs ?? 0) + jitter)
  const { limit, remaining } = decision
  if (standard === 'draft-7') {
    const left = `limit=${limit}, remaining=${remaining}, reset=${reset}`
    return ['RateLimit-Policy', policies.join(', '), 'RateLimit', left]
  }
  return [
    'RateLimit-Policy',
    policies.join(', '),
    'RateLimit-Limit',
    String(limit),
    'RateLimit-Remaining',
    String(remaining),
    'RateLimit-Reset',
    String(reset),
  ]
}

/** Returns whole seconds, rounded up, at least 1; null if waiting does not help. */
export function retryAfterSeconds(decision: Decision, jitter = 0): number | null {
  if (decision.retryAfterMs === null) return null
  return Math.max(1, seconds(decision.retryAfterMs + jitter))
}

const JITTER_SHARE = 0.1
const JITTER_MS_MAX = 5000

/**
 * Returns the time to add to a retry, because a fixed window frees all callers at one instant. It
 * only lengthens waits. `fraction` is a random number from 0 to 1, passed in because this package
 * is deterministic.
 */
export function jitterMs(decision: Decision, fraction: number): number {
  const bound = decision
    .policies()
    .find(({ rule, limitName }) => rule === decision.rule && limitName === decision.limitName)
  // A limit that sheds is none of the policies: its retry is random already.
  if (bound === undefined || !moduleOf(bound).resetsAtOnce) return 0
  return Math.floor(fraction * Math.min(bound.windowMs * JITTER_SHARE, JITTER_MS_MAX))
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1000)
}
