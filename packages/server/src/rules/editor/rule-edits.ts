/** Edits of one rule: create, replace, patch, remove. */
import { isJsonMap, type JsonMap } from '../../lib/json-map.js'
import { type Change, overrideKey } from '../store/records.js'
import { COMMIT_CHANGES_MAX } from '../store/rule-store.js'
import type { RuleCatalog } from '../sync/rule-catalog.js'
import { type CallerOptions, normalizeOverrides } from './override-callers.js'
import { NO_WARNINGS, validateRules } from './validate-draft.js'
import type { Commits } from './commits.js'
import {
  type EditContext,
  planRule,
  type ParsedRule,
  readRule,
  requireConfirmation,
  requireRule,
} from './edit-plan.js'
import { copyRule, mergePatch } from './rule-documents.js'
import { Draft } from './draft.js'
import type { Editor, Meta } from './editor.js'
import { EditError, invalidError, makeProblem } from './edit-errors.js'
import { readRuleText } from './parse-rule-text.js'

type RuleEdits = Pick<Editor, 'create' | 'replace' | 'patch' | 'remove'>

export function ruleEdits({ commits, callers, parser }: EditContext): RuleEdits {
  const put = (draft: Draft, rule: ParsedRule) => putRule(draft, rule, callers)
  return {
    async create(document, meta) {
      void commits.store
      const rule = readRule(parser, copyRule(await documentOf(document)))
      const { id } = rule.parsed
      await sweep(commits, id, meta)
      return commits.run(meta, (catalog) => {
        const taken = catalog.rule(id)
        if (taken !== undefined) throw ruleExists(id, taken.version)
        const draft = new Draft(catalog)
        put(draft, rule)
        return planRule(draft, id, callers)
      })
    },

    async replace(id, document, meta, expected) {
      void commits.store
      const rule = readRule(parser, named(id, copyRule(await documentOf(document))))
      return commits.run(meta, (catalog) => {
        requireRule(catalog, id, expected)
        const draft = new Draft(catalog)
        put(draft, rule)
        return planRule(draft, id, callers)
      })
    },

    async patch(id, patch, meta, expected) {
      const copied = copyRule(patch)
      return commits.run(meta, (catalog) => {
        const present = parser.combine(requireRule(catalog, id, expected))
        refuseAbsence(id, present, copied)
        const draft = new Draft(catalog)
        put(
          draft,
          readRule(parser, named(id, withoutOverrides(copied, mergePatch(present, copied)))),
        )
        // An explicit mode takes effect now.
        if (isJsonMap(copied) && 'mode' in copied) draft.endShadow(id)
        return planRule(draft, id, callers)
      })
    },

    async remove(id, meta, { expected, confirmed }) {
      const version = await commits.run(meta, (catalog) => {
        requireRule(catalog, id, expected)
        const draft = new Draft(catalog)
        draft.removeRule(id)
        requireConfirmation(draft, confirmed)
        const { changes } = validateRules(draft, callers, NO_WARNINGS)
        return { changes: changes.slice(0, COMMIT_CHANGES_MAX), result: (made) => made }
      })
      // The rule is removed even if this fails: creating a rule with its id sweeps again.
      const swept = await sweep(commits, id, meta).catch((error: unknown) => {
        if (error instanceof EditError) return undefined
        throw error
      })
      return swept ?? version
    },
  }
}

/** Puts a rule, and replaces its overrides if the input has any. */
export function putRule(draft: Draft, { parsed, input }: ParsedRule, callers: CallerOptions): void {
  draft.putRule(parsed.id, input)
  if (input.overrides === undefined) return
  const context = { ...callers, strictPaths: draft.strictPaths }
  const { documents, problems } = normalizeOverrides(parsed, input.overrides, context)
  if (problems.length > 0) throw invalidError('rules_invalid', problems)
  draft.replaceOverrides(parsed.id, documents)
}

/** Parses text as YAML; problems have their place in the text. */
async function documentOf(input: unknown): Promise<unknown> {
  if (typeof input !== 'string') return input
  const { document, errors } = await readRuleText(input)
  if (errors.length > 0) throw invalidError('rules_invalid', errors)
  return document
}

/**
 * Removes overrides of a rule that no longer exists. A rule may have more overrides than one
 * version can change: it is removed first, and the rest of its overrides in further versions.
 * Resolves to the last of those versions, if any.
 */
async function sweep(commits: Commits, id: string, meta: Meta): Promise<number | undefined> {
  const leftOf = (catalog: RuleCatalog) => {
    if (catalog.rule(id) !== undefined) return []
    const left: Change[] = []
    for (const { id: caller } of catalog.allOverrides(id)) {
      if (left.length === COMMIT_CHANGES_MAX) break
      left.push({ kind: 'override', id: overrideKey(id, caller), body: null })
    }
    return left
  }
  let version: number | undefined
  while (leftOf(commits.catalog).length > 0) {
    version = await commits.run(meta, (catalog) => ({
      changes: leftOf(catalog),
      result: (made) => made,
    }))
  }
  return version
}

/** Adds the id of the path if the document has none; throws if it has another. */
export function named(id: string, document: unknown): unknown {
  if (!isJsonMap(document)) return document
  const input = document['id']
  if (input === undefined) return { id, ...document }
  if (input === id) return document
  const problem = makeProblem({
    code: 'bad-id',
    field: 'id',
    found: typeof input === 'string' ? `"${input}"` : typeof input,
    accepted: `"${id}", or no id: another one is another rule`,
  })
  throw invalidError('rules_invalid', [problem])
}

/**
 * In a rule, null in `match.where` matches calls without the attribute; in a patch it removes a
 * condition. If there is no such condition, the caller meant to match fewer calls, and the patch
 * would change nothing: it is refused.
 */
function refuseAbsence(id: string, present: object, patch: unknown): void {
  const input = whereOf(patch)
  const known = whereOf(present)
  const name = Object.keys(input).find(
    (each) => input[each] === null && !Object.hasOwn(known, each),
  )
  if (name === undefined) return
  const problem = makeProblem({
    code: 'bad-value',
    rule: id,
    field: `match.where.${name}`,
    found: 'null, which in a patch removes a condition, and there is none',
    accepted: 'values; for calls without the attribute replace the rule with PUT',
  })
  throw invalidError('rules_invalid', [problem])
}

function whereOf(rule: unknown): JsonMap {
  const match = isJsonMap(rule) ? rule['match'] : undefined
  const where = isJsonMap(match) ? match['where'] : undefined
  return isJsonMap(where) ? where : {}
}

/** A patch replaces lists as a whole; null in place of `overrides` removes all of them. */
function withoutOverrides(patch: unknown, merged: unknown): unknown {
  if (!isJsonMap(patch) || !isJsonMap(merged) || patch['overrides'] !== null) return merged
  return { ...merged, overrides: [] }
}

function ruleExists(id: string, version: number): EditError {
  const message = `rule "${id}" exists already, at version ${version}. Replace or patch it, or give another id`
  return new EditError('rule_exists', message, { version })
}
