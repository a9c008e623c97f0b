/** One admitted call to its upstream and back, as a stream: bodies are never gathered. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Dispatcher } from 'undici'
import { answerProblem, type FlatHeaders } from '../http/answer.js'
import { readResponseHead, readTrailers } from './response-headers.js'
import type { Target } from './upstreams.js'

export interface Forwarded {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly target: Target
  /** Path and query as the client sent them. */
  readonly path: string
  readonly headers: FlatHeaders
  /** Rate limit headers of the answer, whoever gives it. */
  readonly own: FlatHeaders
  /** Told once, with the error if it was the upstream that failed. */
  readonly onEnd: (failure: UpstreamFailure | undefined) => void
}

export interface UpstreamFailure {
  readonly status: 502 | 503 | 504
  readonly code: string
}

export function forward(call: Forwarded): void {
  const { target, response, own } = call
  if (target.inFlight >= target.maxInFlight) {
    const failure = { status: 503, code: 'UPSTREAM_BUSY' } as const
    answerFailure(response, failure, ['Retry-After', '1', ...own])
    return call.onEnd(failure)
  }
  target.inFlight++
  new Exchange(call).send()
}

/** Methods that may be sent again when a kept connection turns out to be closed. */
const REPEATABLE: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

/** The handler of one exchange. undici calls its methods in the order of HTTP. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #call: Forwarded
  #abort: ((error?: Error) => void) | undefined
  #sendsBody: boolean
  #attempts = 0
  #isOver = false
  #onClose = () => this.clientLeft()

  constructor(call: Forwarded) {
    this.#call = call
    const { headers } = call.request
    const length = headers['content-length']
    this.#sendsBody =
      headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0')
    call.response.once('close', this.#onClose)
  }

  send(): void {
    const { target, request, path, headers } = this.#call
    this.#attempts++
    target.pool.dispatch(
      {
        path,
        method: request.method ?? 'GET',
        headers,
        body: this.#sendsBody ? request : null,
        // The upstream's own name, not the client's `Host`, is what its certificate is for.
        ...(target.servername !== undefined && { servername: target.servername }),
      },
      this,
    )
  }

  onConnect(abort: (error?: Error) => void): void {
    this.#abort = abort
    if (this.#isOver) abort()
  }

  onHeaders(status: number, raw: Buffer[], resume: () => void, statusText: string): boolean {
    // Informational answers are not the answer.
    if (status < 200) return true
    const { response, own } = this.#call
    const { headers, hasDate } = readResponseHead(status, raw, own)
    if (hasDate) response.sendDate = false
    response.on('drain', resume)
    response.writeHead(status, statusText, headers)
    return true
  }

  onData(chunk: Buffer): boolean {
    return this.#call.response.write(chunk)
  }

  onComplete(raw: string[] | null): void {
    const { response } = this.#call
    const trailers = readTrailers(raw)
    if (trailers.length > 0) response.addTrailers(trailers)
    response.end()
    this.finish(undefined)
  }

  onError(error: Error): void {
    if (this.#isOver) return
    const { response, own, request } = this.#call
    const failure = failureOf(error)
    // The head is out: all that is left is to show that the body is not whole.
    if (response.headersSent) response.destroy()
    else if (this.maySendAgain(failure)) return this.send()
    else answerFailure(response, failure, own)
    if (this.#sendsBody && !request.complete) request.unpipe()
    this.finish(failure)
  }

  private maySendAgain({ code }: UpstreamFailure): boolean {
    const { method = '' } = this.#call.request
    const wasClosed = code === 'UND_ERR_SOCKET' || code === 'ECONNRESET' || code === 'EPIPE'
    return wasClosed && this.#attempts === 1 && !this.#sendsBody && REPEATABLE.has(method)
  }

  /** The client went away: the upstream need not go on. */
  private clientLeft(): void {
    if (this.#isOver) return
    this.finish(undefined)
    this.#abort?.(new Error('The client went away'))
  }

  private finish(failure: UpstreamFailure | undefined): void {
    this.#isOver = true
    this.#call.target.inFlight--
    this.#call.response.off('close', this.#onClose)
    this.#call.onEnd(failure)
  }
}

const TIMEOUTS: ReadonlySet<string> = new Set([
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'UND_ERR_CONNECT_TIMEOUT',
  'ETIMEDOUT',
])

function failureOf(error: Error & { readonly code?: unknown }): UpstreamFailure {
  const code = typeof error.code === 'string' ? error.code : error.name
  return { status: TIMEOUTS.has(code) ? 504 : 502, code }
}

const DETAILS = {
  502: 'The upstream could not be reached or broke off.',
  503: 'Too many calls are waiting for the upstream.',
  504: 'The upstream did not answer in time.',
} as const

function answerFailure(
  response: ServerResponse,
  { status }: UpstreamFailure,
  headers: FlatHeaders,
): void {
  answerProblem(response, { status, detail: DETAILS[status], error: 'upstream_failed', headers })
}
