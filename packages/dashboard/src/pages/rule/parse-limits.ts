/** Parses limits from a text field: one per line. */

/** A rule accepts no more. */
const LIMITS_MAX = 16

export interface ParsedLimits {
  readonly limits: readonly unknown[]
  readonly problem?: string | undefined
}

/** Accepts `10/second`, or the long form as JSON. The server validates the limits. */
export function parseLimits(text: string): ParsedLimits {
  const lines = text.split('\n').map((line) => line.trim().replace(/^- /, ''))
  const entries = lines.filter((line) => line !== '')
  if (entries.length === 0)
    return { limits: [], problem: 'Enter one limit per line, such as 100/second' }
  if (entries.length > LIMITS_MAX) {
    return { limits: [], problem: `found ${entries.length} limits; accepted: up to ${LIMITS_MAX}` }
  }
  const limits: unknown[] = []
  for (const [index, line] of entries.entries()) {
    if (!line.startsWith('{')) {
      limits.push(line)
      continue
    }
    try {
      limits.push(JSON.parse(line))
    } catch {
      return {
        limits: [],
        problem: `limit ${index + 1}: use JSON for the long form, such as {"max": 5, "window": "1m"}`,
      }
    }
  }
  return { limits }
}

/** Limits as text; the inverse of `parseLimits`. */
export function writeLimits(limits: unknown): string {
  if (!Array.isArray(limits)) return ''
  return limits
    .map((limit) => (typeof limit === 'string' ? limit : JSON.stringify(limit)))
    .join('\n')
}

/** Converts the value of a date and time field to ISO 8601; undefined: invalid or empty. */
export function localTimeToIso(local: string): string | undefined {
  const ms = Date.parse(local)
  return local === '' || Number.isNaN(ms) ? undefined : new Date(ms).toISOString()
}
