/** Edits that roll the set, or one of its rules, back to a version. */
import type { RuleCatalog } from '../sync/rule-catalog.js'
import { type EditContext, planSet, requireConfirmation } from './edit-plan.js'
import { Draft } from './draft.js'
import type { ApplyResult, Editor, Meta, RollbackOptions } from './editor.js'
import { requireVersion } from './edit-errors.js'
import { rollbackAll, rollbackOne } from './rollback.js'

type RollbackEdits = Pick<Editor, 'rollback' | 'rollbackRule'>

export function rollbackEdits({ commits, callers }: EditContext): RollbackEdits {
  const goBack = async (
    version: number,
    meta: Meta,
    { dryRun = false, confirmed }: RollbackOptions,
    change: (draft: Draft, catalog: RuleCatalog) => Promise<void>,
  ): Promise<ApplyResult> => {
    const plan = async (catalog: RuleCatalog) => {
      const draft = new Draft(catalog)
      await change(draft, catalog)
      if (!dryRun) requireConfirmation(draft, confirmed)
      return planSet(draft, callers)
    }
    if (!dryRun) {
      return commits.run({ ...meta, why: meta.why ?? `rollback to ${version}` }, plan)
    }
    const { catalog } = commits
    const { result } = await plan(catalog)
    return result(catalog.position?.version ?? 0)
  }
  return {
    async rollback(version, meta, expected, options = {}) {
      const { store } = commits
      return goBack(version, meta, options, async (draft, catalog) => {
        requireVersion('the rule set', catalog.rulesVersion, expected)
        await rollbackAll(draft, store, version)
      })
    },

    async rollbackRule(id, version, meta, expected, options = {}) {
      const { store } = commits
      return goBack(version, meta, options, async (draft, catalog) => {
        requireVersion(`rule "${id}"`, catalog.rule(id)?.version, expected)
        await rollbackOne(draft, store, { id, version })
      })
    },
  }
}
