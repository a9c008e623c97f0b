/**
 * Forwards one admitted call to its upstream. Bodies are streamed; only a small body, or the
 * beginning of one when connections are scarce, is read before a connection is taken.
 */
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { PassThrough } from 'node:stream'
import type { Dispatcher } from 'undici'
import { sendProblem, type FlatHeaders } from '../http/responses.js'
import { limitUnreadBody } from '../http/unread-body.js'
import { BUFFERED_BODY_MAX } from './body-memory.js'
import { bodySize, type EarlyBody } from './early-body.js'
import { readEarlyHints, readResponseHead, readTrailers } from './response-headers.js'
import { Upload } from './upload.js'
import { hasConnectionsToSpare, type Target } from './upstreams.js'

export interface ForwardOptions {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly target: Target
  /** The body, if reading it has begun. */
  readonly body?: EarlyBody | undefined
  /** Watches the exchange. */
  readonly tap?: ExchangeTap | undefined
  /** Path and query as the client sent them. */
  readonly path: string
  readonly headers: FlatHeaders
  /** The rate limit headers of the upstream's response. */
  readonly rateLimitHeaders: FlatHeaders
  /** The headers of the gateway's own response, if the upstream sends none. */
  readonly failureHeaders: FlatHeaders
  readonly timeouts: {
    /** The time limit for getting a connection to the upstream. */
    readonly queueMs: number
    /** The time limit from the end of the request until the upstream begins to respond. */
    readonly responseMs: number
    /** How long either side may send nothing of a body, or read nothing of it. */
    readonly stallMs: number
  }
  /** Called once, with the failure if it was the upstream's. */
  readonly onEnd: (failure: UpstreamFailure | undefined) => void
  /** Called if the call ends because its body arrives too slowly. */
  readonly onSlowUpload: () => void
}

/** Watches an exchange as it goes on. It may end the answer, and changes no byte of it. */
export interface ExchangeTap {
  /** The upstream has the whole request. */
  onRequestSent(): void
  /** `raw`: names and values in turn. */
  onHead(status: number, raw: readonly Buffer[]): void
  /** Called before the bytes are passed on; returns where to end the answer, if it is to end. */
  onData(bytes: Buffer): AnswerEnd | undefined
  /** Called once, when nothing more is passed on; with the failure if it was the upstream's. */
  onEnd(failure: UpstreamFailure | undefined): void
}

/** Where and how an answer is ended before its time. The connection is closed then. */
export interface AnswerEnd {
  /** How many of the present bytes are still passed on. */
  readonly bytes: number
  /** The last bytes of the answer; undefined: it breaks off. */
  readonly last: string | undefined
}

export interface UpstreamFailure {
  readonly status: 502 | 503 | 504
  readonly code: string
}

export function forward(call: ForwardOptions): void {
  limitUnreadBody(call.request, call.response)
  new Exchange(call).begin()
}

/** Methods that may be retried if a kept connection turns out to be closed. */
const REPEATABLE: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])
/** A reason phrase that can be written unchanged. */
const PHRASE = /^[\t\x20-\x7e]*$/

