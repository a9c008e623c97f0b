/** Validates a draft as a whole. Throws an error that names every problem. */
import {
  type ParsedRules,
  type Problem,
  type Rule,
  type RuleSet,
  type RuleContext,
} from '@sluice/core'
import { callerId, type Change, type OverrideDocument, setFieldsOf } from '../store/records.js'
import { COMMIT_CHANGES_MAX } from '../store/rule-store.js'
import type { CatalogRule } from '../sync/rule-catalog.js'
import { canonicalCaller, type CallerContext, type CallerOptions } from './override-callers.js'
import { sizeOf } from './rule-documents.js'
import type { Draft } from './draft.js'
import { hideInRule } from './hide-secrets.js'
import {
  EditError,
  invalidError,
  isStorable,
  makeProblem,
  unstorableProblem,
} from './edit-errors.js'
import { deepEqual } from '../../lib/deep-equal.js'

/** Length as JSON of a rule without its overrides, and of its candidate. */
const RULE_SIZE_MAX = 64 * 1024
/** As much as the text of a rule set may have. */
const SET_SIZE_MAX = 16 * 1024 * 1024
/** Overrides of all rules together: each takes some hundred bytes of memory on every node. */
const OVERRIDES_MAX = 200_000

/** Ids of the rules whose warnings are wanted; undefined: all. Each is compared with all others. */
export type WarnOf = ReadonlySet<string> | undefined

export const NO_WARNINGS: WarnOf = new Set()

export interface ValidatedDraft {
  /** Without overrides. */
  readonly rules: RuleSet
  /** Warnings of the requested rules. */
  readonly warnings: readonly Problem[]
  /** Empty: nothing changes. */
  readonly changes: readonly Change[]
}

/** Also gives overrides new ids if their rule has another `by`. Throws an `EditError`. */
export function validateDraft(
  draft: Draft,
  options: CallerOptions,
  warnOf?: WarnOf,
): ValidatedDraft {
  const validated = validateRules(draft, options, warnOf)
  const count = validated.changes.length
  if (count <= COMMIT_CHANGES_MAX) return validated
  throw new EditError(
    'rules_invalid',
    `found ${count} rules and overrides that would change; accepted: up to ${COMMIT_CHANGES_MAX} in one version. Remove rules with many overrides one by one first`,
  )
}

/** Validates a draft that changes only overrides, which were checked against their rules. */
export function validateOverrides(draft: Draft): readonly Change[] {
  checkOverrideCount(draft)
  return draft.changes()
}

/** Like `validateDraft`, for changes that may be committed in several steps. */
export function validateRules(
  draft: Draft,
  options: CallerOptions,
  warnOf?: WarnOf,
): ValidatedDraft {
  for (const id of draft.touchedRules()) {
    const rule = draft.rule(id)
    if (rule !== undefined) draft.putRule(id, hideInRule(rule, options.hideSecrets))
  }
  const { rules, errors, warnings } = parseDraft(draft, warnOf, options.ruleContext)
  if (rules === undefined) throw invalidError('rules_invalid', errors)
  const unstorableProblems = findUnstorable(draft)
  if (unstorableProblems.length > 0) throw invalidError('rules_invalid', unstorableProblems)
  checkTouchedOverrides(draft, rules)
  const unfit = refitAll(draft, rules, { ...options, strictPaths: draft.strictPaths })
  if (unfit.length > 0) throw invalidError('rules_invalid', unfit)
  checkOverrideCount(draft)
  return { rules, warnings, changes: draft.changes() }
}

/**
 * A rule that was stored with errors, behind the editor's back, does not block the change of
 * another: it is left out, and every node keeps its last good version.
 */
function parseDraft(
  draft: Draft,
  warnOf: WarnOf,
  ruleContext: RuleContext | undefined,
): ParsedRules {
  const { order } = draft.set
  const { parser } = draft.catalog
  const stored = draft.catalog.rules()
  const touched = draft.touchedRules()
  const rules: object[] = []
  for (const [place, id] of order.entries()) {
    // Most rules keep their place, and the list is faster than a lookup of each.
    const there = stored[place]
    const rule = there?.document.id === id && !draft.isPut(id) ? there : draft.rule(id)
    if (rule === undefined) continue
    const isUsable = touched.has(id) || parser.parseRule(rule).errors.length === 0
    if (isUsable) rules.push(parser.combine(rule))
  }
  return parser.parseSet({ ...setFieldsOf(draft.set), rules }, { ...ruleContext, warnOf })
}

function findUnstorable(draft: Draft): readonly Problem[] {
  const problems: Problem[] = []
  for (const id of draft.touchedRules()) {
    const rule = draft.rule(id)
    if (rule === undefined) continue
    if (!isStorable(rule.document)) problems.push(unstorableProblem(id, 'rule'))
    if (!isStorable(rule.candidate)) problems.push(unstorableProblem(id, 'candidate'))
    const size = Math.max(sizeOf(rule.document), rule.candidate ? sizeOf(rule.candidate) : 0)
    if (size > RULE_SIZE_MAX) problems.push(tooLarge(id, 'rule', size, RULE_SIZE_MAX))
  }
  for (const [field, value] of Object.entries(setFieldsOf(draft.set))) {
    if (!isStorable(value)) problems.push(unstorableProblem(undefined, field))
  }
  const total = totalSize(draft)
  if (total > SET_SIZE_MAX) problems.push(tooLarge(undefined, 'rules', total, SET_SIZE_MAX))
  return problems
}

