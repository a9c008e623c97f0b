/** `@sluice/limiter/express`: a middleware for Express 4 and 5. */
import type { MiddlewareOptions, RequestDecision } from './middleware-options.js'
import { type MiddlewareHandle, withHandle } from './middleware-handle.js'
import { type Next, NodeMiddleware } from './node-middleware.js'
import type { NodeRequest, NodeResponse } from './node-exchange.js'

declare global {
  // The types of Express merge this namespace into their requests, so that `req.sluice` is known.
  namespace Express {
    interface Request {
      /** The decision of Sluice about this request. */
      sluice?: RequestDecision | undefined
    }
  }
}

/** The part of a request of Express that is read. */
export interface ExpressRequest extends NodeRequest {
  /** The request target as it arrived, also below a router. */
  readonly originalUrl: string
  readonly app: { get(setting: string): unknown }
}

export type ExpressOptions<
  Request extends ExpressRequest = ExpressRequest,
  Response extends NodeResponse = NodeResponse,
> = MiddlewareOptions<Request, Response>

export interface ExpressMiddleware<Request, Response> extends MiddlewareHandle {
  (request: Request, response: Response, next: Next): void
}

/**
 * Creates a middleware for Express. The decision is in `req.sluice`.
 *
 * @example
 * app.use(sluice({ rules: [{ id: 'per-ip', by: ['ip'], limits: ['10/second'] }] }))
 *
 * @throws RulesError if a rule is invalid; SluiceError if an option is
 */
export function sluice<
  Request extends ExpressRequest = ExpressRequest,
  Response extends NodeResponse = NodeResponse,
>(options: ExpressOptions<Request, Response>): ExpressMiddleware<Request, Response> {
  const middleware = new NodeMiddleware<Request, Response>(options)
  let isChecked = false
  const limit = (request: Request, response: Response, next: Next): void => {
    if (!isChecked) {
      isChecked = true
      if (request.app.get('trust proxy') === true) {
        middleware.requests.warn('trusts-all-proxies', "Express setting 'trust proxy'")
      }
    }
    middleware.handle(request, response, request.originalUrl, next)
  }
  return withHandle(limit, middleware.requests)
}
