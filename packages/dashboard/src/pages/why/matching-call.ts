/** A call that meets a rule, made up for a caller of whom no more is known than its name. */
import type { Attributes, RuleView } from '@sluice/client'
import { isRecord, valueToText } from '../rules/rule-text.js'

/**
 * What is known of the caller, and for all else that the rule wants the first that it takes. What
 * is known stays even where the rule wants another: then the answer says that it is not met.
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

/** Undefined where it is null, or where values are left out: a call without it has none of them. */
function firstOf(value: unknown): string | undefined {
  if (isRecord(value)) return undefined
  const first: unknown = Array.isArray(value) ? value[0] : value
  return first === undefined || first === null ? undefined : valueToText(first)
}

/** `where` has networks for `ip`: the first address of one is in it. */
function valueOf(name: string, value: unknown): string | undefined {
  const first = firstOf(value)
  return name === 'ip' ? first?.split('/')[0] : first
}

/** Any text will do for `:id`, and below `*`. */
const pathOf = (pattern: string): string =>
  pattern.replace(/(?<=\/)(?::[A-Za-z_][A-Za-z0-9_]*|\*)(?=\/|$)/g, '1')

/** `GET /v1/orders/:id`, or a path alone. */
function routeOf(route: string | undefined): readonly [string | undefined, string | undefined] {
  const [, method, path] = /^(?:(\S+) )?(\/\S*)$/.exec(route ?? '') ?? []
  return [method, path]
}
