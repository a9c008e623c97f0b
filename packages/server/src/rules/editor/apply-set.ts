/** Replaces the whole rule set by another one, or tries that one in shadow. */
import type { Problem, Rule } from '@sluice/core'
import { type CallerOptions, normalizeOverrides } from './override-callers.js'
import type { RuleDocuments } from '../sync/rule-parser.js'
import type { RuleInput } from './rule-documents.js'
import type { Draft } from './draft.js'
import { EditError, invalidError } from './edit-errors.js'
import type { SetInput } from './read-set.js'
import { setFieldsOf } from '../store/records.js'
import { deepEqual } from '../../lib/deep-equal.js'

/** How many rules an error names. */
const NAMED_MAX = 20

/** Replaces the set. Rules that the new set lacks are removed, with their overrides. */
export function applySet(draft: Draft, input: SetInput, options: CallerOptions): void {
  const order = input.rules.map(({ document }) => document.id)
  const ids = new Set(order)
  for (const id of draft.set.order) if (!ids.has(id)) draft.removeRule(id)
  for (const rule of input.rules) draft.putRule(rule.document.id, rule)
  draft.setOrder(order)
  draft.setFields(input)
  putOverridesOfSet(draft, input, options)
}

/** Replaces all overrides of each rule that has `overrides` in the input. */
function putOverridesOfSet(draft: Draft, input: SetInput, options: CallerOptions): void {
  const context = { ...options, strictPaths: input.strictPaths }
  const problems: Problem[] = []
  for (const [index, { overrides }] of input.rules.entries()) {
    const rule = input.parsed.rules[index]
    if (rule === undefined || overrides === undefined) continue
    const found = normalizeOverrides(rule, overrides, context)
    problems.push(...found.problems)
    draft.replaceOverrides(rule.id, found.documents)
  }
  if (problems.length > 0) throw invalidError('rules_invalid', problems.slice(0, 100))
}

interface UntriableRule {
  /** Undefined: the set itself. */
  readonly rule: string | undefined
  readonly fields: readonly string[]
}

/**
 * Changed limits become candidates, and new rules start in shadow. Any other difference would take
 * effect at once, so it is refused.
 */
export function trySet(draft: Draft, input: SetInput, options: CallerOptions): void {
  const activeRules = new Map(draft.catalog.parsedSet().rules.map((rule) => [rule.id, rule]))
  const untriable: UntriableRule[] = []
  const setFields = differingSetFields(draft, input)
  if (setFields.length > 0) untriable.push({ rule: undefined, fields: setFields })
  for (const [index, rule] of input.rules.entries()) {
    const { id } = rule.document
    const parsed = input.parsed.rules[index]
    const before = draft.catalog.rule(id)
    if (parsed === undefined) continue
    if (before === undefined) {
      addInShadow(draft, rule, parsed, options)
      continue
    }
    const fields = untriableFields(
      draft,
      { before: activeRules.get(id), after: parsed, rule },
      options,
    )
    if (fields.length > 0) untriable.push({ rule: id, fields })
    else tryRule(draft, before, { rule, isOther: !hasSameLimits(activeRules.get(id), parsed) })
  }
  if (untriable.length > 0) throw notTriable(untriable)
}

function addInShadow(draft: Draft, rule: RuleInput, parsed: Rule, options: CallerOptions): void {
  const { document, candidate } = rule
  const mode = parsed.mode === 'enforce' ? 'shadow' : parsed.mode
  draft.putRule(parsed.id, { document: { ...document, mode }, candidate })
  if (rule.overrides === undefined) return
  const context = { ...options, strictPaths: draft.strictPaths }
  const { documents, problems } = normalizeOverrides(parsed, rule.overrides, context)
  if (problems.length > 0) throw invalidError('rules_invalid', problems)
  draft.replaceOverrides(parsed.id, documents)
}

/** Keeps the candidate that the rule has, unless there is another one to try. */
function tryRule(
  draft: Draft,
  { document, candidate }: RuleDocuments,
  { rule, isOther }: { readonly rule: RuleInput; readonly isOther: boolean },
): void {
  const { limits, tiers } = rule.document as { limits?: readonly unknown[]; tiers?: unknown }
  const candidateLimits = { limits: limits ?? [], ...(tiers === undefined ? {} : { tiers }) }
  const next = isOther ? candidateLimits : (rule.candidate ?? candidate)
  draft.putRule(document.id, { document, candidate: next })
}

function hasSameLimits(before: Rule | undefined, after: Rule): boolean {
  return deepEqual(before?.limits, after.limits) && deepEqual(before?.tiers, after.tiers)
}

interface RuleComparison {
  /** Undefined if the stored rule is invalid: then everything differs. */
  readonly before: Rule | undefined
  readonly after: Rule
  readonly rule: RuleInput
}

/** Fields that can be tried, or that are compared in another way. */
const COMPARED_SEPARATELY: readonly string[] = [
  'limits',
  'tiers',
  'candidate',
  'overrides',
] satisfies (keyof Rule)[]

function untriableFields(
  draft: Draft,
  { before, after, rule }: RuleComparison,
  options: CallerOptions,
): readonly string[] {
  if (before === undefined) return ['rule']
  const fields: string[] = []
  for (const [field, value] of Object.entries(after)) {
    if (COMPARED_SEPARATELY.includes(field)) continue
    if (!deepEqual(value, before[field as keyof Rule])) fields.push(FIELD_NAMES.get(field) ?? field)
  }
  // Both the limits and the candidate would have to become the candidate.
  if (!hasSameLimits(before, after) && rule.candidate !== undefined) fields.push('candidate')
  if (rule.overrides !== undefined && !hasSameOverrides(draft, after, rule.overrides, options)) {
    fields.push('overrides')
  }
  return fields
}

/** Fields of a parsed rule that have another name in a rules file. */
const FIELD_NAMES: ReadonlyMap<string, string> = new Map([['deadlineMs', 'deadline']])

function hasSameOverrides(
  draft: Draft,
  rule: Rule,
  overrides: readonly object[],
  options: CallerOptions,
): boolean {
  const context = { ...options, strictPaths: draft.strictPaths }
  const { documents, problems } = normalizeOverrides(rule, overrides, context)
  if (problems.length > 0) throw invalidError('rules_invalid', problems)
  if (documents.size !== (draft.catalog.rule(rule.id)?.overrideCount ?? 0)) return false
  for (const [caller, document] of documents) {
    if (!deepEqual(document, draft.override(rule.id, caller))) return false
  }
  return true
}

function differingSetFields(draft: Draft, input: SetInput): readonly string[] {
  const before = new Map(Object.entries(setFieldsOf(draft.catalog.set)))
  const after = new Map(Object.entries(setFieldsOf(input)))
  const fields = new Set([...before.keys(), ...after.keys()])
  return [...fields].filter((field) => !deepEqual(before.get(field), after.get(field)))
}

function notTriable(untriable: readonly UntriableRule[]): EditError {
  const named = untriable
    .slice(0, NAMED_MAX)
    .map(
      ({ rule, fields }) =>
        `${rule === undefined ? 'the set' : `rule "${rule}"`}: ${fields.join(', ')}`,
    )
  const more = untriable.length > named.length ? [`${untriable.length - named.length} more`] : []
  return new EditError(
    'not_triable',
    `cannot be tried in shadow: ${[...named, ...more].join('; ')}. Accepted: other limits and tiers of active rules, and new rules; apply the rest without shadow`,
  )
}
