/** The error responses of the decision API. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type HttpProblem, problemObject } from '../http/responses.js'
import type { Rights } from './api-authorization.js'
import { ARRAY_BYTES_MAX, OBJECT_BYTES_MAX } from './read-body.js'

export const UNAUTHORIZED: HttpProblem = {
  status: 401,
  detail: 'Send the token of the decision API as Authorization: Bearer <token>.',
  error: 'unauthorized',
  headers: ['WWW-Authenticate', 'Bearer'],
}

export const CROSS_SITE: HttpProblem = {
  status: 403,
  detail: 'Web pages may not use the decision API; this request came from one.',
  error: 'cross_site',
}

export const UNSUPPORTED_ENCODING: HttpProblem = {
  status: 415,
  detail: 'Compressed bodies are not supported.',
  error: 'unsupported_encoding',
  headers: ['Accept-Encoding', 'identity'],
}

/** 401 without a token; 403 with the token of the API, which is not enough. */
export function needsAdmin(what: string, rights: Rights): HttpProblem {
  const detail = `${what} needs the admin token.`
  if (rights === 'api') return { status: 403, detail, error: 'forbidden' }
  return { ...UNAUTHORIZED, detail }
}

export const TOO_LARGE: HttpProblem = {
  status: 413,
  detail: `The body exceeds ${OBJECT_BYTES_MAX} bytes, or ${ARRAY_BYTES_MAX} for a list.`,
  error: 'too_large',
}

const DROPPED_BYTES_MAX = 1024 * 1024
const DROPPING_MS_MAX = 2000

/**
 * Responds to a request whose body is not read completely, and closes the connection. Closing at
 * once would reset it, and a client that is still sending might lose the response; so the rest of
 * the body is dropped for a moment first.
 */
export function sendAndClose(
  request: IncomingMessage,
  response: ServerResponse,
  problem: HttpProblem,
): void {
  const body = Buffer.from(JSON.stringify(problemObject(problem)))
  response.writeHead(problem.status, [
    'Content-Type',
    'application/problem+json',
    'Content-Length',
    String(body.length),
    'Connection',
    'close',
  ])
  response.write(body)
  const close = () => {
    clearTimeout(timer)
    response.end()
  }
  const timer = setTimeout(close, DROPPING_MS_MAX)
  let dropped = 0
  request.on('data', (chunk: Buffer) => {
    dropped += chunk.length
    if (dropped > DROPPED_BYTES_MAX) close()
  })
  request.once('end', close)
  request.once('close', close)
}
