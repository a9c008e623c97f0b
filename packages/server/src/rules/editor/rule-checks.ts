/** Checks what creating or replacing one rule would do. Changes nothing. */
import type { Problem } from '@sluice/core'
import type { RuleCatalog } from '../sync/rule-catalog.js'
import type { RuleFollower } from '../sync/rule-follower.js'
import { type EditContext, planSet, type ParsedRule, readRule, requireRule } from './edit-plan.js'
import { copyRule } from './rule-documents.js'
import { Draft } from './draft.js'
import type { Editor } from './editor.js'
import { EditError, makeProblem } from './edit-errors.js'
import { named, putRule } from './rule-edits.js'
import { readRuleText, type RuleText } from './parse-rule-text.js'

/** Warnings that depend on the other rules, so that only the whole set can confirm them. */
const BESIDE_OTHERS: readonly Problem['code'][] = ['dodged-rule', 'tight-address-rule']

type RuleChecks = Pick<Editor, 'validateRule'>

export function ruleChecks(
  { commits, callers, parser }: EditContext,
  follower: RuleFollower,
): RuleChecks {
  /** Rules of a file can be compared with too, although they cannot be changed. */
  const readBook = () => (follower.store === undefined ? follower.catalog : commits.catalog)
  const plan = (catalog: RuleCatalog, rule: ParsedRule) => {
    const draft = new Draft(catalog)
    putRule(draft, rule, callers)
    return planSet(draft, callers, new Set([rule.parsed.id])).result(0)
  }
  return {
    async validateRule(input, id) {
      const catalog = readBook()
      if (id !== undefined) requireRule(catalog, id, undefined)
      const { document, errors, warnings } = await readInput(input)
      if (errors.length > 0) return { errors, warnings, diff: undefined }
      const own = warnings.filter(({ code }) => !BESIDE_OTHERS.includes(code))
      try {
        const rule = readRule(parser, id === undefined ? document : named(id, document))
        const taken = id === undefined ? catalog.rule(rule.parsed.id) : undefined
        if (taken !== undefined) {
          return { errors: [idTaken(rule.parsed.id)], warnings: own, diff: undefined }
        }
        const applied = plan(catalog, rule)
        return { errors: [], warnings: withPlaces(warnings, applied.warnings), diff: applied.diff }
      } catch (error) {
        if (!(error instanceof EditError) || error.problems.length === 0) throw error
        return { errors: error.problems, warnings: own, diff: undefined }
      }
    },
  }
}

async function readInput(input: unknown): Promise<RuleText> {
  const read = typeof input === 'string' ? await readRuleText(input) : undefined
  const document = copyRule(read === undefined ? input : read.document)
  return { document, errors: read?.errors ?? [], warnings: read?.warnings ?? [] }
}

/**
 * Returns the warnings of the whole set, with their places in the text where it has them too. A
 * warning of the text alone may be wrong: another rule may cover what seems easy to evade.
 */
function withPlaces(ofText: readonly Problem[], ofSet: readonly Problem[]): readonly Problem[] {
  const byName = new Map(ofText.map((each) => [nameOf(each), each]))
  return ofSet.map((each) => byName.get(nameOf(each)) ?? each)
}

const nameOf = ({ code, field, found }: Problem): string => JSON.stringify([code, field, found])

function idTaken(id: string): Problem {
  return makeProblem({
    code: 'duplicate-id',
    rule: id,
    field: 'id',
    found: `"${id}"`,
    why: 'a rule of the set',
    accepted: 'an id of its own for each rule',
  })
}
