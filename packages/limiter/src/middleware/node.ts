/** `@sluice/limiter/node`: limits the requests of a plain `node:http` server. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { MiddlewareOptions, RequestDecision } from './middleware-options.js'
import { type MiddlewareHandle, withHandle } from './middleware-handle.js'
import { NodeMiddleware } from './node-middleware.js'
import { endRefusal } from './node-exchange.js'
import { failureResponse } from './request-limiter.js'

export { type LoopLoad, loopLoad } from '../shed/loop-load.js'

/** A request of `node:http`, with the decision about it. */
export type NodeHttpRequest = IncomingMessage & { sluice?: RequestDecision | undefined }

export type NodeOptions = MiddlewareOptions<NodeHttpRequest, ServerResponse>

type NodeHandler = (request: NodeHttpRequest, response: ServerResponse) => unknown

export interface NodeWrapper extends MiddlewareHandle {
  /** Returns a handler that calls this one with admitted requests only. */
  (handler: NodeHandler): (request: IncomingMessage, response: ServerResponse) => void
}

/**
 * Creates a wrapper for handlers of `node:http`. The decision is in `request.sluice`.
 *
 * @example
 * const limited = sluice({ rules: [{ id: 'per-ip', by: ['ip'], limits: ['10/second'] }] })
 * createServer(limited((request, response) => response.end('hello'))).listen(3000)
 *
 * @throws RulesError if a rule is invalid; SluiceError if an option is
 */
export function sluice(options: NodeOptions): NodeWrapper {
  const middleware = new NodeMiddleware<NodeHttpRequest, ServerResponse>(options)
  const wrap = (handler: NodeHandler) => (request: NodeHttpRequest, response: ServerResponse) =>
    middleware.handle(request, response, request.url ?? '', (error) => {
      if (error === undefined) return void handler(request, response)
      fail(middleware, error, response)
    })
  return withHandle(wrap, middleware.requests)
}

/** A function of the user failed, and there is no framework that would answer. */
function fail(
  { requests }: NodeMiddleware<NodeHttpRequest, ServerResponse>,
  error: unknown,
  response: ServerResponse,
): void {
  requests.logError('request failed', error)
  if (response.headersSent) return void response.destroy()
  const failure = failureResponse()
  response.statusCode = failure.status
  endRefusal(response, failure)
}
