/**
 * Formats one limit for the `RateLimit-Policy` and `RateLimit` fields
 * (draft-ietf-httpapi-ratelimit-headers-11).
 */
import type { CalendarUnit } from './calendar.js'
import type { Limit } from './limit.js'

/** Writes a structured-field string; names are of [a-z0-9-:], so nothing needs escaping. */
function quote(name: string): string {
  return `"${name}"`
}

/** The part of a limit that its policy shows. */
type PolicySize = Pick<Limit, 'capacity' | 'windowMs' | 'calendar'>

/**
 * Formats the policy, which is the same for every call. A limit without a window counts calls in
 * flight.
 */
export function policyField(name: string, { capacity, windowMs, calendar }: PolicySize): string {
  const quota = `${quote(name)};q=${capacity}`
  if (windowMs === 0) return `${quota};qu="concurrent-requests"`
  return quota + windowParameter(windowMs, calendar?.unit)
}

/**
 * Formats the window of a policy: only one of whole seconds, and none of a calendar, because its
 * windows differ in length.
 */
export function windowParameter(windowMs: number, unit: CalendarUnit | undefined): string {
  const isShown = unit === undefined && windowMs > 0 && windowMs % 1000 === 0
  return isShown ? `;w=${windowMs / 1000}` : ''
}

/** Formats the start of a `RateLimit` item; the units left follow it. */
export function leftFieldHead(name: string): string {
  return `${quote(name)};r=`
}
