/** Errors of the clients. */
import type { ProblemView } from './api-types.js'

/** How messages name an API and its listener. */
export type ApiName = 'admin' | 'decision'

/** What an error response says. */
export interface ProblemFields {
  readonly status: number
  readonly code: string
  readonly detail: string
  readonly version?: number | undefined
  readonly errors?: readonly ProblemView[] | undefined
}

/** The server refused, or the response is not one of the admin API. */
export class AdminError extends Error {
  readonly status: number
  /**
   * The `error` of the body, such as `version_conflict`; `unexpected` if the body is not Sluice's.
   */
  readonly code: string
  readonly detail: string
  /** The current version, with `version_conflict`. */
  readonly version: number | undefined
  /** The errors of rules, each with its place. */
  readonly errors: readonly ProblemView[]

  constructor(fields: ProblemFields) {
    super(fields.detail)
    this.name = 'AdminError'
    this.status = fields.status
    this.code = fields.code
    this.detail = fields.detail
    this.version = fields.version
    this.errors = fields.errors ?? []
  }
}

/** The decision API refused a request, or the response is not one of the decision API. */
export class DecisionError extends Error {
  /** The status of the response, or of the problem of one call of a list. */
  readonly status: number
  /**
   * The `error` of the body, such as `CALL_PATH_INVALID` or `unauthorized`; `unexpected` if the
   * body is not Sluice's.
   */
  readonly code: string
  readonly detail: string

  constructor({ status, code, detail }: ProblemFields) {
    super(detail)
    this.name = 'DecisionError'
    this.status = status
    this.code = code
    this.detail = detail
  }
}

/** The server did not answer, or the response is incomplete. */
export class UnreachableError extends Error {
  readonly url: string
  /** Whether the change may have been made nevertheless. It is never sent a second time. */
  readonly isUncertain: boolean

  constructor(
    message: string,
    more: ErrorOptions & { readonly url: string; readonly isUncertain: boolean },
  ) {
    super(message, more)
    this.name = 'UnreachableError'
    this.url = more.url
    this.isUncertain = more.isUncertain
  }
}

/** The input cannot be sent. Nothing was sent. */
export class InputError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'InputError'
  }
}
