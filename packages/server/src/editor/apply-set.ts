/** A whole set in place of the one in the book, or tried beside it. */
import type { Problem, Rule } from '@sluice/core'
import { type CallerOptions, fileOverrides } from './callers.js'
import type { GivenRule, RuleParts } from './documents.js'
import type { Draft } from './draft.js'
import { EditError } from './editor-types.js'
import { parseBook } from './parse-set.js'
import { invalid } from './problems.js'
import type { GivenSet } from './read-set.js'
import { isSame } from '../same.js'

/** How many rules an error names. */
const NAMED_MAX = 20

/** Rules that the new set lacks go, with their overrides. */
export function applySet(draft: Draft, given: GivenSet, options: CallerOptions): void {
  const order = given.rules.map(({ document }) => document.id)
  const ids = new Set(order)
  for (const id of draft.set.order) if (!ids.has(id)) draft.removeRule(id)
  for (const rule of given.rules) draft.putRule(rule.document.id, rule)
  draft.setOrder(order)
  draft.setPaths(given)
  putGivenOverrides(draft, given, options)
}

/** Those that are given take the place of all that a rule had. */
function putGivenOverrides(draft: Draft, given: GivenSet, options: CallerOptions): void {
  const context = { ...options, strictPaths: given.strictPaths }
  const problems: Problem[] = []
  for (const [index, { overrides }] of given.rules.entries()) {
    const rule = given.parsed.rules[index]
    if (rule === undefined || overrides === undefined) continue
    const found = fileOverrides(rule, overrides, context)
    problems.push(...found.problems)
    draft.replaceOverrides(rule.id, found.filed)
  }
  if (problems.length > 0) throw invalid('rules_invalid', problems.slice(0, 100))
}

interface Untriable {
  /** Undefined: of the set. */
  readonly rule: string | undefined
  readonly fields: readonly string[]
}

/**
 * Other limits of a rule become its candidate, and new rules begin in shadow. Anything else that
 * differs would be in force at once, which is not what was asked for: it is refused.
 */
export function trySet(draft: Draft, given: GivenSet, options: CallerOptions): void {
  const inForce = new Map(parseBook(draft.book).rules.map((rule) => [rule.id, rule]))
  const untriable: Untriable[] = []
  const setFields = differingSetFields(draft, given)
  if (setFields.length > 0) untriable.push({ rule: undefined, fields: setFields })
  for (const [index, rule] of given.rules.entries()) {
    const { id } = rule.document
    const parsed = given.parsed.rules[index]
    const before = draft.book.rule(id)
    if (parsed === undefined) continue
    if (before === undefined) {
      addInShadow(draft, rule, parsed, options)
      continue
    }
    const fields = untriableFields(draft, { before: inForce.get(id), after: parsed, rule }, options)
    if (fields.length > 0) untriable.push({ rule: id, fields })
    else tryRule(draft, before, { rule, isOther: !hasSameLimits(inForce.get(id), parsed) })
  }
  if (untriable.length > 0) throw notTriable(untriable)
}

function addInShadow(draft: Draft, rule: GivenRule, parsed: Rule, options: CallerOptions): void {
  const { document, candidate } = rule
  const mode = parsed.mode === 'enforce' ? 'shadow' : parsed.mode
  draft.putRule(parsed.id, { document: { ...document, mode }, candidate })
  if (rule.overrides === undefined) return
  const context = { ...options, strictPaths: draft.strictPaths }
  const { filed, problems } = fileOverrides(parsed, rule.overrides, context)
  if (problems.length > 0) throw invalid('rules_invalid', problems)
  draft.replaceOverrides(parsed.id, filed)
}

/** A candidate that the rule has already stays, unless there is another to try. */
function tryRule(
  draft: Draft,
  { document, candidate }: RuleParts,
  { rule, isOther }: { readonly rule: GivenRule; readonly isOther: boolean },
): void {
  const { limits, tiers } = rule.document as { limits?: readonly unknown[]; tiers?: unknown }
  const tried = { limits: limits ?? [], ...(tiers === undefined ? {} : { tiers }) }
  const next = isOther ? tried : (rule.candidate ?? candidate)
  draft.putRule(document.id, { document, candidate: next })
}

function hasSameLimits(before: Rule | undefined, after: Rule): boolean {
  return isSame(before?.limits, after.limits) && isSame(before?.tiers, after.tiers)
}

interface Compared {
  /** Undefined where what is stored cannot be read: then everything differs. */
  readonly before: Rule | undefined
  readonly after: Rule
  readonly rule: GivenRule
}

/** These are tried, or compared apart. */
const APART: readonly string[] = [
  'limits',
  'tiers',
  'candidate',
  'overrides',
] satisfies (keyof Rule)[]

function untriableFields(
  draft: Draft,
  { before, after, rule }: Compared,
  options: CallerOptions,
): readonly string[] {
  if (before === undefined) return ['rule']
  const fields: string[] = []
  for (const [field, value] of Object.entries(after)) {
    if (APART.includes(field)) continue
    if (!isSame(value, before[field as keyof Rule])) fields.push(WRITTEN.get(field) ?? field)
  }
  // Two things to try, and one place to try them in.
  if (!hasSameLimits(before, after) && rule.candidate !== undefined) fields.push('candidate')
  if (rule.overrides !== undefined && !hasSameOverrides(draft, after, rule.overrides, options)) {
    fields.push('overrides')
  }
  return fields
}

/** Where a field is called otherwise than it is written. */
const WRITTEN: ReadonlyMap<string, string> = new Map([['deadlineMs', 'deadline']])

function hasSameOverrides(
  draft: Draft,
  rule: Rule,
  overrides: readonly object[],
  options: CallerOptions,
): boolean {
  const context = { ...options, strictPaths: draft.strictPaths }
  const { filed, problems } = fileOverrides(rule, overrides, context)
  if (problems.length > 0) throw invalid('rules_invalid', problems)
  if (filed.size !== (draft.book.rule(rule.id)?.overrideCount ?? 0)) return false
  for (const [caller, document] of filed) {
    if (!isSame(document, draft.override(rule.id, caller))) return false
  }
  return true
}

function differingSetFields(draft: Draft, given: GivenSet): readonly string[] {
  const { routes, strictPaths } = draft.book.set
  return [
    ...(isSame(routes, given.routes) ? [] : ['routes']),
    ...(strictPaths === given.strictPaths ? [] : ['strictPaths']),
  ]
}

function notTriable(untriable: readonly Untriable[]): EditError {
  const named = untriable
    .slice(0, NAMED_MAX)
    .map(
      ({ rule, fields }) =>
        `${rule === undefined ? 'the set' : `rule "${rule}"`}: ${fields.join(', ')}`,
    )
  const more = untriable.length > named.length ? [`${untriable.length - named.length} more`] : []
  return new EditError(
    'not_triable',
    `cannot be tried in shadow: ${[...named, ...more].join('; ')}. Accepted: other limits and tiers of rules in force, and new rules; apply the rest without shadow`,
  )
}
