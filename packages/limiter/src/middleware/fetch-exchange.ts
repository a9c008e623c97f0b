/** Requests and responses of the Fetch standard, for every adapter that ends in them. */
import { type FlatHeaders, type HttpResponse, PROBLEM_TYPE } from '@sluice/core'
import type { HeldClient } from '../held-calls.js'
import { fetchResponse, withExposed } from './exposed-headers.js'
import type { LimitedRequest } from './request-limiter.js'

/** A Fetch request, described for `RequestLimiter`. */
export class FetchLimitedRequest<Wrapped extends object> implements LimitedRequest<Wrapped> {
  readonly request: Wrapped
  readonly raw: Request
  readonly context: unknown
  readonly client: HeldClient

  /** `request` is what functions of the user get: `raw` itself, or the context of a framework. */
  constructor(request: Wrapped, raw: Request, context: unknown, client?: HeldClient) {
    this.request = request
    this.raw = raw
    this.context = context
    this.client = client ?? new SignalClient(raw)
  }

  get method(): string {
    return this.raw.method
  }

  get target(): string {
    return this.raw.url
  }

  peer(): string | undefined {
    return undefined
  }

  endIfGone(): boolean {
    return false
  }

  header(name: string): string | undefined {
    return this.raw.headers.get(name) ?? undefined
  }
}

/** The signal of a request, which some servers make only when it is read. */
class SignalClient implements HeldClient {
  readonly #request: Request
  #signal: AbortSignal | undefined

  constructor(request: Request) {
    this.#request = request
  }

  /** Known only while a call is held. */
  get destroyed(): boolean {
    return this.#signal?.aborted ?? false
  }

  once(_event: 'close', listener: () => void): void {
    this.#signal = this.#request.signal
    // An aborted signal emits no event any more.
    if (this.#signal.aborted) queueMicrotask(listener)
    else this.#signal.addEventListener('abort', listener, { once: true })
  }

  off(_event: 'close', listener: () => void): void {
    this.#signal?.removeEventListener('abort', listener)
  }
}

/** The status with which some servers log that a client left; it is never sent. */
const CLIENT_LEFT = 499

/** A response for a client that is gone. */
export function abandonedResponse(): Response {
  return new Response(null, { status: CLIENT_LEFT })
}

/** `origin` is that of the request; `before` has headers that the answer gets in any case. */
export function responseOf(
  { status, headers, body }: HttpResponse,
  origin: string | null | undefined,
  before?: Headers,
): Response {
  const response = new Response(body, { status, headers: { 'Content-Type': PROBLEM_TYPE } })
  setAll(response.headers, withExposed(headers, origin, fetchResponse(before ?? response.headers)))
  return response
}

/**
 * Returns the response with these headers: itself, or a copy if its headers are immutable.
 * `origin` is that of the request.
 */
export function withHeaders(
  response: Response,
  own: FlatHeaders,
  origin: string | null | undefined,
): Response {
  if (own.length === 0) return response
  const headers = withExposed(own, origin, fetchResponse(response.headers))
  try {
    setAll(response.headers, headers)
    return response
  } catch {
    return copyWith(response, headers)
  }
}

function copyWith(response: Response, headers: FlatHeaders): Response {
  try {
    const copy = new Response(response.body, response)
    setAll(copy.headers, headers)
    return copy
  } catch {
    // Some responses cannot be made anew, such as the switch to a WebSocket.
    return response
  }
}

function setAll(target: Headers, headers: FlatHeaders): void {
  for (let i = 0; i < headers.length; i += 2) target.set(headers[i] ?? '', headers[i + 1] ?? '')
}
