/** The set, or one rule of it, as it was at a version. */
import type { RuleBook } from '../source/rule-book.js'
import { type EditContext, planSet, requireMeant } from './context.js'
import { Draft } from './draft.js'
import type { Applied, Editor, Meta, RollbackOptions } from './editor-types.js'
import { requireVersion } from './problems.js'
import { rollbackAll, rollbackOne } from './rollback.js'

type RollbackEdits = Pick<Editor, 'rollback' | 'rollbackRule'>

export function rollbackEdits({ commits, callers }: EditContext): RollbackEdits {
  const goBack = async (
    version: number,
    meta: Meta,
    { dryRun = false, confirmed }: RollbackOptions,
    change: (draft: Draft, book: RuleBook) => Promise<void>,
  ): Promise<Applied> => {
    const plan = async (book: RuleBook) => {
      const draft = new Draft(book)
      await change(draft, book)
      if (!dryRun) requireMeant(draft, confirmed)
      return planSet(draft, callers)
    }
    if (!dryRun) {
      return commits.run({ ...meta, why: meta.why ?? `rollback to ${version}` }, plan)
    }
    const { book } = commits
    const { answer } = await plan(book)
    return answer(book.position?.version ?? 0)
  }
  return {
    async rollback(version, meta, expected, options = {}) {
      const { store } = commits
      return goBack(version, meta, options, async (draft, book) => {
        requireVersion('the rule set', book.rulesVersion, expected)
        await rollbackAll(draft, store, version)
      })
    },

    async rollbackRule(id, version, meta, expected, options = {}) {
      const { store } = commits
      return goBack(version, meta, options, async (draft, book) => {
        requireVersion(`rule "${id}"`, book.rule(id)?.version, expected)
        await rollbackOne(draft, store, { id, version })
      })
    },
  }
}
