/** Limits requests in the form `(request, response, next)`, which `/node` and `/express` share. */
import { asError } from './as-error.js'
import { withExposed } from './exposed-headers.js'
import type { Awaitable, MiddlewareOptions } from './middleware-options.js'
import {
  endRefusal,
  NodeLimitedRequest,
  type NodeRequest,
  type NodeResponse,
  setHeaders,
  settleOnClose,
  startRefusal,
} from './node-exchange.js'
import { type Admission, RequestLimiter } from './request-limiter.js'

/** Goes on with a request, or with an error. */
export type Next = (error?: unknown) => void

export class NodeMiddleware<Request extends NodeRequest, Response extends NodeResponse> {
  readonly requests: RequestLimiter<Request, Response>
  readonly #onRefused: MiddlewareOptions<Request, Response>['onRefused']

  constructor(options: MiddlewareOptions<Request, Response>) {
    this.requests = new RequestLimiter<Request, Response>(options, { isSocketKnown: true })
    this.#onRefused = options.onRefused
  }

  /**
   * Calls `next` with the request or an error, or answers the request. Throws only what `next`
   * does: errors of the handler are not those of the middleware.
   */
  handle(request: Request, response: Response, target: string, next: Next): void {
    const fail = (error: unknown) => next(asError(error))
    let admitting: Awaitable<Admission>
    try {
      admitting = this.requests.admit(new NodeLimitedRequest(request, request, target, response))
    } catch (error) {
      return fail(error)
    }
    if (!(admitting instanceof Promise)) return this.finish(admitting, request, response, next)
    void admitting.then((admission) => this.finish(admission, request, response, next), fail)
  }

  private finish(admission: Admission, request: Request, response: Response, next: Next): void {
    if (admission.kind === 'abandoned') return
    const { decision } = admission
    if (decision !== undefined) request.sluice = decision
    if (admission.kind === 'refused') return this.refuse(admission, request, response, next)
    settleOnClose(this.requests, admission, request, response, response)
    setHeaders(response, withExposed(admission.headers, request.headers.origin, response))
    next()
  }

  private refuse(
    refused: Extract<Admission, { kind: 'refused' }>,
    request: Request,
    response: Response,
    next: Next,
  ): void {
    const { decision } = refused
    // Another part of the program answers already.
    if (response.headersSent) return
    const { headers, status } = refused.response
    const exposed = withExposed(headers, request.headers.origin, response)
    startRefusal(response, { status, headers: exposed })
    if (this.#onRefused === undefined || decision === undefined) {
      return endRefusal(response, refused.response)
    }
    try {
      Promise.resolve(this.#onRefused(request, response, decision)).catch((error: unknown) =>
        next(asError(error)),
      )
    } catch (error) {
      next(asError(error))
    }
  }
}
