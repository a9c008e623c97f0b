/**
 * Formats one limit for the `RateLimit-Policy` and `RateLimit` fields
 * (draft-ietf-httpapi-ratelimit-headers-11).
 */
import type { Limit } from './limit.js'

/** Writes a structured-field string; names are of [a-z0-9-:], so nothing needs escaping. */
function quote(name: string): string {
  return `"${name}"`
}

/** The part of a limit that its policy shows. */
type PolicySize = Pick<Limit, 'capacity' | 'windowMs'>

/**
 * Formats the policy, which is the same for every call. A window is shown only in whole seconds. A
 * limit without one counts calls in flight.
 */
export function policyField(name: string, { capacity, windowMs }: PolicySize): string {
  const quota = `${quote(name)};q=${capacity}`
  if (windowMs === 0) return `${quota};qu="concurrent-requests"`
  return windowMs % 1000 === 0 ? `${quota};w=${windowMs / 1000}` : quota
}

/** Formats the start of a `RateLimit` item; the units left follow it. */
export function leftFieldHead(name: string): string {
  return `${quote(name)};r=`
}
