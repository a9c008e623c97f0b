/**
 * Finds the routes that calls of a rule may take, for a caller that requests its limits without a
 * call.
 */
import { foldPath } from '../path.js'
import { patternShape } from '../rules/pattern-shape.js'
import type { CompiledRule, Snapshot } from './compiled.js'
import { type NamedRoute, segmentsOf } from './compile-routes.js'

/** The most pairs of a rule and a route compared for one response; later rules get no routes. */
const PAIRS_MAX = 100_000
/** Represents every method that no route names. */
const OTHER_METHOD = ''

/** Whether the rule counts by the route, matches on it, or has tiers by it. */
export function readsRoute({ by, conditions, tiers }: CompiledRule): boolean {
  return (
    by.includes('route') ||
    tiers?.attribute === 'route' ||
    conditions.some(({ attribute }) => attribute === 'route')
  )
}

/** Finds the routes of several rules within one shared bound. */
export class RouteCandidates {
  readonly #snapshot: Snapshot
  readonly #methods: ReadonlySet<string>
  #pairs = 0

  constructor(snapshot: Snapshot) {
    this.#snapshot = snapshot
    const methods = [...snapshot.routes.values()].map(({ method }) => method ?? OTHER_METHOD)
    this.#methods = new Set([...methods, OTHER_METHOD, 'HEAD'])
  }

  /**
   * Returns the names of routes that calls of this rule may take. If its path has a `:param` or a
   * `*`, the list may be too long: a more specific route may take all calls of another.
   */
  routesOf(rule: CompiledRule): readonly string[] {
    const { routes, strictPaths } = this.#snapshot
    const { pattern } = rule
    if (this.#pairs >= PAIRS_MAX) return []
    const named = namedRoutes(rule, routes)
    this.#pairs += named.length
    if (pattern === undefined) return named.filter((route) => takesMethod(route, rule)).map(textOf)
    if (!pattern.wildcard && pattern.segments.every((segment) => 'literal' in segment)) {
      const taken = this.routesTaken(rule, pattern.text)
      return named.filter(({ text }) => taken.has(text)).map(textOf)
    }
    const shape = segmentsOf(patternShape(pattern, strictPaths))
    return named
      .filter((route) => takesMethod(route, rule) && shapesMeet(shape, route.shape))
      .map(textOf)
  }

  /** For a rule with one literal path: the routes that its methods take there. */
  private routesTaken(
    { methods = this.#methods }: CompiledRule,
    path: string,
  ): ReadonlySet<string> {
    const { routeOf, strictPaths } = this.#snapshot
    const target = strictPaths ? path : foldPath(path)
    const taken = [...methods].map((method) => routeOf(method, target))
    return new Set(taken.filter((text) => text !== undefined))
  }
}

/** Returns the routes that the rule matches on, else all. */
function namedRoutes({ conditions }: CompiledRule, routes: Snapshot['routes']): NamedRoute[] {
  const target = conditions.find(
    ({ attribute, isExcluding, values }) =>
      attribute === 'route' && !isExcluding && values !== undefined,
  )
  if (target?.values === undefined) return [...routes.values()]
  return [...target.values].flatMap((text) => routes.get(text) ?? [])
}

function takesMethod({ method }: NamedRoute, { methods }: CompiledRule): boolean {
  if (method === undefined || methods === undefined || methods.has(method)) return true
  return method === 'GET' && methods.has('HEAD')
}

/** Whether some path matches both shapes. A `*` is one or more segments, none of them empty. */
function shapesMeet(a: readonly string[], b: readonly string[]): boolean {
  for (let i = 0; ; i++) {
    const [one, other] = [a[i], b[i]]
    if (one === undefined || other === undefined) return one === other
    if (one === '*') return other !== ''
    if (other === '*') return one !== ''
    if (one === ':' ? other === '' : other === ':' ? one === '' : one !== other) return false
  }
}

function textOf({ text }: NamedRoute): string {
  return text
}
