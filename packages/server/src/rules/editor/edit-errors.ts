/** Errors of edits: made in one form, whether the parser of rules found them or the editor did. */
import { createDiagnostics, type Problem } from '@sluice/core/config-reader'
import { EditError, type EditErrorCode } from './editor-types.js'

type ProblemInput = Parameters<ReturnType<typeof createDiagnostics>['report']>[0]

/** What belongs to no place in a text. */
export function makeProblem(finding: Omit<ProblemInput, 'at'>): Problem {
  const collector = createDiagnostics({ file: undefined, strict: false, text: undefined })
  collector.report({ at: -1, ...finding })
  const { errors, warnings } = collector.finish()
  const [problem] = [...errors, ...warnings]
  if (problem === undefined) throw new Error('a finding is a problem')
  return problem
}

const WHAT = {
  rules_invalid: 'the rules',
  override_invalid: 'the overrides',
  key_invalid: 'the keys',
  token_invalid: 'the token',
} as const satisfies Partial<Record<EditErrorCode, string>>

/** All of them, the first in the message. There is at least one. */
export function invalidError(code: keyof typeof WHAT, problems: readonly Problem[]): EditError {
  const [first] = problems
  const message =
    problems.length === 1
      ? `1 error in ${WHAT[code]}: ${first?.message}`
      : `${problems.length} errors in ${WHAT[code]}, the first: ${first?.message}`
  return new EditError(code, message, { problems })
}

/** The writer has seen another version of it than there is. */
export function requireVersion(
  what: string,
  present: number | undefined,
  expected: number | undefined,
): void {
  if (expected === undefined || expected === present) return
  const found = present === undefined ? 'it is gone' : `it is at version ${present}`
  const message = `${what}: found version ${expected} as the one that was seen; by now ${found}. Read it again, then repeat the change`
  throw new EditError('version_conflict', message, { version: present })
}

const UNSTORABLE = /\0|\p{Surrogate}/u

/** Whether every text of plain data is one that a store can keep. */
export function isStorable(value: unknown): boolean {
  if (typeof value === 'string') return !UNSTORABLE.test(value)
  if (typeof value !== 'object' || value === null) return true
  if (Array.isArray(value)) return value.every(isStorable)
  return Object.entries(value).every(([key, field]) => !UNSTORABLE.test(key) && isStorable(field))
}

export function unstorableProblem(rule: string | undefined, field: string): Problem {
  return makeProblem({
    code: 'bad-value',
    ...(rule === undefined ? {} : { rule }),
    field,
    found: 'a text with NUL or half a character',
    accepted: 'text without them',
  })
}
