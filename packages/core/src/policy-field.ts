/**
 * Formats one limit for the `RateLimit-Policy` and `RateLimit` fields
 * (draft-ietf-httpapi-ratelimit-headers-11).
 */

/** Writes a structured-field string; names are of [a-z0-9-:], so nothing needs escaping. */
function quote(name: string): string {
  return `"${name}"`
}

/**
 * Formats the policy, which is the same for every call. A window is shown only in whole seconds.
 */
export function policyField(name: string, limit: number, windowMs: number): string {
  const window = windowMs % 1000 === 0 ? `;w=${windowMs / 1000}` : ''
  return `${quote(name)};q=${limit}${window}`
}

/** Formats the start of a `RateLimit` item; the units left follow it. */
export function leftFieldHead(name: string): string {
  return `${quote(name)};r=`
}
