/** The set, or one rule of it, as it was at a version. */
import { type EditContext, planSet, requireMeant } from './context.js'
import { Draft } from './draft.js'
import type { Editor } from './editor-types.js'
import { requireVersion } from './problems.js'
import { rollbackAll, rollbackOne } from './rollback.js'

type RollbackEdits = Pick<Editor, 'rollback' | 'rollbackRule'>

export function rollbackEdits({ commits, callers }: EditContext): RollbackEdits {
  return {
    async rollback(version, meta, expected, options = {}) {
      const { store } = commits
      return commits.run({ ...meta, why: meta.why ?? `rollback to ${version}` }, async (book) => {
        requireVersion('the rule set', book.rulesVersion, expected)
        const draft = new Draft(book)
        await rollbackAll(draft, store, version)
        requireMeant(draft, options.confirmed)
        return planSet(draft, callers)
      })
    },

    async rollbackRule(id, version, meta, expected, options = {}) {
      const { store } = commits
      return commits.run({ ...meta, why: meta.why ?? `rollback to ${version}` }, async (book) => {
        requireVersion(`rule "${id}"`, book.rule(id)?.version, expected)
        const draft = new Draft(book)
        await rollbackOne(draft, store, { id, version })
        requireMeant(draft, options.confirmed)
        return planSet(draft, callers)
      })
    },
  }
}
