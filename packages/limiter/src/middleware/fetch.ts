/**
 * `@sluice/limiter/fetch`: limits handlers of the Fetch standard: route handlers and `proxy.ts` of
 * Next.js, Workers, Deno and Bun.
 */
import {
  abandonedResponse,
  FetchLimitedRequest,
  responseOf,
  withHeaders,
} from './fetch-exchange.js'
import type { MiddlewareOptions, RequestDecision } from './middleware-options.js'
import { type MiddlewareHandle, withHandle } from './middleware-handle.js'
import { releaseAfter, releaseOnClose } from './release-on-close.js'
import { type AdmittedRequest, type RefusedRequest, RequestLimiter } from './request-limiter.js'

/** `Context` is what the runtime passes after the request: its second argument. */
export type FetchOptions<Context = unknown> = MiddlewareOptions<
  Request,
  Response,
  Response | undefined | void,
  Context
>

/** Serves an admitted request. What the runtime passes after the request follows the decision. */
type FetchHandler<Incoming extends Request, Context extends readonly unknown[]> = (
  request: Incoming,
  decision: RequestDecision | undefined,
  ...context: Context
) => Response | Promise<Response>

/** A request that was decided. */
export interface CheckedRequest {
  /** The answer to a refused request; undefined if the request may go on. */
  readonly response: Response | undefined
  /** Undefined if the request was skipped, or not decided. */
  readonly decision: RequestDecision | undefined
  /**
   * Returns the answer to an admitted request with its headers, and settles what it counts. To be
   * called in any case: until then the request is in flight.
   */
  readonly finish: (response: Response) => Response
}

export interface FetchWrapper extends MiddlewareHandle {
  /** Returns a handler that calls this one with admitted requests only. */
  <Incoming extends Request, Context extends readonly unknown[]>(
    handler: FetchHandler<Incoming, Context>,
  ): (request: Incoming, ...context: Context) => Promise<Response>
  /** Decides a request, for code that has no handler to wrap. */
  check(request: Request, context?: unknown): Promise<CheckedRequest>
}

type FetchRequests = RequestLimiter<Request, Response, Response | undefined | void>

/**
 * Creates a wrapper for Fetch handlers. The decision is the second argument of the handler.
 *
 * @example
 * const limited = sluice({
 *   rules: [{ id: 'per-ip', by: ['ip'], limits: ['10/second'] }],
 *   address: 'cloudflare',
 * })
 * export default { fetch: limited((request, decision) => new Response('hello')) }
 *
 * @throws RulesError if a rule is invalid; SluiceError if an option is
 */
export function sluice<Context = unknown>(options: FetchOptions<Context>): FetchWrapper {
  const requests: FetchRequests = new RequestLimiter(options, {
    isSocketKnown: false,
  })
  const check = async (request: Request, context?: unknown): Promise<CheckedRequest> => {
    const limited = new FetchLimitedRequest(request, request, context)
    const admission = await requests.admit(limited)
    if (admission.kind === 'abandoned') {
      return { response: abandonedResponse(), decision: undefined, finish: same }
    }
    const { decision } = admission
    if (admission.kind === 'refused') {
      return { response: await refuse(options, admission, request), decision, finish: same }
    }
    releaseOnClose(admission, limited.client)
    const finish = (response: Response) =>
      releaseAfter(finishRequest(requests, admission, request, response), admission, request.method)
    return { response: undefined, decision, finish }
  }
  const wrap =
    <Incoming extends Request, Rest extends readonly unknown[]>(
      handler: FetchHandler<Incoming, Rest>,
    ) =>
    async (request: Incoming, ...context: Rest): Promise<Response> => {
      const { response, decision, finish } = await check(request, context[0])
      if (response !== undefined) return response
      try {
        return finish(await handler(request, decision, ...context))
      } catch (error) {
        // The runtime answers with an error.
        finish(new Response(null, { status: 500 }))
        throw error
      }
    }
  return withHandle(Object.assign(wrap, { check }), requests)
}

async function refuse(
  { onRefused }: Pick<FetchOptions, 'onRefused'>,
  refused: RefusedRequest,
  request: Request,
): Promise<Response> {
  const response = responseOf(refused.response, request.headers.get('origin'))
  if (onRefused === undefined || refused.decision === undefined) return response
  return (await onRefused(request, response, refused.decision)) ?? response
}

function finishRequest(
  requests: FetchRequests,
  admitted: AdmittedRequest,
  request: Request,
  response: Response,
): Response {
  requests.settle(admitted, response.status, request, response)
  return withHeaders(response, admitted.headers, request.headers.get('origin'))
}

function same(response: Response): Response {
  return response
}
