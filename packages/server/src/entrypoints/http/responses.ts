/** Writes the responses that Sluice creates itself: problem details, JSON, and refusals. */
import { type ServerResponse, STATUS_CODES } from 'node:http'
import {
  type Decision,
  type FlatHeaders,
  flatRateLimitHeaders,
  type HttpResponse,
  PROBLEM_TYPE,
  problemObject as problemDetails,
} from '@sluice/core'

export {
  type FlatHeaders,
  type HttpResponse,
  type RefusalOptions,
  refusalResponse,
} from '@sluice/core'

export interface HttpProblem {
  readonly status: number
  readonly detail: string
  /** The code of docs/reference/errors.md, or another short word that scripts can test. */
  readonly error?: string | undefined
  readonly headers?: FlatHeaders | undefined
}

/** RFC 9457 problem details for everything but a refusal. */
export function problemResponse(problem: HttpProblem): HttpResponse {
  const { status, headers = [] } = problem
  return { status, headers, body: JSON.stringify(problemObject(problem)) }
}

/** The body of a problem, also as an item of a list. */
export function problemObject({ status, detail, error }: HttpProblem): object {
  return problemDetails({ status, title: STATUS_CODES[status] ?? 'Error', detail, error })
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

export interface TextResponse {
  readonly status: number
  readonly contentType: string
  readonly body: string
}

export function sendText(
  response: ServerResponse,
  { status, contentType, body }: TextResponse,
): void {
  writeBody(response, status, contentType, body, [])
}

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
export function flatHeaders(decision: Decision, nowMs: number): FlatHeaders {
  return flatRateLimitHeaders(decision, { nowMs })
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
