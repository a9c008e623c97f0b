/** Which calls a rule is for, as it is matched. */
import { type Cidr, parseCidr } from '../identity/cidr.js'
import { type PathPattern, parsePattern } from '../path.js'
import { isExclusion, type Match, type Rule, type WhereClause } from '../rules/rule.js'
import type { Condition, IndexedRule } from './compiled.js'

export type CompiledMatch = Pick<IndexedRule, 'pattern' | 'methods' | 'conditions'>

/** A rule is asked for its shape by each check of its set, and again by each later set it is in. */
const compiledMatches = new WeakMap<Rule, CompiledMatch>()

/** The rule must have passed `parseRules`; what that refuses throws here. */
export function compiledMatchOf(rule: Rule): CompiledMatch {
  const known = compiledMatches.get(rule)
  if (known !== undefined) return known
  const { match } = rule
  const shape = {
    pattern: match.path === undefined ? undefined : readPattern(match.path),
    methods: compileMethods(match.method),
    conditions: compileConditions(match),
  }
  compiledMatches.set(rule, shape)
  return shape
}

/**
 * HEAD asks for what GET serves, without the body: where the one is counted, so is the other, or
 * a limit on GET would be dodged by asking for heads.
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

/** All of one shape: every call that meets the rule reads them. */
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

/** How many values each attribute is compared with: the more, the better it tells rules apart. */
export type AttributeVariety = ReadonlyMap<string, number>

export function varietyOf(rules: readonly Rule[]): AttributeVariety {
  const values = new Map<string, Set<string>>()
  for (const rule of rules) {
    for (const condition of compiledMatchOf(rule).conditions) {
      if (condition.isExcluding) continue
      const distinct = values.get(condition.attribute) ?? new Set()
      for (const value of condition.values ?? []) distinct.add(value)
      values.set(condition.attribute, distinct)
    }
  }
  return new Map([...values].map(([attribute, distinct]) => [attribute, distinct.size]))
}

/**
 * A rule is filed under the values of its most telling attribute, else under its networks. What it
 * leaves out finds nothing: nearly every call has another value. Rules that have no other condition
 * meet nearly every call of their path, so a set has few of them (`LIMITS_PER_CALL_MAX`).
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
