/** Own limits for one caller of a rule: given, given anew, and taken back. */
import { parseRules, type Rule } from '@sluice/core'
import type { BookOverride, RuleBook } from '../source/rule-book.js'
import { fileOverrides, readCallerId } from './callers.js'
import { checkOverrides } from './check-draft.js'
import { type EditContext, requireRule } from './context.js'
import { copyPlain, putTogether } from './documents.js'
import { Draft } from './draft.js'
import { EditError, type Editor } from './editor-types.js'
import { invalid, requireVersion } from './problems.js'

const OVERRIDES_PER_CALL_MAX = 1000

export function overrideEdits({
  commits,
  callers,
}: EditContext): Pick<Editor, 'putOverrides' | 'removeOverride'> {
  return {
    async putOverrides(rule, overrides, meta, expected) {
      requireSome(overrides.length)
      const copied = overrides.map(copyPlain)
      return commits.run(meta, (book) => {
        const context = { ...callers, strictPaths: book.set.strictPaths }
        const { filed, problems } = fileOverrides(readStored(book, rule), copied, context)
        if (problems.length > 0) throw invalid('override_invalid', problems)
        const draft = new Draft(book)
        const before = new Map<string, BookOverride | undefined>()
        for (const [caller, document] of filed) {
          const present = book.override(rule, caller)
          if (filed.size === 1) {
            requireVersion(`override ${caller} of rule "${rule}"`, present?.version, expected)
          }
          before.set(caller, present)
          draft.putOverride(rule, caller, document)
        }
        return {
          changes: checkOverrides(draft),
          answer: (version) =>
            [...filed].map(([id, document]) => ({
              ...(book.override(rule, id) ?? { id, document, version }),
              isNew: before.get(id) === undefined,
            })),
        }
      })
    },

    async removeOverride(rule, caller, meta, expected) {
      return commits.run(meta, (book) => {
        const found = findOverride(book, rule, caller)
        requireVersion(`override ${found.id} of rule "${rule}"`, found.version, expected)
        const draft = new Draft(book)
        draft.putOverride(rule, found.id, null)
        return { changes: checkOverrides(draft), answer: (version) => version }
      })
    },
  }

  function findOverride(book: RuleBook, rule: string, caller: string): BookOverride {
    requireRule(book, rule, undefined)
    const context = { ...callers, strictPaths: book.set.strictPaths }
    const exact = book.override(rule, caller)
    if (exact !== undefined) return exact
    const id = readCallerId(readStored(book, rule).by, caller, context)
    const found = id === undefined ? undefined : book.override(rule, id)
    if (found !== undefined) return found
    throw new EditError('override_unknown', `rule "${rule}" has no override for ${caller}`)
  }
}

function requireSome(count: number): void {
  if (count >= 1 && count <= OVERRIDES_PER_CALL_MAX) return
  const accepted = `1 to ${OVERRIDES_PER_CALL_MAX} at once`
  throw new EditError('override_invalid', `found ${count} overrides; accepted: ${accepted}`)
}

function readStored(book: RuleBook, id: string): Rule {
  const { rules, errors } = parseRules([putTogether(requireRule(book, id, undefined))])
  const rule = rules?.rules[0]
  if (rule === undefined) throw invalid('rules_invalid', errors)
  return rule
}
