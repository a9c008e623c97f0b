/**
 * The responses that every entry point sends itself, as status, headers and body: refusals, and
 * problem details for everything else.
 */
import type { Decision } from './decision.js'
import { flatRateLimitHeaders, jitterMs, type StandardHeaders } from './headers.js'
import { problemBody } from './problem-body.js'

/** Names and values in turn, the form that Node writes without copying. */
export type FlatHeaders = string[]

/** A response with problem details as its body, for whatever protocol carries it. */
export interface HttpResponse {
  readonly status: number
  readonly headers: FlatHeaders
  readonly body: string
}

/** The content type of the body of every `HttpResponse`. */
export const PROBLEM_TYPE = 'application/problem+json'

export interface ProblemDetails {
  readonly title: string
  readonly status: number
  readonly detail: string
  /** The code of docs/reference/errors.md, or another short word that scripts can test. */
  readonly error?: string | undefined
}

/** RFC 9457 problem details for everything but a refusal. */
export function problemObject({ title, status, detail, error }: ProblemDetails): object {
  return { type: 'about:blank', title, status, detail, ...(error && { error }) }
}

export interface RefusalOptions {
  readonly nowMs: number
  readonly postureStatus: 429 | 503
  /** The status of a shed call. @default 429 */
  readonly shedStatus?: 429 | 503 | undefined
  readonly jitter: boolean
  /** Drawn by the caller, from 0 to 1. */
  readonly fraction: number
  /** The fields of the IETF draft. @default true */
  readonly standard?: StandardHeaders | undefined
  /** Whether `X-RateLimit-*` are sent. @default true */
  readonly legacy?: boolean | undefined
}

/** 429 with the headers and the body of a refusal; `statusOf` may choose another status. */
export function refusalResponse(
  decision: Decision,
  options: RefusalOptions,
  statusOf = (status: number) => status,
): HttpResponse {
  const { nowMs, postureStatus, shedStatus, jitter, fraction, standard, legacy } = options
  const jittered = jitter ? jitterMs(decision, fraction) : 0
  const problem = problemBody(decision, { jitterMs: jittered, postureStatus, shedStatus })
  const status = statusOf(problem.status)
  const headers = flatRateLimitHeaders(decision, { nowMs, jitterMs: jittered, standard, legacy })
  // A copy costs as much as its text.
  const body = JSON.stringify(status === problem.status ? problem : { ...problem, status })
  return { status, headers, body }
}
