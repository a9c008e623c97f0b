/** Request targets. */

/** Reduces a request target to `/path?query`; a request to a proxy contains the whole URL. */
export function originForm(url: string): string {
  if (url.startsWith('/')) return url
  const path = url.replace(/^https?:\/\/[^/?]*/i, '')
  return path.startsWith('/') ? path : `/${path}`
}
