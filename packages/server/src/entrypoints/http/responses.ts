/** Responses that Sluice creates itself: problem details, JSON, and refusals. */
import { type ServerResponse, STATUS_CODES } from 'node:http'
import { type Decision, flatRateLimitHeaders, jitterMs, problemBody } from '@sluice/core'

/** Names and values in turn, the form that Node writes without copying. */
export type FlatHeaders = string[]

export interface HttpProblem {
  readonly status: number
  readonly detail: string
  /** The code of docs/reference/errors.md, or another short word that scripts can test. */
  readonly error?: string | undefined
  readonly headers?: FlatHeaders | undefined
}

/** A response with problem details as its body, for whatever protocol carries it. */
export interface HttpResponse {
  readonly status: number
  readonly headers: FlatHeaders
  readonly body: string
}

/** RFC 9457 problem details for everything but a refusal. */
export function problemResponse(problem: HttpProblem): HttpResponse {
  const { status, headers = [] } = problem
  return { status, headers, body: JSON.stringify(problemObject(problem)) }
}

/** The body of a problem, also as an item of a list. */
export function problemObject({ status, detail, error }: HttpProblem): object {
  const title = STATUS_CODES[status] ?? 'Error'
  return { type: 'about:blank', title, status, detail, ...(error && { error }) }
}

export interface RefusalOptions {
  readonly nowMs: number
  readonly postureStatus: 429 | 503
  readonly jitter: boolean
  /** Drawn by the caller, from 0 to 1. */
  readonly fraction: number
}

/** 429 with the headers and the body of a refusal; `statusOf` may choose another status. */
export function refusalResponse(
  decision: Decision,
  { nowMs, postureStatus, jitter, fraction }: RefusalOptions,
  statusOf = (status: number) => status,
): HttpResponse {
  const jittered = jitter ? jitterMs(decision, fraction) : 0
  const problem = problemBody(decision, { jitterMs: jittered, postureStatus })
  const status = statusOf(problem.status)
  const headers = flatHeaders(decision, nowMs, jittered)
  return { status, headers, body: JSON.stringify({ ...problem, status }) }
}

export function sendProblem(response: ServerResponse, problem: HttpProblem): void {
  send(response, problemResponse(problem))
}

export function send(response: ServerResponse, { status, headers, body }: HttpResponse): void {
  writeBody(response, status, PROBLEM_TYPE, body, headers)
}

export function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: FlatHeaders = [],
): void {
  writeBody(response, status, 'application/json', JSON.stringify(body), headers)
}

const PROBLEM_TYPE = 'application/problem+json'

/** The last response of a connection as text, for sockets without a ServerResponse. */
export function responseText({ status, headers, body }: HttpResponse): string {
  const length = String(Buffer.byteLength(body))
  const own = ['Content-Type', PROBLEM_TYPE, 'Content-Length', length, 'Connection', 'close']
  return headText(status, [...headers, ...own]) + body
}

/** Values come from parsed headers and our own code: none contains a line end. */
export function headText(status: number, headers: FlatHeaders): string {
  const lines = [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`]
  for (let i = 0; i < headers.length; i += 2) lines.push(`${headers[i]}: ${headers[i + 1]}`)
  return `${lines.join('\r\n')}\r\n\r\n`
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
  // With the reason phrase, or Node would write one left over from the upstream's response.
  response.writeHead(status, STATUS_CODES[status] ?? '', head)
  // Text is sent in one write with the head; Latin-1 text needs no encoding.
  response.end(text, length === text.length ? 'latin1' : 'utf8')
}
