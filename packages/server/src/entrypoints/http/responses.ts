/** Answers that the servers write themselves: problem details, JSON, and refusals. */
import { type ServerResponse, STATUS_CODES } from 'node:http'
import { type Decision, flatRateLimitHeaders, jitterMs, problemBody } from '@sluice/core'

/** Names and values in turn, as node writes them without looking again. */
export type FlatHeaders = string[]

export interface HttpProblem {
  readonly status: number
  readonly detail: string
  /** The code of docs/reference/errors.md, or another short word that scripts can test. */
  readonly error?: string | undefined
  readonly headers?: FlatHeaders | undefined
}

/** RFC 9457 problem details for everything but a refusal. */
export function sendProblem(response: ServerResponse, problem: HttpProblem): void {
  const { status, headers = [] } = problem
  const body = JSON.stringify(problemObject(problem))
  writeBody(response, status, 'application/problem+json', body, headers)
}

/** The body of a problem, and what stands for one in a list. */
export function problemObject({ status, detail, error }: HttpProblem): object {
  const title = STATUS_CODES[status] ?? 'Error'
  return { type: 'about:blank', title, status, detail, ...(error && { error }) }
}

export function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: FlatHeaders = [],
): void {
  writeBody(response, status, 'application/json', JSON.stringify(body), headers)
}

export interface RefusalOptions {
  readonly nowMs: number
  readonly postureStatus: 429 | 503
  readonly jitter: boolean
  /** Drawn by the caller, from 0 to 1. */
  readonly fraction: number
  /** What forward-auth answers instead, for proxies that only pass on 403. */
  readonly status?: 403 | undefined
}

/** 429 with every header and the body of a refusal. */
export function sendRefusal(
  response: ServerResponse,
  decision: Decision,
  options: RefusalOptions,
): void {
  const { body, headers, status } = refusalOf(decision, options)
  writeBody(response, status, 'application/problem+json', body, headers)
}

/** The parts of a refusal, for a way in that has no response to write to. */
export function refusalOf(
  decision: Decision,
  { nowMs, postureStatus, jitter, fraction, status }: RefusalOptions,
): { readonly status: number; readonly headers: FlatHeaders; readonly body: string } {
  const jittered = jitter ? jitterMs(decision, fraction) : 0
  const problem = problemBody(decision, { jitterMs: jittered, postureStatus })
  const sentStatus = status ?? problem.status
  return {
    status: sentStatus,
    headers: flatHeaders(decision, nowMs, jittered),
    body: JSON.stringify({ ...problem, status: sentStatus }),
  }
}

/** The rate limit headers of a decision, flat. */
export function flatHeaders(decision: Decision, nowMs: number, jittered = 0): FlatHeaders {
  return flatRateLimitHeaders(decision, { nowMs, jitterMs: jittered })
}

function writeBody(
  response: ServerResponse,
  status: number,
  type: string,
  text: string,
  headers: FlatHeaders,
): void {
  const length = Buffer.byteLength(text)
  const head = [...headers, 'Content-Type', type, 'Content-Length', String(length)]
  // The phrase too: one that the upstream's answer left behind would be written otherwise.
  response.writeHead(status, STATUS_CODES[status] ?? '', head)
  // As text it leaves in one piece with the head, and as Latin-1, where it is no more than that,
  // without being encoded.
  response.end(text, length === text.length ? 'latin1' : 'utf8')
}
