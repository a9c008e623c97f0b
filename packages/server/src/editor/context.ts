/** What edits share: looking, reading, and the way from a draft to a plan. */
import { parseRules, type Rule } from '@sluice/core'
import type { WallClock } from '../clock.js'
import type { BookRule, RuleBook } from '../source/rule-book.js'
import type { CallerOptions } from './callers.js'
import { checkDraft } from './check-draft.js'
import type { Commits, Plan } from './commits.js'
import { diffDraft } from './diff-draft.js'
import { type GivenRule, type RuleParts, takeApart } from './documents.js'
import type { Draft } from './draft.js'
import { type Applied, EditError, type Expected } from './editor-types.js'
import { NO_WARNINGS, parseBook, type WarnOf } from './parse-set.js'
import { invalid, requireVersion } from './problems.js'

export interface EditContext {
  readonly commits: Commits
  readonly callers: CallerOptions
  readonly clock: WallClock
}

export interface ReadRule {
  readonly parsed: Rule
  readonly given: GivenRule
}

/** Alone, so that its problems are told by its own fields and not by its place in the set. */
export function readRule(document: unknown): ReadRule {
  const { rules, errors } = parseRules([document])
  const parsed = rules?.rules[0]
  if (parsed === undefined) throw invalid('rules_invalid', errors)
  return { parsed, given: takeApart(document) }
}

/** The rule as the book has it, if it is the version that the writer has seen. */
export function requireRule(book: RuleBook, id: string, expected: Expected): BookRule {
  const rule = book.rule(id)
  if (rule === undefined) throw new EditError('rule_unknown', `there is no rule "${id}"`)
  requireVersion(`rule "${id}"`, rule.version, expected)
  return rule
}

/** Without any rule nothing is limited: whoever takes the last one must mean it. */
export function requireMeant(draft: Draft, confirmed: boolean | undefined): void {
  if (confirmed === true || draft.set.order.length > 0 || draft.book.rules().length === 0) return
  const message =
    'this leaves no rule at all, so that every call is allowed. If that is meant, say so with confirm=last-rule where a rule is deleted, else with confirm=no-rules'
  throw new EditError('confirmation_needed', message)
}

/** The changes of a draft of one rule, and the rule as it is once they are in force. */
export function planRule(draft: Draft, id: string, callers: CallerOptions): Plan<BookRule> {
  const { changes } = checkDraft(draft, callers, NO_WARNINGS)
  const parts = draft.rule(id)
  const { book } = draft
  return { changes, answer: (version) => book.rule(id) ?? asMade(parts, id, version) }
}

/** The changes of a draft of any number of rules, what they mean, and what is to be warned of. */
export function planSet(draft: Draft, callers: CallerOptions, warnOf?: WarnOf): Plan<Applied> {
  const before = parseBook(draft.book)
  const { rules, warnings, changes } = checkDraft(draft, callers, warnOf)
  const diff = diffDraft(draft, before, rules)
  return { changes, answer: (version) => ({ version, diff, warnings }) }
}

/** Somebody else may have removed it in the same moment: then it is told as it was made. */
function asMade(parts: RuleParts | undefined, id: string, version: number): BookRule {
  const { document, candidate } = parts ?? { document: { id }, candidate: undefined }
  return { document, candidate, version, overrideCount: 0 }
}
