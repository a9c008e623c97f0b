/** Fills in a call that matches a rule, for a caller of which only the name is known. */
import type { Attributes, RuleView } from '@sluice/client'
import { isRecord, valueText } from '@sluice/core/text'

/**
 * Adds the first value that the rule accepts for each attribute that is not known. Known attributes
 * stay, even where the rule requires others: then the explanation shows that it does not match.
 */
export function matchingCall(rule: RuleView, known: Attributes): Attributes {
  const match = isRecord(rule['match']) ? rule['match'] : {}
  const [routeMethod, routePath] = routeOf(known['route'])
  const method = firstOf(match['method']) ?? routeMethod
  const path = firstOf(match['path']) ?? routePath
  const where = isRecord(match['where']) ? Object.entries(match['where']) : []
  const required = [
    ['method', method],
    ['path', path === undefined ? undefined : pathOf(path)],
    ...where.map(([name, value]) => [name, valueOf(name, value)] as const),
  ] as const
  const missing = required.filter(([name]) => !Object.hasOwn(known, name))
  return Object.fromEntries([...Object.entries(known), ...missing.flatMap(presentEntry)])
}

const presentEntry = ([name, value]: readonly [string, string | undefined]) =>
  value === undefined ? [] : [[name, value] as const]

/** Undefined for null and for excluded values: a call without the attribute matches both. */
function firstOf(value: unknown): string | undefined {
  if (isRecord(value)) return undefined
  const first: unknown = Array.isArray(value) ? value[0] : value
  return first === undefined || first === null ? undefined : valueText(first)
}

/** For `ip` the value may be a network, whose first address belongs to it. */
function valueOf(name: string, value: unknown): string | undefined {
  const first = firstOf(value)
  return name === 'ip' ? first?.split('/')[0] : first
}

/** Any text matches `:id` and `*`. */
const pathOf = (pattern: string): string =>
  pattern.replace(/(?<=\/)(?::[A-Za-z_][A-Za-z0-9_]*|\*)(?=\/|$)/g, '1')

/** `GET /v1/orders/:id`, or a path alone. */
function routeOf(route: string | undefined): readonly [string | undefined, string | undefined] {
  const [, method, path] = /^(?:(\S+) )?(\/\S*)$/.exec(route ?? '') ?? []
  return [method, path]
}
