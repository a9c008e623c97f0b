/** Edits of overrides: put and remove the own limits of one caller of a rule. */
import type { Rule } from '@sluice/core'
import type { CatalogOverride, RuleCatalog } from '../sync/rule-catalog.js'
import { normalizeOverrides, readCallerId } from './override-callers.js'
import { validateOverrides } from './validate-draft.js'
import { type EditContext, requireRule } from './edit-plan.js'
import { copyPlain } from './rule-documents.js'
import { Draft } from './draft.js'
import type { Editor } from './editor.js'
import { EditError, invalidError, requireVersion } from './edit-errors.js'

const OVERRIDES_PER_CALL_MAX = 1000

export function overrideEdits({
  commits,
  callers,
}: EditContext): Pick<Editor, 'putOverrides' | 'removeOverride'> {
  return {
    async putOverrides(rule, overrides, meta, expected) {
      requireSome(overrides.length)
      const copied = overrides.map(copyPlain)
      return commits.run(meta, (catalog) => {
        const context = { ...callers, strictPaths: catalog.set.strictPaths }
        const { documents, problems } = normalizeOverrides(
          readStored(catalog, rule),
          copied,
          context,
        )
        if (problems.length > 0) throw invalidError('override_invalid', problems)
        const draft = new Draft(catalog)
        const before = new Map<string, CatalogOverride | undefined>()
        for (const [caller, document] of documents) {
          const present = catalog.override(rule, caller)
          if (documents.size === 1) {
            requireVersion(`override ${caller} of rule "${rule}"`, present?.version, expected)
          }
          before.set(caller, present)
          draft.putOverride(rule, caller, document)
        }
        return {
          changes: validateOverrides(draft),
          result: (version) =>
            [...documents].map(([id, document]) => ({
              ...(catalog.override(rule, id) ?? { id, document, version }),
              isNew: before.get(id) === undefined,
            })),
        }
      })
    },

    async removeOverride(rule, caller, meta, expected) {
      return commits.run(meta, (catalog) => {
        const found = findOverride(catalog, rule, caller)
        requireVersion(`override ${found.id} of rule "${rule}"`, found.version, expected)
        const draft = new Draft(catalog)
        draft.putOverride(rule, found.id, null)
        return { changes: validateOverrides(draft), result: (version) => version }
      })
    },
  }

  function findOverride(catalog: RuleCatalog, rule: string, caller: string): CatalogOverride {
    requireRule(catalog, rule, undefined)
    const context = { ...callers, strictPaths: catalog.set.strictPaths }
    const exact = catalog.override(rule, caller)
    if (exact !== undefined) return exact
    const id = readCallerId(readStored(catalog, rule).by, caller, context)
    const found = id === undefined ? undefined : catalog.override(rule, id)
    if (found !== undefined) return found
    throw new EditError('override_unknown', `rule "${rule}" has no override for ${caller}`)
  }
}

function requireSome(count: number): void {
  if (count >= 1 && count <= OVERRIDES_PER_CALL_MAX) return
  const accepted = `1 to ${OVERRIDES_PER_CALL_MAX} at once`
  throw new EditError('override_invalid', `found ${count} overrides; accepted: ${accepted}`)
}

function readStored(catalog: RuleCatalog, id: string): Rule {
  const { rule, errors } = catalog.parser.parseRule(requireRule(catalog, id, undefined))
  if (rule === undefined) throw invalidError('rules_invalid', errors)
  return rule
}
