/** Compiles the match of a rule. */
import { type Cidr, parseCidr } from '../identity/cidr.js'
import { type PathPattern, parsePattern } from '../path.js'
import { isExclusion, type Match, type Rule, type WhereClause } from '../rules/rule.js'
import type { Condition, IndexedRule } from './compiled.js'

export type CompiledMatch = Pick<IndexedRule, 'pattern' | 'methods' | 'conditions'>

/**
 * Of a rule or a line of `classify`, which must have passed `parseRules`; one that it refuses
 * throws here.
 */
export function compileMatch({ match }: Pick<Rule, 'match'>): CompiledMatch {
  return {
    pattern: match.path === undefined ? undefined : readPattern(match.path),
    methods: compileMethods(match.method),
    conditions: compileConditions(match),
  }
}

/**
 * Adds HEAD wherever GET is counted: HEAD requests what GET serves, without the body, and would
 * otherwise bypass a limit on GET.
 */
function compileMethods(methods: readonly string[]): ReadonlySet<string> | undefined {
  if (methods.length === 0) return undefined
  return new Set(methods.includes('GET') ? [...methods, 'HEAD'] : methods)
}

const NO_CONDITION: readonly Condition[] = []

function compileConditions({ where }: Match): readonly Condition[] {
  if (where.size === 0) return NO_CONDITION
  return [...where].map(([attribute, clause]) => compileCondition(attribute, clause))
}

/** All conditions have one object shape, because every matching call reads them. */
function compileCondition(attribute: string, clause: WhereClause): Condition {
  const isExcluding = isExclusion(clause)
  const listed = isExcluding ? clause.not : clause
  if (listed === null) return { attribute, isExcluding, values: undefined, cidrs: undefined }
  if (attribute !== 'ip') {
    return { attribute, isExcluding, values: new Set(listed), cidrs: undefined }
  }
  return { attribute, isExcluding, values: undefined, cidrs: listed.map(readCidr) }
}

function readPattern(text: string): PathPattern {
  const pattern = parsePattern(text)
  if ('problem' in pattern) throw new RangeError(`match.path: ${pattern.problem}`)
  return pattern
}

function readCidr(text: string): Cidr {
  const cidr = parseCidr(text)
  if ('problem' in cidr) throw new RangeError(`where.ip: ${cidr.problem}`)
  return cidr
}

/** How many values each attribute is compared with: the more, the more selective it is. */
export type AttributeVariety = ReadonlyMap<string, number>

export function varietyOf(matches: readonly CompiledMatch[]): AttributeVariety {
  const values = new Map<string, Set<string>>()
  for (const { conditions } of matches) {
    for (const condition of conditions) {
      if (condition.isExcluding) continue
      const distinct = values.get(condition.attribute) ?? new Set()
      for (const value of condition.values ?? []) distinct.add(value)
      values.set(condition.attribute, distinct)
    }
  }
  return new Map([...values].map(([attribute, distinct]) => [attribute, distinct.size]))
}

/**
 * Returns the condition to index a rule by: the values of its most selective attribute, else its
 * networks. Excluded values are not indexed, because nearly every call has another value. Rules
 * without another condition match nearly every call of their path, so a set has few of them
 * (`LIMITS_PER_CALL_MAX`).
 */
export function filingOf(
  conditions: readonly Condition[],
  variety: AttributeVariety,
): { readonly filedUnder: Condition | undefined; readonly rest: readonly Condition[] } {
  if (conditions.length === 0) return UNFILED
  const selective = conditions.filter(({ isExcluding }) => !isExcluding)
  const [most] = selective
    .filter(({ values }) => values !== undefined)
    .toSorted((a, b) => (variety.get(b.attribute) ?? 0) - (variety.get(a.attribute) ?? 0))
  const filedUnder = most ?? selective.find(({ cidrs }) => cidrs !== undefined)
  const rest = conditions.filter((condition) => condition !== filedUnder)
  return { filedUnder, rest: rest.length === 0 ? NO_CONDITION : rest }
}

const UNFILED = { filedUnder: undefined, rest: NO_CONDITION }
