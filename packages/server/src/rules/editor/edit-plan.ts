/** What edits share: looking, reading, and the way from a draft to a plan. */
import type { Rule } from '@sluice/core'
import type { WallClock } from '../../lib/wall-clock.js'
import type { CatalogRule, RuleCatalog } from '../sync/rule-catalog.js'
import type { RuleDocuments, RuleParser } from '../sync/rule-parser.js'
import type { CallerOptions } from './override-callers.js'
import { NO_WARNINGS, type WarnOf, validateDraft } from './validate-draft.js'
import type { Commits, Plan } from './commits.js'
import { diffDraft } from './diff-draft.js'
import { type RuleInput, separateRule } from './rule-documents.js'
import type { Draft } from './draft.js'
import type { ApplyResult, ExpectedVersion } from './editor.js'
import { EditError, invalidError, requireVersion } from './edit-errors.js'

export interface EditContext {
  readonly commits: Commits
  readonly callers: CallerOptions
  /** That of the catalog. */
  readonly parser: RuleParser
  readonly clock: WallClock
}

export interface ParsedRule {
  readonly parsed: Rule
  readonly input: RuleInput
}

/** Alone, so that its problems are told by its own fields and not by its place in the set. */
export function readRule(parser: RuleParser, document: unknown): ParsedRule {
  const { rules, errors } = parser.parseSet([document])
  const parsed = rules?.rules[0]
  if (parsed === undefined) throw invalidError('rules_invalid', errors)
  return { parsed, input: separateRule(document) }
}

/** The rule as the book has it, if it is the version that the writer has seen. */
export function requireRule(
  catalog: RuleCatalog,
  id: string,
  expected: ExpectedVersion,
): CatalogRule {
  const rule = catalog.rule(id)
  if (rule === undefined) throw new EditError('rule_unknown', `there is no rule "${id}"`)
  requireVersion(`rule "${id}"`, rule.version, expected)
  return rule
}

/** Without any rule nothing is limited: whoever takes the last one must mean it. */
export function requireConfirmation(draft: Draft, confirmed: boolean | undefined): void {
  if (confirmed === true || draft.set.order.length > 0 || draft.catalog.rules().length === 0) return
  const message =
    'this leaves no rule at all, so that every call is allowed. If that is meant, say so with confirm=last-rule where a rule is deleted, else with confirm=no-rules'
  throw new EditError('confirmation_needed', message)
}

/** The changes of a draft of one rule, and the rule as it is once they are in force. */
export function planRule(draft: Draft, id: string, callers: CallerOptions): Plan<CatalogRule> {
  const { changes } = validateDraft(draft, callers, NO_WARNINGS)
  const documents = draft.rule(id)
  const { catalog } = draft
  return { changes, result: (version) => catalog.rule(id) ?? asCreated(documents, id, version) }
}

/** The changes of a draft of any number of rules, what they mean, and what is to be warned of. */
export function planSet(draft: Draft, callers: CallerOptions, warnOf?: WarnOf): Plan<ApplyResult> {
  const before = draft.catalog.parsedSet()
  const { rules, warnings, changes } = validateDraft(draft, callers, warnOf)
  const diff = diffDraft(draft, before, rules)
  return { changes, result: (version) => ({ version, diff, warnings }) }
}

/** Somebody else may have removed it in the same moment: then it is told as it was made. */
function asCreated(documents: RuleDocuments | undefined, id: string, version: number): CatalogRule {
  const { document, candidate } = documents ?? { document: { id }, candidate: undefined }
  return { document, candidate, version, overrideCount: 0 }
}
