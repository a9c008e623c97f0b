/**
 * One limit as the `RateLimit-Policy` and `RateLimit` fields show it
 * (draft-ietf-httpapi-ratelimit-headers-11).
 */

/** A structured-field string; names are of [a-z0-9-:], so there is nothing to escape. */
function quote(name: string): string {
  return `"${name}"`
}

/** What does not change from call to call. Windows are told in whole seconds, or not at all. */
export function policyField(name: string, limit: number, windowMs: number): string {
  const window = windowMs % 1000 === 0 ? `;w=${windowMs / 1000}` : ''
  return `${quote(name)};q=${limit}${window}`
}

/** What is left follows. */
export function leftFieldHead(name: string): string {
  return `${quote(name)};r=`
}
