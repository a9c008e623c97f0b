/** Edits of candidates: other limits of a rule that are tried in shadow beside its active ones. */
import type { CandidateDocument, RuleDocument } from '../store/records.js'
import { type EditContext, planRule, readRule, requireRule } from './edit-plan.js'
import { copyPlain } from './rule-documents.js'
import { Draft } from './draft.js'
import { EditError } from './edit-errors.js'
import type { Editor } from './editor.js'

type CandidateEdits = Pick<Editor, 'putCandidate' | 'removeCandidate' | 'promote'>

export function candidateEdits({ commits, callers, parser }: EditContext): CandidateEdits {
  return {
    async putCandidate(id, candidate, meta, expected) {
      const copied = copyPlain(candidate) ?? null
      return commits.run(meta, (catalog) => {
        const { document } = requireRule(catalog, id, expected)
        const draft = new Draft(catalog)
        draft.putRule(id, readRule(parser, { ...document, candidate: copied }).input)
        return planRule(draft, id, callers)
      })
    },

    async removeCandidate(id, meta, expected) {
      return commits.run(meta, (catalog) => {
        const { document, candidate } = requireRule(catalog, id, expected)
        requireCandidate(id, candidate)
        const draft = new Draft(catalog)
        draft.putRule(id, { document, candidate: undefined })
        return planRule(draft, id, callers)
      })
    },

    async promote(id, meta, expected) {
      return commits.run(meta, (catalog) => {
        const { document, candidate } = requireRule(catalog, id, expected)
        const tried = requireCandidate(id, candidate)
        const draft = new Draft(catalog)
        draft.putRule(id, { document: promoteLimits(document, tried), candidate: undefined })
        return planRule(draft, id, callers)
      })
    },
  }
}

function requireCandidate(id: string, candidate: CandidateDocument | undefined): CandidateDocument {
  if (candidate !== undefined) return candidate
  throw new EditError('candidate_unknown', `rule "${id}" has no candidate`)
}

/** Keeps the other fields, and the order of fields, as they were written. */
function promoteLimits(document: RuleDocument, { limits, tiers }: CandidateDocument): RuleDocument {
  const fields = new Map<string, unknown>(Object.entries(document))
  fields.set('limits', limits)
  if (tiers === undefined) fields.delete('tiers')
  else fields.set('tiers', tiers)
  return Object.fromEntries(fields) as RuleDocument
}
