/** Routes: patterns that give a call its `route`, the most specific one first. */
import { type PathPattern, parsePattern } from '../path.js'
import { patternShape } from '../rules/pattern-shape.js'
import { PathTrie } from './path-trie.js'

interface Route {
  readonly text: string
  readonly method: string | undefined
  readonly pattern: PathPattern
}

/** A route with its rank: of all matching routes, a call takes the lowest. */
interface RankedRoute extends Route {
  readonly rank: number
}

/** A route in the form that is compared with the paths of rules. */
export interface NamedRoute {
  readonly text: string
  /** Undefined for every method. */
  readonly method: string | undefined
  /** Folded segments; `:` is a parameter, and a last `*` matches everything below. */
  readonly shape: readonly string[]
}

/** Returns the routes by name. */
export function nameRoutes(
  texts: readonly string[],
  strictPaths: boolean,
): ReadonlyMap<string, NamedRoute> {
  return new Map(
    texts.map((text) => {
      const { method, pattern } = readRoute(text)
      return [text, { text, method, shape: segmentsOf(patternShape(pattern, strictPaths)) }]
    }),
  )
}

export function segmentsOf(shape: string): readonly string[] {
  return shape.slice(1).split('/')
}

/**
 * Compiles a function that returns the name of a call's route: a literal segment ranks before a
 * `:param`, which ranks before `*`.
 */
export function compileRoutes(
  texts: readonly string[],
  strictPaths: boolean,
): (method: string | undefined, path: string) => string | undefined {
  if (texts.length === 0) return () => undefined
  const trie = new PathTrie<RankedRoute[]>(
    strictPaths ? (text) => text : (text) => text.toLowerCase(),
  )
  texts
    .map(readRoute)
    .sort(moreExact)
    .forEach((route, rank) => trie.getOrCreate(route.pattern, () => []).push({ ...route, rank }))
  return (method, path) => {
    const found: RankedRoute[][] = []
    trie.find(path, found)
    let taken: RankedRoute | undefined
    for (let i = 0; i < found.length; i++) {
      for (const route of found[i] ?? []) {
        if (!takes(route, method)) continue
        if (taken === undefined || route.rank < taken.rank) taken = route
      }
    }
    return taken?.text
  }
}

/** A route for GET also applies to HEAD, unless HEAD has its own. */
function takes({ method: own }: Route, method: string | undefined): boolean {
  return own === undefined || own === method || (own === 'GET' && method === 'HEAD')
}

function readRoute(text: string): Route {
  const space = text.indexOf(' ')
  const pattern = parsePattern(text.slice(space + 1))
  if ('problem' in pattern) throw new RangeError(`routes: ${pattern.problem}`)
  return { text, method: space === -1 ? undefined : text.slice(0, space), pattern }
}

function moreExact(a: Route, b: Route): number {
  const length = Math.max(a.pattern.segments.length, b.pattern.segments.length)
  for (let i = 0; i < length; i++) {
    const difference = vagueness(a.pattern, i) - vagueness(b.pattern, i)
    if (difference !== 0) return difference
  }
  return methodVagueness(a) - methodVagueness(b)
}

function methodVagueness({ method }: Route): number {
  if (method === undefined) return 2
  return method === 'GET' ? 1 : 0
}

function vagueness(pattern: PathPattern, index: number): number {
  const segment = pattern.segments[index]
  if (segment === undefined) return pattern.wildcard ? 2 : 0
  return 'literal' in segment ? 0 : 1
}
