/** One admitted call to its upstream and back, as a stream: bodies are never gathered. */
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import { PassThrough } from 'node:stream'
import type { Dispatcher } from 'undici'
import { answerProblem, type FlatHeaders } from '../http/answer.js'
import { limitUnreadBody } from '../http/unread-body.js'
import { readEarlyHints, readResponseHead, readTrailers } from './response-headers.js'
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
  readonly timeouts: {
    /** Until the upstream begins to answer, waiting for a free connection included. */
    readonly responseMs: number
    /** How long a client may take nothing of the answer. */
    readonly stallMs: number
  }
  /** Told once, with the failure if it was the upstream's. */
  readonly onEnd: (failure: UpstreamFailure | undefined) => void
}

export interface UpstreamFailure {
  readonly status: 502 | 503 | 504
  readonly code: string
}

export function forward(call: Forwarded): void {
  const { target, response, own } = call
  limitUnreadBody(call.request, response)
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
/** A reason phrase that can be written as it was read. */
const PHRASE = /^[\t\x20-\x7e]*$/

/** The handler of one exchange. undici calls its methods in the order of HTTP. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #call: Forwarded
  readonly #sendsBody: boolean
  readonly #onClose = () => this.clientLeft()
  readonly #timer: NodeJS.Timeout
  #body: PassThrough | undefined
  #abort: ((error?: Error) => void) | undefined
  #stall: NodeJS.Timeout | undefined
  #attempts = 0
  #status = 0
  /** Nobody waits for an answer any more. */
  #isOver = false

  constructor(call: Forwarded) {
    this.#call = call
    const { headers, socket } = call.request
    const length = headers['content-length']
    this.#sendsBody =
      headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0')
    this.#timer = setTimeout(() => this.late(), call.timeouts.responseMs)
    // The socket's and not the response's: one that waits behind others on its connection is
    // never told that the client has gone.
    socket.once('close', this.#onClose)
  }

  send(): void {
    const { target, request, path, headers } = this.#call
    this.#attempts++
    if (this.#sendsBody) this.#body = bodyOf(request)
    target.pool.dispatch(
      {
        path,
        method: request.method ?? 'GET',
        headers,
        body: this.#body ?? null,
        // The upstream's own name, not the client's `Host`, is what its certificate is for.
        ...(target.servername !== undefined && { servername: target.servername }),
      },
      this,
    )
  }

  onConnect(abort: (error?: Error) => void): void {
    this.#abort = abort
    if (this.#isOver) abort(new Error('The call is over'))
  }

  onHeaders(status: number, raw: Buffer[], resume: () => void, statusText: string): boolean {
    const { request, response, own } = this.#call
    if (status < 200) {
      const hints = readEarlyHints(status, raw)
      if (hints !== undefined && request.httpVersion === '1.1') response.writeEarlyHints(hints)
      return true
    }
    clearTimeout(this.#timer)
    this.#status = status
    const { headers, hasDate } = readResponseHead(status, raw, own, canTrail(request, status))
    if (hasDate) response.sendDate = false
    response.on('drain', () => {
      clearTimeout(this.#stall)
      resume()
    })
    const phrase = PHRASE.test(statusText) ? statusText : (STATUS_CODES[status] ?? '')
    response.writeHead(status, phrase, headers)
    return true
  }

  onData(chunk: Buffer): boolean {
    const { request, response, timeouts } = this.#call
    if (response.write(chunk)) return true
    // undici times nothing while it is held back, so a client that reads nothing would keep its
    // connection to the upstream for as long as it likes.
    clearTimeout(this.#stall)
    this.#stall = setTimeout(() => request.socket.destroy(), timeouts.stallMs)
    return false
  }

  onComplete(raw: string[] | null): void {
    const { response } = this.#call
    if (this.#isOver) return this.release()
    const trailers = readTrailers(raw)
    if (trailers.length > 0) response.addTrailers(trailers)
    response.end()
    this.finish(undefined)
    this.release()
  }

  onError(error: Error): void {
    // A 304 tells the length of what it does not send, which undici takes for a body cut short.
    if (this.#status === 304 && codeOf(error) === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH') {
      return this.onComplete(null)
    }
    const failure = failureOf(error)
    if (!this.#isOver && !this.#call.response.headersSent && this.maySendAgain(error)) {
      return this.send()
    }
    this.release()
    this.fail(failure)
  }

  private fail(failure: UpstreamFailure): void {
    if (this.#isOver) return
    const { request, response, own } = this.#call
    this.finish(failure)
    // The head is out: all that is left is to show that the body is not whole.
    if (response.headersSent) request.socket.destroy()
    else answerFailure(response, failure, own)
  }

  /** undici tells how much was read on a connection: one that answered before was a kept one. */
  private maySendAgain(error: Error & { readonly code?: unknown; readonly socket?: unknown }) {
    const { method = '' } = this.#call.request
    if (this.#attempts > 1 || this.#sendsBody || !REPEATABLE.has(method)) return false
    const { socket } = error
    const bytesRead =
      typeof socket === 'object' && socket !== null && 'bytesRead' in socket ? socket.bytesRead : 0
    return error.code === 'UND_ERR_SOCKET' && typeof bytesRead === 'number' && bytesRead > 0
  }

  /** The upstream has not begun to answer, or the call still waits for a connection to it. */
  private late(): void {
    this.fail({ status: 504, code: 'RESPONSE_TIMEOUT' })
    this.#abort?.(new Error('The upstream is late'))
  }

  /** The client went away: the upstream need not go on. */
  private clientLeft(): void {
    if (this.#isOver) return
    this.finish(undefined)
    this.#abort?.(new Error('The client went away'))
  }

  private finish(failure: UpstreamFailure | undefined): void {
    const { request, onEnd } = this.#call
    this.#isOver = true
    clearTimeout(this.#timer)
    clearTimeout(this.#stall)
    request.socket.off('close', this.#onClose)
    // What is left of the body is dropped, within the bounds of unread ones.
    if (this.#body !== undefined) request.unpipe(this.#body).resume()
    onEnd(failure)
  }

  /** Only undici knows when a call has left its queue, wanted or not. */
  private release(): void {
    this.#call.target.inFlight--
  }
}

/**
 * The body of a request, as undici is given it: what it is given it also destroys, and with the
 * request itself would go the client's connection. Ends as the request does: what was read before
 * the parser found the rest to be no body is not passed on, if it still can be kept back.
 */
function bodyOf(request: IncomingMessage): PassThrough {
  const body = request.pipe(new PassThrough())
  // undici listens only from the moment on at which a connection is free.
  body.on('error', () => {})
  const onClose = () => {
    if (!request.complete) body.destroy(new Error('The request broke off'))
  }
  request.once('close', onClose)
  body.once('close', () => request.off('close', onClose))
  return body
}

/** Only an answer in chunks can have trailers; node throws where another announces them. */
function canTrail({ httpVersion, method }: IncomingMessage, status: number): boolean {
  return httpVersion === '1.1' && method !== 'HEAD' && status !== 204 && status !== 304
}

const TIMEOUTS: ReadonlySet<string> = new Set([
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'UND_ERR_CONNECT_TIMEOUT',
  'ETIMEDOUT',
])

function codeOf(error: Error & { readonly code?: unknown }): string {
  return typeof error.code === 'string' ? error.code : error.name
}

function failureOf(error: Error): UpstreamFailure {
  const code = codeOf(error)
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
