/** Error responses of the admin API. */
import { STATUS_CODES } from 'node:http'
import { type Decision, type Problem, problemBody, SluiceError } from '@sluice/core'
import { UNSUPPORTED_ENCODING } from '../decision-api/api-problems.js'
import { EditError } from '../../rules/editor/edit-errors.js'
import type { ErrorReporter } from '../http/error-reporter.js'
import { DivergedError, UnavailableError } from '../../rules/store/rule-store.js'

/** Values of `error` that are neither codes of the editor nor of docs/reference/errors.md. */
export const ADMIN_PROBLEMS = {
  invalid_request: 400,
  unauthorized: 401,
  forbidden: 403,
  cross_site: 403,
  csrf: 403,
  not_encrypted: 403,
  not_found: 404,
  method_not_allowed: 405,
  too_large: 413,
  unsupported_type: 415,
  unsupported_encoding: 415,
  precondition_required: 428,
  rate_limited: 429,
  internal: 500,
  too_many_streams: 503,
} as const

export type AdminProblemCode = keyof typeof ADMIN_PROBLEMS

type HeaderPairs = Readonly<Record<string, string>>

/** Thrown for a request that cannot be served; its message goes to the client. */
export class AdminError extends Error {
  readonly code: AdminProblemCode
  readonly headers: HeaderPairs
  readonly problems: readonly ReportedProblem[]

  constructor(
    code: AdminProblemCode,
    detail: string,
    more: { readonly headers?: HeaderPairs; readonly problems?: readonly ReportedProblem[] } = {},
  ) {
    super(detail)
    this.name = 'AdminError'
    this.code = code
    this.headers = more.headers ?? {}
    this.problems = more.problems ?? []
  }
}

/** A problem of rules, or of a body in the same form. */
export type ReportedProblem = Omit<Problem, 'code'> & { readonly code: string }

/** Thrown when a sender exceeds the admin API's own limits. */
export class TooManyError extends Error {
  readonly decision: Decision

  constructor(decision: Decision) {
    super('too many requests')
    this.name = 'TooManyError'
    this.decision = decision
  }
}

/** The same for a missing, wrong or malformed token, so that it reveals nothing. */
export const unauthorized = () =>
  new AdminError(
    'unauthorized',
    'Send a token of the admin API as Authorization: Bearer <token>.',
    {
      headers: { 'WWW-Authenticate': 'Bearer' },
    },
  )

export const crossSite = () =>
  new AdminError('cross_site', 'Web pages of other sites may not use the admin API.')

export const csrfMismatch = () =>
  new AdminError(
    'csrf',
    'The X-Sluice-Csrf header does not belong to this session. Send the csrf of GET /admin/v1/session.',
  )

export const unsupportedEncoding = () =>
  new AdminError('unsupported_encoding', UNSUPPORTED_ENCODING.detail)

/** `place: found x; accepted: y`: the form of messages about fields, as for rules. */
export function invalid(place: string, found: string, accepted: string): AdminError {
  return new AdminError('invalid_request', `${place}: found ${found}; accepted: ${accepted}`)
}

interface ProblemFields {
  readonly status: number
  readonly error: string
  readonly detail: string
  readonly version?: number | undefined
  readonly errors?: readonly ReportedProblem[] | undefined
  readonly headers?: HeaderPairs | undefined
}

export function problemResponse(error: unknown, errorReporter: ErrorReporter): Response {
  if (error instanceof TooManyError) {
    const body = problemBody(error.decision)
    return respond(body.status, body, {})
  }
  const {
    status,
    error: word,
    detail,
    version,
    errors,
    headers = {},
  } = fieldsOf(error, errorReporter)
  const title = STATUS_CODES[status] ?? 'Error'
  const body = {
    type: 'about:blank',
    title,
    status,
    detail,
    error: word,
    ...(version !== undefined && { version }),
    ...(errors !== undefined && errors.length > 0 && { errors }),
  }
  return respond(status, body, headers)
}

/** On every response: not to be cached, and not to be sniffed. */
export const COMMON_RESPONSE_HEADERS: HeaderPairs = {
  'Cache-Control': 'no-store',
  'X-Content-Type-Options': 'nosniff',
}

function respond(status: number, body: object, headers: HeaderPairs): Response {
  const type = { 'Content-Type': 'application/problem+json' }
  return new Response(JSON.stringify(body), {
    status,
    headers: { ...headers, ...type, ...COMMON_RESPONSE_HEADERS },
  })
}

function fieldsOf(error: unknown, errorReporter: ErrorReporter): ProblemFields {
  if (error instanceof AdminError) {
    const { code, message, headers, problems } = error
    return { status: ADMIN_PROBLEMS[code], error: code, detail: message, headers, errors: problems }
  }
  if (error instanceof EditError) return fieldsOfEdit(error)
  // Reads do not pass through the editor, which reports these errors of the store itself.
  if (error instanceof UnavailableError) {
    return { status: 503, error: 'rules_unavailable', detail: error.message }
  }
  if (error instanceof DivergedError) {
    return { status: 409, error: 'rules_diverged', detail: error.message }
  }
  const { status, detail, error: word = 'internal' } = errorReporter.problemOf(error)
  const isOfRules = error instanceof SluiceError && 'problems' in error
  return { status, error: isOfRules ? 'rules_invalid' : word, detail }
}

function fieldsOfEdit({ code, status, message, problems, version }: EditError): ProblemFields {
  const isConflict = code === 'version_conflict' && version !== undefined
  return {
    status,
    error: code,
    detail: message,
    version,
    errors: problems,
    headers: isConflict ? { ETag: `"${version}"` } : {},
  }
}
