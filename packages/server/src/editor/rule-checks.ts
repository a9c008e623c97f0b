/** What handing in one rule would do, or what is wrong with it. Changes nothing. */
import type { Problem } from '@sluice/core'
import type { RuleBook } from '../source/rule-book.js'
import type { RuleSource } from '../source/rule-source.js'
import { type EditContext, planSet, type ReadRule, readRule, requireRule } from './context.js'
import { copyRule } from './documents.js'
import { Draft } from './draft.js'
import { EditError, type Editor } from './editor-types.js'
import { describeFinding } from './problems.js'
import { named, putRule } from './rule-edits.js'
import { readRuleText, type RuleText } from './rule-text.js'

type RuleChecks = Pick<Editor, 'validateRule'>

export function ruleChecks({ commits, callers }: EditContext, source: RuleSource): RuleChecks {
  /** A file's rules can be compared with too. */
  const readBook = () => (source.store === undefined ? source.book : commits.book)
  const plan = (book: RuleBook, rule: ReadRule) => {
    const draft = new Draft(book)
    putRule(draft, rule, callers)
    return planSet(draft, callers, new Set([rule.parsed.id])).answer(0)
  }
  return {
    async validateRule(given, id) {
      const book = readBook()
      if (id !== undefined) requireRule(book, id, undefined)
      const { document, errors, warnings } = await readGiven(given)
      if (errors.length > 0) return { errors, warnings, diff: undefined }
      try {
        const rule = readRule(id === undefined ? document : named(id, document))
        const taken = id === undefined ? book.rule(rule.parsed.id) : undefined
        if (taken !== undefined) {
          return { errors: [idTaken(rule.parsed.id)], warnings, diff: undefined }
        }
        const applied = plan(book, rule)
        return { errors: [], warnings: joined(warnings, applied.warnings), diff: applied.diff }
      } catch (error) {
        if (!(error instanceof EditError) || error.problems.length === 0) throw error
        return { errors: error.problems, warnings, diff: undefined }
      }
    },
  }
}

async function readGiven(given: unknown): Promise<RuleText> {
  const read = typeof given === 'string' ? await readRuleText(given) : undefined
  const document = copyRule(read === undefined ? given : read.document)
  return { document, errors: read?.errors ?? [], warnings: read?.warnings ?? [] }
}

/** Those of the text have their place; those that only a look at the whole set finds have none. */
function joined(placed: readonly Problem[], all: readonly Problem[]): readonly Problem[] {
  const known = new Set(placed.map(({ code, field }) => `${code} ${field}`))
  return [...placed, ...all.filter(({ code, field }) => !known.has(`${code} ${field}`))]
}

function idTaken(id: string): Problem {
  return describeFinding({
    code: 'duplicate-id',
    rule: id,
    field: 'id',
    found: `"${id}"`,
    why: 'a rule of the set',
    accepted: 'an id of its own for each rule',
  })
}
