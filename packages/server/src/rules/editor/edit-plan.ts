/** Functions that edits share: parsing a rule, finding it, and turning a draft into a plan. */
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

/** Parses a rule alone, so that problems name its fields and not its place in the set. */
export function readRule(parser: RuleParser, document: unknown): ParsedRule {
  const { rules, errors } = parser.parseSet([document])
  const parsed = rules?.rules[0]
  if (parsed === undefined) throw invalidError('rules_invalid', errors)
  return { parsed, input: separateRule(document) }
}

/** Returns the rule of the catalog; throws if it does not exist or has another version. */
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

/** Throws if the edit removes the last rule without confirmation: then nothing is limited. */
export function requireConfirmation(draft: Draft, confirmed: boolean | undefined): void {
  if (confirmed === true || draft.set.order.length > 0 || draft.catalog.rules().length === 0) return
  const message =
    'this leaves no rules, so that every call is allowed. To confirm, add confirm=last-rule when deleting a rule, otherwise confirm=no-rules'
  throw new EditError('confirmation_needed', message)
}

/** Plans a draft of one rule; the result is the rule once the changes are active. */
export function planRule(draft: Draft, id: string, callers: CallerOptions): Plan<CatalogRule> {
  const { changes } = validateDraft(draft, callers, NO_WARNINGS)
  const documents = draft.rule(id)
  const { catalog } = draft
  return { changes, result: (version) => catalog.rule(id) ?? asCreated(documents, id, version) }
}

/** Plans a draft of any number of rules; the result is their diff and warnings. */
export function planSet(draft: Draft, callers: CallerOptions, warnOf?: WarnOf): Plan<ApplyResult> {
  const before = draft.catalog.parsedSet()
  const { rules, warnings, changes } = validateDraft(draft, callers, warnOf)
  const diff = diffDraft(draft, before, rules)
  return { changes, result: (version) => ({ version, diff, warnings }) }
}

/** Returns the rule as it was committed, if another process has removed it since. */
function asCreated(documents: RuleDocuments | undefined, id: string, version: number): CatalogRule {
  const { document, candidate } = documents ?? { document: { id }, candidate: undefined }
  return { document, candidate, version, overrideCount: 0 }
}
