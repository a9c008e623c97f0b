/** What can go wrong between a client and the admin API. */
import type { ProblemView } from './api-types.js'

/** The server said no, or what is no answer of the admin API. */
export class AdminError extends Error {
  readonly status: number
  /** The `error` of the body: `version_conflict`. `unexpected`: it was no body of Sluice's. */
  readonly code: string
  readonly detail: string
  /** With `version_conflict`: the present version. */
  readonly version: number | undefined
  /** Where rules have errors: each with its place. */
  readonly errors: readonly ProblemView[]

  constructor(fields: {
    readonly status: number
    readonly code: string
    readonly detail: string
    readonly version?: number | undefined
    readonly errors?: readonly ProblemView[] | undefined
  }) {
    super(fields.detail)
    this.name = 'AdminError'
    this.status = fields.status
    this.code = fields.code
    this.detail = fields.detail
    this.version = fields.version
    this.errors = fields.errors ?? []
  }
}

/** Nobody answered, or not to the end. */
export class UnreachableError extends Error {
  readonly url: string
  /** Whether the change may have been made all the same. It is never sent a second time. */
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

/** What was given to the client cannot be sent. Nothing was. */
export class AdminInputError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'AdminInputError'
  }
}
