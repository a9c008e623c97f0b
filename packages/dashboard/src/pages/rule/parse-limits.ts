/** Limits as somebody types them into a field: one on each line. */

/** As many as a rule takes. */
const LIMITS_MAX = 16

export interface ParsedLimits {
  readonly limits: readonly unknown[]
  readonly problem?: string | undefined
}

/** `10/second`, or the long form as JSON. Whether a limit is a good one, the server says. */
export function parseLimits(text: string): ParsedLimits {
  const lines = text.split('\n').map((line) => line.trim().replace(/^- /, ''))
  const entries = lines.filter((line) => line !== '')
  if (entries.length === 0)
    return { limits: [], problem: 'Give a limit on each line, as in 100/second' }
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
        problem: `limit ${index + 1}: the long form is JSON here, as in {"max": 5, "window": "1m"}`,
      }
    }
  }
  return { limits }
}

/** The same limits as the field has them. */
export function writeLimits(limits: unknown): string {
  if (!Array.isArray(limits)) return ''
  return limits
    .map((limit) => (typeof limit === 'string' ? limit : JSON.stringify(limit)))
    .join('\n')
}

/** A local date and time as fields of forms have it, as an instant; undefined: it is none. */
export function localTimeToIso(local: string): string | undefined {
  const ms = Date.parse(local)
  return local === '' || Number.isNaN(ms) ? undefined : new Date(ms).toISOString()
}
