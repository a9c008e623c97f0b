/** The whole set: applied, tried in shadow, or only checked. */
import type { RuleBook } from '../source/rule-book.js'
import type { RuleSource } from '../source/rule-source.js'
import { applySet, trySet } from './apply-set.js'
import type { Plan } from './commits.js'
import { type EditContext, planSet, requireMeant } from './context.js'
import { Draft } from './draft.js'
import { type Applied, type ApplyOptions, EditError, type Editor } from './editor-types.js'
import { NO_WARNINGS } from './parse-set.js'
import { invalid, requireVersion } from './problems.js'
import { type ReadSet, readSet } from './read-set.js'

type SetEdits = Pick<Editor, 'apply' | 'validate'>

export function setEdits(context: EditContext, source: RuleSource): SetEdits {
  const { commits, callers } = context
  const planApply = (book: RuleBook, read: ReadSet, options: ApplyOptions): Plan<Applied> => {
    const { given } = read
    if (given === undefined) throw invalid('rules_invalid', read.errors)
    requireVersion('the rule set', book.rulesVersion, options.expected)
    const draft = new Draft(book)
    if (options.shadow === true) trySet(draft, given, callers)
    else applySet(draft, given, callers)
    if (options.dryRun !== true) requireMeant(draft, options.confirmed)
    // What is tried is another set than the text.
    if (options.shadow === true) return planSet(draft, callers)
    const { changes, answer } = planSet(draft, callers, NO_WARNINGS)
    // Those of the text have their line and column.
    return { changes, answer: (version) => ({ ...answer(version), warnings: read.warnings }) }
  }
  /** For what changes nothing: a file's rules can be compared with too. */
  const readBook = () => (source.store === undefined ? source.book : commits.book)
  return {
    async apply(given, meta, options) {
      if (options.dryRun !== true) void commits.store
      const read = await readSet(given, { ...options, fromHeaders: callers.fromHeaders })
      if (read.given === undefined) throw invalid('rules_invalid', read.errors)
      if (options.dryRun !== true) {
        return commits.run(meta, (book) => planApply(book, read, options))
      }
      const book = readBook()
      const { answer } = planApply(book, read, options)
      return answer(book.position?.version ?? source.version())
    },

    async validate(given, options) {
      const read = await readSet(given, { ...options, fromHeaders: callers.fromHeaders })
      const { errors, warnings } = read
      if (read.given === undefined) return { errors, warnings, diff: undefined }
      try {
        const { answer } = planApply(readBook(), read, { ...options, dryRun: true })
        const applied = answer(0)
        return { errors: [], warnings: applied.warnings, diff: applied.diff }
      } catch (error) {
        if (!(error instanceof EditError) || error.problems.length === 0) throw error
        return { errors: error.problems, warnings, diff: undefined }
      }
    },
  }
}
