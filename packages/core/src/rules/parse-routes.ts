/**
 * Parses the patterns that give a call its `route`: `GET /v1/orders/:id`, or a path for every
 * method.
 */
import { readMethod, readPath } from './parse-match.js'
import { reportAt, itemsOf, readList, readText, type Located } from './reader.js'
import { patternShape } from './pattern-shape.js'

const ROUTES_MAX = 1000
const ACCEPTED = 'a path, or a method, one space and a path, such as "GET /v1/orders/:id"'

export function readRoutes(located: Located, isStrict: boolean): readonly string[] | undefined {
  const list = readList(located, { items: 'routes', most: ROUTES_MAX })
  if (list === undefined) return undefined
  const routes: string[] = []
  const fieldByShape = new Map<string, string>()
  for (const item of itemsOf(list)) {
    const route = readRoute(item, isStrict)
    if (route === undefined) continue
    // Only one of the two could ever match a call.
    const why = fieldByShape.get(route.shape)
    if (why !== undefined) reportAt(item, 'duplicate-route', { why, accepted: 'each route once' })
    else fieldByShape.set(route.shape, item.field)
    routes.push(route.text)
  }
  return routes
}

function readRoute(
  located: Located,
  isStrict: boolean,
): { readonly text: string; readonly shape: string } | undefined {
  const text = readText(located, { accepted: ACCEPTED, most: Number.POSITIVE_INFINITY })
  if (text === undefined) return undefined
  const space = text.indexOf(' ')
  const method = space === -1 ? '' : text.slice(0, space)
  const part = (value: string): Located => ({
    ...located,
    node: { kind: 'scalar', at: located.node.at, value },
  })
  if (space !== -1 && readMethod(part(method)) === undefined) return undefined
  const pattern = readPath(part(text.slice(space + 1)))
  if (pattern === undefined) return undefined
  return { text, shape: `${method} ${patternShape(pattern, isStrict)}` }
}
