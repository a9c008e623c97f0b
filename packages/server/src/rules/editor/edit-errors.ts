/** Errors of edits, in one form whether the rule parser or the editor found them. */
import { createDiagnostics, type Problem } from '@sluice/core/config-reader'

/** Codes of edits that were not made, with their HTTP status. */
export const EDIT_ERRORS = {
  rules_invalid: 400,
  override_invalid: 400,
  key_invalid: 400,
  token_invalid: 400,
  not_triable: 400,
  read_only: 403,
  rule_unknown: 404,
  override_unknown: 404,
  candidate_unknown: 404,
  key_unknown: 404,
  token_unknown: 404,
  version_unknown: 404,
  rule_exists: 409,
  key_exists: 409,
  version_conflict: 409,
  confirmation_needed: 409,
  rules_diverged: 409,
  rules_unavailable: 503,
} as const

export type EditErrorCode = keyof typeof EDIT_ERRORS

export class EditError extends Error {
  readonly code: EditErrorCode
  readonly status: number
  /** The errors of the rules, each with its place. */
  readonly problems: readonly Problem[]
  /** The present version, if the caller expected another. */
  readonly version: number | undefined

  constructor(
    code: EditErrorCode,
    message: string,
    more: ErrorOptions & {
      readonly problems?: readonly Problem[]
      readonly version?: number | undefined
    } = {},
  ) {
    super(message, more)
    this.name = 'EditError'
    this.code = code
    this.status = EDIT_ERRORS[code]
    this.problems = more.problems ?? []
    this.version = more.version
  }
}

type ProblemInput = Parameters<ReturnType<typeof createDiagnostics>['report']>[0]

/** Makes a problem without a place in a text. */
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

/** Makes one error of at least one problem, with the first in the message. */
export function invalidError(code: keyof typeof WHAT, problems: readonly Problem[]): EditError {
  const [first] = problems
  const message =
    problems.length === 1
      ? `1 error in ${WHAT[code]}: ${first?.message}`
      : `${problems.length} errors in ${WHAT[code]}, the first: ${first?.message}`
  return new EditError(code, message, { problems })
}

/** Throws a `version_conflict` if the present version is not the expected one. */
export function requireVersion(
  what: string,
  present: number | undefined,
  expected: number | undefined,
): void {
  if (expected === undefined || expected === present) return
  const found = present === undefined ? 'it was removed' : `it is at version ${present}`
  const message = `${what}: expected version ${expected}, but ${found}. Read it again, then repeat the change`
  throw new EditError('version_conflict', message, { version: present })
}

const UNSTORABLE = /\0|\p{Surrogate}/u

/** Whether a store can hold every text of a value. */
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
    found: 'text with NUL or a lone surrogate',
    accepted: 'text without them',
  })
}
