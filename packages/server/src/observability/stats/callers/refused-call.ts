/**
 * Describes a refused call as one short text: its method and its route, or its path.
 *
 * A route of the rule set (`routes:`) contains nothing that callers send, so it is shown if the
 * call matched one. Otherwise it is the canonical path without query, which may contain ids: it is
 * cut, shown only to holders of the admin token, and stored like names of callers.
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
/** Including the space: each text takes at most this many bytes plus 16 of overhead. */
export const REFUSED_CALL_LENGTH_MAX = METHOD_LENGTH_MAX + 1 + PATH_LENGTH_MAX

/** Returns undefined if the call has neither method nor path nor route. */
export function refusedCallText(call: NormalizedCall): string | undefined {
  const method = readAttribute(call.attributes, 'method')?.toUpperCase()
  const path = routePath(readNormalized(call, 'route')) ?? plainPath(call)
  if (method === undefined && path === undefined) return undefined
  const words = [
    method === undefined ? [] : show(method, METHOD_LENGTH_MAX),
    path === undefined ? [] : show(path, PATH_LENGTH_MAX),
  ]
  // Joining copies the parts: a slice of a long path would retain the whole path.
  return words.flat().join(' ')
}

/** The part of `GET /v1/orders/:id` after the method, which the call itself provides. */
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

/** The query may contain secrets. */
function withoutQuery(path: string): string {
  const end = path.search(/[?#]/)
  return end === -1 ? path : path.slice(0, end)
}