/** The handler of one exchange. undici calls its methods in the order of HTTP. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #call: ForwardOptions
  readonly #onClose = () => this.onClientClosed()
  /** What `#timer` waits for: a connection, the upstream to read, the upstream to respond. */
  #phase: 'queued' | 'sending' | 'sent' | 'answered' = 'queued'
  #timer: NodeJS.Timeout | undefined
  #timerMs = 0
  /** Undefined: the request has no body. */
  #upload: Upload | undefined
  /** The part of the body that undici gets: all of it, or a stream. */
  #body: Buffer | PassThrough | null = null
  /** Bytes of memory reserved for the body. */
  #reserved = 0
  /** Whether it counts among the calls of its target, until undici releases it. */
  #isCounted = false
  #abort: ((error?: Error) => void) | undefined
  #stall: NodeJS.Timeout | undefined
  #attempts = 0
  #status = 0
  /** Whether the client no longer waits for a response. */
  #isOver = false

  constructor(call: ForwardOptions) {
    this.#call = call
    // The socket and not the response: a response that waits behind others on its connection gets
    // no close event.
    call.request.socket.once('close', this.#onClose)
  }

  begin(): void {
    const { request, target, timeouts, body } = this.#call
    if (body !== undefined) return this.resume(body)
    const size = bodySize(request)
    if (size === 0) return this.enqueue()
    const { stallMs } = timeouts
    const upload = new Upload(request, { size, stallMs, onSlow: () => this.onSlowUpload() })
    this.#upload = upload
    const bytes = Math.min(size, BUFFERED_BODY_MAX)
    const isStreamed = size > BUFFERED_BODY_MAX && hasConnectionsToSpare(target)
    if (isStreamed || !target.bodyMemory.reserve(bytes)) return this.enqueue(upload.open())
    this.#reserved = bytes
    upload.gather(bytes, (isWhole) => this.enqueue(isWhole ? upload.gathered() : upload.open()))
  }

  /** Goes on with a body that was read before. */
  private resume(body: EarlyBody): void {
    this.#upload = body.upload
    this.#reserved = body.takeReserved()
    body.onSlow = () => this.onSlowUpload()
    this.enqueue(body.outgoing())
  }

  /** Sends the call as soon as there is a connection. */
  private enqueue(body: Buffer | PassThrough | null = null): void {
    const { target } = this.#call
    this.#body = body
    if (target.inFlight >= target.maxInFlight) {
      return this.fail({ status: 503, code: 'UPSTREAM_BUSY' })
    }
    target.inFlight++
    this.#isCounted = true
    this.send()
  }

  private send(): void {
    const { target, request, path, headers, timeouts } = this.#call
    this.#attempts++
    this.wait('queued', timeouts.queueMs)
    target.pool.dispatch(
      {
        path,
        method: request.method ?? 'GET',
        headers,
        body: this.#body,
        // The certificate is checked for the upstream's own name, not for the client's `Host`.
        ...(target.servername !== undefined && { servername: target.servername }),
      },
      this,
    )
  }

  onConnect(abort: (error?: Error) => void): void {
    this.#abort = abort
    if (this.#isOver) return abort(new Error('The call is over'))
    if (this.#body === null || Buffer.isBuffer(this.#body)) return this.requestSent()
    this.wait('sending', this.#call.timeouts.stallMs)
    this.#body.once('end', () => this.requestSent())
    this.#upload?.start()
  }

  onBodySent(): void {
    if (this.#phase !== 'sending') return
    this.#timer?.refresh()
    // The buffered beginning of a stream was its first chunk. A buffer is kept until the call ends.
    this.releaseBytes()
  }

  onHeaders(status: number, raw: Buffer[], resume: () => void, statusText: string): boolean {
    const { request, response, rateLimitHeaders } = this.#call
    if (status < 200) {
      const hints = readEarlyHints(status, raw)
      if (hints !== undefined && request.httpVersion === '1.1') response.writeEarlyHints(hints)
      return true
    }
    this.stopTimer()
    this.#phase = 'answered'
    // Both sides may take turns now; undici times a silent upstream.
    this.#upload?.stopTiming()
    this.#status = status
    this.#call.tap?.onHead(status, raw)
    const { headers, hasDate } = readResponseHead(
      status,
      raw,
      rateLimitHeaders,
      canTrail(request, status),
    )
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
    const { request, response, timeouts, tap } = this.#call
    const end = tap?.onData(chunk)
    if (end !== undefined) return this.endAnswer(chunk, end)
    if (response.write(chunk)) return true
    // undici times nothing while it is paused, so a client that reads nothing would keep its
    // connection to the upstream indefinitely.
    clearTimeout(this.#stall)
    this.#stall = setTimeout(() => request.socket.destroy(), timeouts.stallMs)
    return false
  }

  /** Ends an answer that the upstream would go on with. */
  private endAnswer(chunk: Buffer, { bytes, last }: AnswerEnd): boolean {
    const { request, response } = this.#call
    if (this.#isOver) return true
    this.finish(undefined)
    if (bytes > 0) response.write(chunk.subarray(0, bytes))
    if (last === undefined) request.socket.destroy()
    else response.end(last, () => request.socket.destroySoon())
    this.#abort?.(new Error('The answer was ended'))
    return true
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
    // A 304 declares the length of a body that it does not send, which undici treats as truncated.
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
    const { request, response, failureHeaders } = this.#call
    this.finish(failure)
    // The head is already sent: breaking off is the only way to show that the body is incomplete.
    if (response.headersSent) request.socket.destroy()
    else sendFailure(response, failure, failureHeaders)
  }

  /**
   * undici reports how much was read on a connection: if it had responded before, it was a kept
   * one.
   */
  private maySendAgain(error: Error & { readonly code?: unknown; readonly socket?: unknown }) {
    const { method = '' } = this.#call.request
    if (this.#attempts > 1 || this.#upload !== undefined || !REPEATABLE.has(method)) return false
    const { socket } = error
    const bytesRead =
      typeof socket === 'object' && socket !== null && 'bytesRead' in socket ? socket.bytesRead : 0
    return error.code === 'UND_ERR_SOCKET' && typeof bytesRead === 'number' && bytesRead > 0
  }

  /** Starts or restarts the single timer of this exchange. Usually only its phase changes. */
  private wait(phase: 'queued' | 'sending' | 'sent', ms: number): void {
    this.#phase = phase
    if (this.#timer !== undefined && this.#timerMs === ms) return void this.#timer.refresh()
    clearTimeout(this.#timer)
    this.#timerMs = ms
    this.#timer = setTimeout(() => this.expire(), ms)
  }

  private stopTimer(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  /** The upstream has the whole request: the response timeout starts. */
  private requestSent(): void {
    this.#call.tap?.onRequestSent()
    if (this.#isOver || this.#phase === 'answered') return
    this.wait('sent', this.#call.timeouts.responseMs)
  }

  private expire(): void {
    if (this.#phase === 'queued') this.fail({ status: 503, code: 'QUEUE_TIMEOUT' })
    else if (this.#phase === 'sent') this.fail({ status: 504, code: 'RESPONSE_TIMEOUT' })
    // The client is timed elsewhere.
    else if (this.#upload?.isClientAwaited() === true) return void this.#timer?.refresh()
    else this.fail({ status: 504, code: 'UPLOAD_STALLED' })
    this.#abort?.(new Error('The upstream is late'))
  }

  private onSlowUpload(): void {
    if (this.#isOver) return
    const { response, failureHeaders, onSlowUpload } = this.#call
    this.finish(undefined)
    onSlowUpload()
    sendSlowUpload(response, failureHeaders)
    this.#abort?.(new Error('The body came too slowly'))
  }

  /** The client disconnected: aborts the upstream request. */
  private onClientClosed(): void {
    if (this.#isOver) return
    this.finish(undefined)
    this.#abort?.(new Error('The client went away'))
  }

  private finish(failure: UpstreamFailure | undefined): void {
    const { request, onEnd } = this.#call
    this.#isOver = true
    this.stopTimer()
    clearTimeout(this.#stall)
    request.socket.off('close', this.#onClose)
    this.#upload?.stop()
    if (!this.#isCounted) this.releaseBytes()
    this.#call.tap?.onEnd(failure)
    onEnd(failure)
  }

  /** Only undici knows when a call has left its queue. */
  private release(): void {
    this.#call.target.inFlight--
    this.releaseBytes()
  }

  private releaseBytes(): void {
    this.#call.target.bodyMemory.release(this.#reserved)
    this.#reserved = 0
  }
}

/** Answers a call whose body came too slowly. */
export function sendSlowUpload(response: ServerResponse, headers: FlatHeaders): void {
  sendProblem(response, {
    status: 408,
    detail: 'The request body came too slowly.',
    error: 'upload_too_slow',
    // The rest of the body may still arrive, and must not be parsed as the next request.
    headers: [...headers, 'Connection', 'close'],
  })
}

/** Only a chunked response can have trailers; Node throws if another announces them. */
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

function sendFailure(
  response: ServerResponse,
  { status }: UpstreamFailure,
  failureHeaders: FlatHeaders,
): void {
  // A call that was never sent may be retried, whatever its method.
  const headers = status === 503 ? ['Retry-After', '1', ...failureHeaders] : failureHeaders
  sendProblem(response, { status, detail: DETAILS[status], error: 'upstream_failed', headers })
}
