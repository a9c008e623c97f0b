/**
 * The HTTP headers of a decision: draft-ietf-httpapi-ratelimit-headers-11, the widely used
 * `X-RateLimit-*` fields, and `Retry-After` of RFC 9110.
 */
import { moduleOf } from '../algorithms/index.js'
import type { Decision } from './decision.js'

export interface HeaderOptions {
  /** The wall clock, in ms since 1970: `X-RateLimit-Reset` is an instant. */
  readonly nowMs: number
  /**
   * Added to every time in the headers, so that callers do not all retry at once. See `jitterMs`.
   */
  readonly jitterMs?: number | undefined
}

export type Headers = readonly (readonly [name: string, value: string])[]

/** Returns the headers of a response, allowed or refused; none if no enforced limit matches. */
export function rateLimitHeaders(decision: Decision, options: HeaderOptions): Headers {
  const flat = flatRateLimitHeaders(decision, options)
  const headers: (readonly [string, string])[] = []
  for (let i = 0; i < flat.length; i += 2) headers.push([flat[i] ?? '', flat[i + 1] ?? ''])
  return headers
}

/** The same headers as alternating names and values, for servers that write a flat list. */
export function flatRateLimitHeaders(
  decision: Decision,
  { nowMs, jitterMs: jitter = 0 }: HeaderOptions,
): string[] {
  const policy = decision.policyField()
  if (policy === '') return []
  const flat = [
    'RateLimit-Policy',
    policy,
    'RateLimit',
    decision.leftField(jitter),
    'X-RateLimit-Limit',
    String(decision.limit),
    'X-RateLimit-Remaining',
    String(decision.remaining),
    'X-RateLimit-Reset',
    String(seconds(nowMs + (decision.resetAfterMs ?? 0) + jitter)),
  ]
  if (decision.allowed) return flat
  const retryAfter = retryAfterSeconds(decision, jitter)
  if (retryAfter !== null) flat.push('Retry-After', String(retryAfter))
  flat.push('Cache-Control', 'no-store')
  return flat
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
  if (bound === undefined || !moduleOf(bound).resetsAtOnce) return 0
  return Math.floor(fraction * Math.min(bound.windowMs * JITTER_SHARE, JITTER_MS_MAX))
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1000)
}
