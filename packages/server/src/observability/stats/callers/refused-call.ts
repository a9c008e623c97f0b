/**
 * Which call was refused, as one short text for people: its method and its route, or its path.
 *
 * A route of the rule set (`routes:`) says which part of an API is hit and holds nothing that
 * callers send, so it is shown where rules use `route` and the call took one. Else it is the
 * canonical path without its query, which may hold ids: it is cut, shown to holders of the admin
 * token, and stored elsewhere only as the names of callers are.
 */
import {
  canonicalPath,
  type NormalizedCall,
  readAttribute,
  readNormalized,
  show,
} from '@sluice/core'

const METHOD_LENGTH_MAX = 16
const PATH_LENGTH_MAX = 80
/** With what stands between: the bytes that each text takes at most, beside 16 of its own. */
export const REFUSED_CALL_LENGTH_MAX = METHOD_LENGTH_MAX + 1 + PATH_LENGTH_MAX

/** Undefined: the call has neither method nor path nor route. */
export function refusedCallText(call: NormalizedCall): string | undefined {
  const method = readAttribute(call.attributes, 'method')?.toUpperCase()
  const path = routePath(readNormalized(call, 'route')) ?? plainPath(call)
  if (method === undefined && path === undefined) return undefined
  const words = [
    method === undefined ? [] : show(method, METHOD_LENGTH_MAX),
    path === undefined ? [] : show(path, PATH_LENGTH_MAX),
  ]
  // Joined, the parts are copied: a cut of a long path would hold on to all of it.
  return words.flat().join(' ')
}

/** Of `GET /v1/orders/:id` what follows the method: that of the call is more exact. */
function routePath(route: string | undefined): string | undefined {
  const space = route?.indexOf(' /') ?? -1
  return space === -1 ? route : route?.slice(space + 1)
}

function plainPath({ attributes }: NormalizedCall): string | undefined {
  const raw = readAttribute(attributes, 'path')
  if (raw === undefined) return undefined
  const canonical = canonicalPath(raw)
  return canonical.ok ? canonical.path : withoutQuery(raw)
}

/** Where secrets stand. */
function withoutQuery(path: string): string {
  const end = path.search(/[?#]/)
  return end === -1 ? path : path.slice(0, end)
}