/** Sizes of whole catalogs: their list of rules is the same object until a rule changes. */
const knownTotals = new WeakMap<readonly CatalogRule[], number>()

function totalSize(draft: Draft): number {
  const rules = draft.catalog.rules()
  let total = knownTotals.get(rules)
  if (total === undefined) {
    total = rules.reduce((sum, { document }) => sum + sizeOf(document), 0)
    knownTotals.set(rules, total)
  }
  for (const id of draft.touchedRules()) {
    const before = draft.catalog.rule(id)
    const after = draft.rule(id)
    if (before !== undefined) total -= sizeOf(before.document)
    if (after !== undefined) total += sizeOf(after.document)
  }
  return total
}

function tooLarge(rule: string | undefined, field: string, size: number, most: number): Problem {
  return makeProblem({
    code: 'too-large',
    ...(rule === undefined ? {} : { rule }),
    field,
    found: `${size} characters as JSON`,
    accepted: `up to ${most}, overrides not counted`,
  })
}

/** Checks every override that the draft writes against the new version of its rule. */
function checkTouchedOverrides(draft: Draft, { rules }: RuleSet): void {
  const touched = draft.touchedOverrides()
  if (touched.size === 0) return
  const byId = new Map(rules.map((rule) => [rule.id, rule]))
  const problems: Problem[] = []
  for (const [id, overrides] of touched) {
    const rule = byId.get(id)
    if (rule === undefined) continue
    for (const [caller, document] of overrides) {
      if (document === null) continue
      const { errors } = draft.catalog.parser.parseOverride(rule, document)
      problems.push(...errors.map((problem) => withCaller(problem, caller)))
    }
  }
  if (problems.length > 0) throw invalidError('override_invalid', problems.slice(0, 100))
}

function withCaller(problem: Problem, caller: string): Problem {
  return { ...problem, message: `override ${caller}: ${problem.message}` }
}

function refitAll(draft: Draft, { rules }: RuleSet, context: CallerContext): readonly Problem[] {
  const { catalog } = draft
  const touched = new Set(draft.touchedRules())
  for (const id of touched) if ((catalog.rule(id)?.overrideCount ?? 0) === 0) touched.delete(id)
  const isRefiled = draft.strictPaths !== catalog.set.strictPaths
  if (touched.size === 0 && !isRefiled) return []
  return rules
    .filter(({ id, by }) => touched.has(id) || (isRefiled && by.includes('path')))
    .flatMap((rule) => refitOverrides(draft, rule, context))
}

/**
 * Stored overrides have to fit a rule that changes. The author of an edit of `by` may not know of
 * them, and overrides must not disappear as a side effect.
 */
function refitOverrides(draft: Draft, rule: Rule, context: CallerContext): readonly Problem[] {
  const before = draft.catalog.rule(rule.id)
  if (before === undefined || before.overrideCount === 0) return []
  const isRefiled = draft.strictPaths !== draft.catalog.set.strictPaths && rule.by.includes('path')
  const changed = changedFields(draft.catalog.parser.parseRule(before).rule, rule)
  if (changed.length === 0 && !isRefiled) return []

  const unfit: string[] = []
  const refiled = new Map<string, OverrideDocument>()
  let count = 0
  for (const [id, document] of draft.untouchedOverrides(rule.id)) {
    count++
    const { errors } = draft.catalog.parser.parseOverride(rule, document)
    const caller = canonicalCaller(rule.by, document.caller, context)
    const newId = callerId(rule.by, caller)
    if (errors.length > 0 || refiled.has(newId)) unfit.push(id)
    else refiled.set(newId, newId === id ? document : { ...document, caller })
    if (newId !== id) draft.putOverride(rule.id, id, null)
  }
  // After all old ids were removed: one override may take the id of another.
  for (const [id, document] of refiled) draft.putOverride(rule.id, id, document)
  if (unfit.length === 0) return []
  return [unfitProblem(rule, changed[0] ?? 'strictPaths', { unfit, count })]
}

function changedFields(before: Rule | undefined, after: Rule): readonly string[] {
  const fields = ['by', 'cost', 'coordination', 'posture'] as const
  return fields.filter((field) => before === undefined || !deepEqual(before[field], after[field]))
}

function unfitProblem(
  rule: Rule,
  field: string,
  { unfit, count }: { readonly unfit: readonly string[]; readonly count: number },
): Problem {
  return makeProblem({
    code: 'bad-caller',
    rule: rule.id,
    field,
    found: `${unfit.length} of its ${count} overrides`,
    why: `would no longer fit, such as ${unfit[0]}`,
    accepted: `a ${field} that fits them; or remove those overrides first, or give "overrides" with the rule`,
  })
}

function checkOverrideCount(draft: Draft): void {
  let added = 0
  for (const rule of draft.touchedOverrides().keys()) {
    const counts = draft.countOverrides(rule)
    added += counts.added - counts.removed
  }
  if (added <= 0) return
  const total = draft.catalog.rules().reduce((sum, { overrideCount }) => sum + overrideCount, added)
  if (total <= OVERRIDES_MAX) return
  throw new EditError(
    'override_invalid',
    `found ${total} overrides in all rules together; accepted: up to ${OVERRIDES_MAX}`,
  )
}
