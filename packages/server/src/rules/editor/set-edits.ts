/** Edits of the whole set: apply, try in shadow, or only check. */
import type { RuleCatalog } from '../sync/rule-catalog.js'
import type { RuleFollower } from '../sync/rule-follower.js'
import { applySet, trySet } from './apply-set.js'
import type { Plan } from './commits.js'
import { type EditContext, planSet, requireConfirmation } from './edit-plan.js'
import { Draft } from './draft.js'
import type { ApplyResult, ApplyOptions, Editor } from './editor.js'
import { EditError, invalidError, requireVersion } from './edit-errors.js'
import { type SetReadResult, readSet } from './read-set.js'
import { NO_WARNINGS } from './validate-draft.js'

type SetEdits = Pick<Editor, 'apply' | 'validate'>

export function setEdits(context: EditContext, follower: RuleFollower): SetEdits {
  const { commits, callers, parser } = context
  const planApply = (
    catalog: RuleCatalog,
    read: SetReadResult,
    options: ApplyOptions,
  ): Plan<ApplyResult> => {
    const { input } = read
    if (input === undefined) throw invalidError('rules_invalid', read.errors)
    requireVersion('the rule set', catalog.rulesVersion, options.expected)
    const draft = new Draft(catalog)
    if (options.shadow === true) trySet(draft, input, callers)
    else applySet(draft, input, callers)
    if (options.dryRun !== true) requireConfirmation(draft, options.confirmed)
    // In shadow the resulting set differs from the text, so its warnings count.
    if (options.shadow === true) return planSet(draft, callers)
    const { changes, result } = planSet(draft, callers, NO_WARNINGS)
    // Warnings of the text have a line and column.
    return { changes, result: (version) => ({ ...result(version), warnings: read.warnings }) }
  }
  /** For checks: rules of a file can be compared with too, although they cannot be changed. */
  const readBook = () => (follower.store === undefined ? follower.catalog : commits.catalog)
  return {
    async apply(input, meta, options) {
      if (options.dryRun !== true) void commits.store
      const read = await readSet(parser, input, { ...options, ruleContext: callers.ruleContext })
      if (read.input === undefined) throw invalidError('rules_invalid', read.errors)
      if (options.dryRun !== true) {
        return commits.run(meta, (catalog) => planApply(catalog, read, options))
      }
      const catalog = readBook()
      const { result } = planApply(catalog, read, options)
      return result(catalog.position?.version ?? follower.version())
    },

    async validate(input, options) {
      const read = await readSet(parser, input, { ...options, ruleContext: callers.ruleContext })
      const { errors, warnings } = read
      if (read.input === undefined) return { errors, warnings, diff: undefined }
      try {
        const { result } = planApply(readBook(), read, { ...options, dryRun: true })
        const applied = result(0)
        return { errors: [], warnings: applied.warnings, diff: applied.diff }
      } catch (error) {
        if (!(error instanceof EditError) || error.problems.length === 0) throw error
        return { errors: error.problems, warnings, diff: undefined }
      }
    },
  }
}
