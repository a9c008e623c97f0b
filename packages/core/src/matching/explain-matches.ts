/**
 * Explains for each rule of a set why it matches a call or not, rule by rule, without the index.
 */
import { ATTRIBUTE_LENGTH_MAX, type Call, isMessage, MESSAGE } from '../call.js'
import { show } from '../errors.js'
import { matchPattern } from '../path.js'
import { isExclusion, type Mode } from '../rules/rule.js'
import type { CompiledRule, Snapshot } from './compiled.js'
import { type NormalizedCall, readNormalized, normalizeCall } from './call-view.js'
import { conditionHolds } from './match.js'

export interface MatchExplanation {
  readonly rule: string
  readonly matched: boolean
  /** Why it did not match; null if it did. */
  readonly why: string | null
  readonly mode: Mode
}

export function explainMatches(snapshot: Snapshot, call: Call): readonly MatchExplanation[] {
  const { allNeeds, needs } = snapshot
  const wide = { ...allNeeds, goodPath: needs.goodPath }
  const view = normalizeCall({ ...snapshot, needs: wide }, call.attributes)
  return snapshot.rules.map((rule) => {
    const why = mismatchReason(rule, view, snapshot.strictPaths)
    return {
      rule: rule.rule.id,
      matched: why === undefined,
      why: why ?? null,
      mode: rule.rule.mode,
    }
  })
}

function mismatchReason(
  rule: CompiledRule,
  view: NormalizedCall,
  strictPaths: boolean,
): string | undefined {
  const { match, by, mode } = rule.rule
  if (mode === 'off') return 'its mode is off'
  if (rule.methods === undefined && isMessage(view.attributes)) {
    return `method is ${quoted(MESSAGE)}, which only a rule that names it matches`
  }
  if (rule.methods !== undefined && !rule.methods.has(view.method ?? '')) {
    return `method is ${quoted(view.method)}, not ${match.method.join(' or ')}`
  }
  const { pattern } = rule
  if (pattern !== undefined) {
    const meets = view.path !== undefined && matchPattern(pattern, view.path, strictPaths)
    if (!meets) return `path is ${quoted(view.path)}, which ${pattern.text} does not match`
  }
  for (const condition of rule.conditions) {
    if (conditionHolds(condition, view)) continue
    const clause = match.where.get(condition.attribute)
    const actual = `${condition.attribute} is ${quoted(readNormalized(view, condition.attribute))}`
    if (isExclusion(clause))
      return `${actual}, which the rule leaves out: not ${quotedList(clause.not)}`
    return `${actual}, not ${clause ? quotedList(clause) : 'absent'}`
  }
  const tooLong = by.find(
    (attribute) => (readNormalized(view, attribute)?.length ?? 0) > ATTRIBUTE_LENGTH_MAX,
  )
  if (tooLong !== undefined) return `${tooLong} has more than ${ATTRIBUTE_LENGTH_MAX} characters`
  const absent = by.find((attribute) => readNormalized(view, attribute) === undefined)
  return absent === undefined ? undefined : `it counts by ${absent}, which is absent`
}

function quoted(value: string | undefined): string {
  return value === undefined ? 'absent' : `"${show(value)}"`
}

const LISTED_MAX = 5

function quotedList(values: readonly string[]): string {
  const shown = values.slice(0, LISTED_MAX).map((value) => `"${show(value)}"`)
  if (values.length > LISTED_MAX) shown.push(`${values.length - LISTED_MAX} others`)
  return shown.join(' or ')
}
