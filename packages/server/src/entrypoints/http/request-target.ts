/** The target of a request as a server wants it. */

/** `/path?query`, also of a request to a proxy, which has the whole address in its first line. */
export function originForm(url: string): string {
  if (url.startsWith('/')) return url
  const path = url.replace(/^https?:\/\/[^/?]*/i, '')
  return path.startsWith('/') ? path : `/${path}`
}
