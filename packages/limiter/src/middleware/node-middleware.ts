/** Limits requests in the form `(request, response, next)`, which `/node` and `/express` share. */
import type { MiddlewareOptions } from './middleware-options.js'
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

  /** Calls `next` with the request or an error, or answers the request; never throws. */
  handle(request: Request, response: Response, target: string, next: Next): void {
    try {
      const limited = new NodeLimitedRequest(request, request, target, response)
      const admitting = this.requests.admit(limited)
      if (!(admitting instanceof Promise)) return this.finish(admitting, request, response, next)
      admitting.then((admission) => this.finish(admission, request, response, next)).catch(next)
    } catch (error) {
      next(error)
    }
  }

  private finish(admission: Admission, request: Request, response: Response, next: Next): void {
    if (admission.kind === 'abandoned') return
    const { decision } = admission
    if (decision !== undefined) request.sluice = decision
    if (admission.kind === 'refused') {
      startRefusal(response, admission.response)
      return this.refuse(admission, request, response, next)
    }
    setHeaders(response, admission.headers)
    settleOnClose(this.requests, admission, request, response, response)
    next()
  }

  private refuse(
    refused: Extract<Admission, { kind: 'refused' }>,
    request: Request,
    response: Response,
    next: Next,
  ): void {
    const { decision } = refused
    if (this.#onRefused === undefined || decision === undefined) {
      return endRefusal(response, refused.response)
    }
    const answered: unknown = this.#onRefused(request, response, decision)
    if (answered instanceof Promise) answered.catch(next)
  }
}
