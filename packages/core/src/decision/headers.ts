/**
 * The HTTP face of a decision: draft-ietf-httpapi-ratelimit-headers-11, the `X-RateLimit-*` fields
 * everybody reads, and `Retry-After` of RFC 9110.
 */
import type { Decision, Policy } from './decision.js'

export interface HeaderOptions {
  /** The wall clock, in ms since 1970: `X-RateLimit-Reset` is an instant. */
  readonly nowMs: number
  /** Added to every time told, so that not all callers come back at once. See `jitterMs`. */
  readonly jitterMs?: number | undefined
}

export type Headers = readonly (readonly [name: string, value: string])[]

const NONE: Headers = []

/** Headers of a response, allowed or not. A call that no enforced limit speaks of has none. */
export function rateLimitHeaders(decision: Decision, options: HeaderOptions): Headers {
  const policies = decision.policies()
  if (policies.length === 0) return NONE
  const { nowMs, jitterMs: jitter = 0 } = options
  const resetMs = nowMs + (decision.resetAfterMs ?? 0) + jitter
  const headers: (readonly [string, string])[] = [
    ['RateLimit-Policy', policies.map(formatPolicy).join(', ')],
    [
      'RateLimit',
      policies.map((policy) => formatLeft(policy, decision.allowed, jitter)).join(', '),
    ],
    ['X-RateLimit-Limit', String(decision.limit)],
    ['X-RateLimit-Remaining', String(decision.remaining)],
    ['X-RateLimit-Reset', String(seconds(resetMs))],
  ]
  if (!decision.allowed) headers.push(...refusalHeaders(decision, jitter))
  return headers
}

function refusalHeaders(decision: Decision, jitter: number): Headers {
  const retryAfter = retryAfterSeconds(decision, jitter)
  const noStore = ['Cache-Control', 'no-store'] as const
  return retryAfter === null ? [noStore] : [['Retry-After', String(retryAfter)], noStore]
}

/** Whole seconds, rounded up, at least 1; null where waiting does not help. */
export function retryAfterSeconds(decision: Decision, jitter = 0): number | null {
  if (decision.retryAfterMs === null) return null
  return Math.max(1, seconds(decision.retryAfterMs + jitter))
}

const JITTER_SHARE = 0.1
const JITTER_MS_MAX = 5000

/**
 * How much later to send callers back: a fixed window frees everybody at one instant. Only
 * lengthens. `fraction` is from 0 to 1, drawn by whoever may be random.
 */
export function jitterMs(decision: Decision, fraction: number): number {
  const bound = decision
    .policies()
    .find(({ rule, limitName }) => rule === decision.rule && limitName === decision.limitName)
  if (bound?.algorithm !== 'fixed-window') return 0
  return Math.floor(fraction * Math.min(bound.windowMs * JITTER_SHARE, JITTER_MS_MAX))
}

function formatPolicy({ name, limit, windowMs }: Policy): string {
  const window = windowMs % 1000 === 0 ? `;w=${windowMs / 1000}` : ''
  return `${quote(name)};q=${limit}${window}`
}

/**
 * `t` is the reset of an admission and the retry of a refusal. A limit that did not refuse a
 * refused call tells no time: it would outlast `Retry-After`, which the draft forbids.
 */
function formatLeft(policy: Policy, allowed: boolean, jitter: number): string {
  const { name, remaining, resetAfterMs, retryAfterMs } = policy
  const timeMs = allowed ? resetAfterMs : retryAfterMs
  const time = timeMs === null || (!allowed && timeMs === 0) ? '' : `;t=${seconds(timeMs + jitter)}`
  return `${quote(name)};r=${remaining}${time}`
}

/** A structured-field string; names are of [a-z0-9-:], so there is nothing to escape. */
function quote(name: string): string {
  return `"${name}"`
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1000)
}
