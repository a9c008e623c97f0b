/**
 * `Access-Control-Expose-Headers` of CORS: which headers of a response a page of another origin
 * may read. Without it a browser hides the rate limit headers from the page.
 */
import type { FlatHeaders } from './http-response.js'

export const EXPOSE_HEADERS = 'Access-Control-Expose-Headers'
export const ALLOW_CREDENTIALS = 'Access-Control-Allow-Credentials'

/** Browsers always show this one of the headers that Sluice writes. */
const ALWAYS_READABLE = 'cache-control'

/**
 * Returns the list of exposed headers with the names of these headers added. `listed` is the list
 * that the response has already. A `*` in it exposes everything, unless the response allows
 * credentials: then browsers read it as a name.
 */
export function exposeHeaders(
  listed: string | undefined,
  headers: FlatHeaders,
  allowsCredentials: boolean,
): string {
  const names = (listed ?? '').split(',').flatMap((part) => part.trim() || [])
  const known = new Set(names.map((name) => name.toLowerCase()))
  if (known.has('*') && !allowsCredentials) return names.join(', ')
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? ''
    const lower = name.toLowerCase()
    if (lower === ALWAYS_READABLE || known.has(lower)) continue
    known.add(lower)
    names.push(name)
  }
  return names.join(', ')
}
