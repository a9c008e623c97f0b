/**
 * Why each rule of a set matches a call, or why not: the plain way, rule by rule, without the
 * index.
 */
import { ATTRIBUTE_LENGTH_MAX, type Call, isMessage, MESSAGE } from '../call.js'
import { show } from '../errors.js'
import { matchPattern } from '../path.js'
import { isExcluded, type Mode } from '../rules/rule.js'
import type { CompiledRule, Snapshot } from './compiled.js'
import { type Facts, readFact, readFacts } from './facts.js'
import { conditionHolds } from './match.js'

export interface MatchExplained {
  readonly rule: string
  readonly matched: boolean
  /** Why it did not match; null if it did. */
  readonly why: string | null
  readonly mode: Mode
}

export function explainMatches(snapshot: Snapshot, call: Call): readonly MatchExplained[] {
  const { allNeeds, needs } = snapshot
  const wide = { ...allNeeds, goodPath: needs.goodPath }
  const facts = readFacts({ ...snapshot, needs: wide }, call.attributes)
  return snapshot.rules.map((rule) => {
    const why = whyNot(rule, facts, snapshot.strictPaths)
    return {
      rule: rule.rule.id,
      matched: why === undefined,
      why: why ?? null,
      mode: rule.rule.mode,
    }
  })
}

function whyNot(rule: CompiledRule, facts: Facts, strictPaths: boolean): string | undefined {
  const { match, by, mode } = rule.rule
  if (mode === 'off') return 'its mode is off'
  if (rule.methods === undefined && isMessage(facts.attributes)) {
    return `method is ${found(MESSAGE)}, which only a rule that names it matches`
  }
  if (rule.methods !== undefined && !rule.methods.has(facts.method ?? '')) {
    return `method is ${found(facts.method)}, not ${match.method.join(' or ')}`
  }
  const { pattern } = rule
  if (pattern !== undefined) {
    const meets = facts.path !== undefined && matchPattern(pattern, facts.path, strictPaths)
    if (!meets) return `path is ${found(facts.path)}, which ${pattern.text} does not match`
  }
  for (const condition of rule.conditions) {
    if (conditionHolds(condition, facts)) continue
    const wanted = match.where.get(condition.attribute)
    const is = `${condition.attribute} is ${found(readFact(facts, condition.attribute))}`
    if (isExcluded(wanted)) return `${is}, which the rule leaves out: not ${listed(wanted.not)}`
    return `${is}, not ${wanted ? listed(wanted) : 'absent'}`
  }
  const tooLong = by.find(
    (attribute) => (readFact(facts, attribute)?.length ?? 0) > ATTRIBUTE_LENGTH_MAX,
  )
  if (tooLong !== undefined) return `${tooLong} has more than ${ATTRIBUTE_LENGTH_MAX} characters`
  const absent = by.find((attribute) => readFact(facts, attribute) === undefined)
  return absent === undefined ? undefined : `it counts by ${absent}, which is absent`
}

function found(value: string | undefined): string {
  return value === undefined ? 'absent' : `"${show(value)}"`
}

const LISTED_MAX = 5

function listed(values: readonly string[]): string {
  const shown = values.slice(0, LISTED_MAX).map((value) => `"${show(value)}"`)
  if (values.length > LISTED_MAX) shown.push(`${values.length - LISTED_MAX} others`)
  return shown.join(' or ')
}
