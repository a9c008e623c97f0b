/** `@sluice/limiter/hono`: a middleware for Hono 4, on Node and on every Fetch runtime. */
import type { Context, MiddlewareHandler } from 'hono'
import { EXPOSE_HEADERS } from '@sluice/core'
import type { HeldClient } from '../held-calls.js'
import {
  abandonedResponse,
  FetchLimitedRequest,
  responseOf,
  withHeaders,
} from './fetch-exchange.js'
import type { MiddlewareOptions, RequestDecision } from './middleware-options.js'
import { type MiddlewareHandle, withHandle } from './middleware-handle.js'
import { endIfGone, type PeerSocket } from './peer-socket.js'
import { releaseAfter, releaseOnClose } from './release-on-close.js'
import { type RefusedRequest, RequestLimiter } from './request-limiter.js'

declare module 'hono' {
  interface ContextVariableMap {
    /** The decision of Sluice about this request. */
    sluice: RequestDecision | undefined
  }
}

/** `address` gets the context, and what the runtime passes beside the request as `c.env`. */
export type HonoOptions = MiddlewareOptions<Context, Response, Response | undefined | void>

export type HonoMiddleware = MiddlewareHandler & MiddlewareHandle

/** What `@hono/node-server` passes in `c.env`. */
interface NodeBindings {
  readonly incoming?: { readonly socket?: PeerSocket }
  readonly outgoing?: HeldClient | undefined
}

/**
 * Creates a middleware for Hono. The decision is `c.get('sluice')`. The address of the socket is
 * known on `@hono/node-server`, with `address: 'socket'`.
 *
 * @example
 * app.use(sluice({
 *   rules: [{ id: 'per-ip', by: ['ip'], limits: ['10/second'] }],
 *   address: 'socket',
 * }))
 *
 * @throws RulesError if a rule is invalid; SluiceError if an option is
 */
export function sluice(options: HonoOptions): HonoMiddleware {
  const requests = new RequestLimiter<Context, Response, Response | undefined | void>(options, {
    isSocketKnown: options.address === 'socket',
  })
  const limit: MiddlewareHandler = async (context, next) => {
    const limited = new HonoLimitedRequest(context)
    const admitting = requests.admit(limited)
    const admission = admitting instanceof Promise ? await admitting : admitting
    if (admission.kind === 'abandoned') return abandonedResponse()
    const { decision } = admission
    if (decision !== undefined) context.set('sluice', decision)
    if (admission.kind === 'refused') return refuse(options, admission, context)
    releaseOnClose(admission, limited.client)
    try {
      await next()
    } catch (error) {
      admission.release?.()
      throw error
    }
    const { res } = context
    requests.settle(admission, res.status, context, res)
    const headed = withHeaders(res, admission.headers, context.req.header('origin'))
    // The response of Node is closed in any case; elsewhere the body of the answer has an end.
    const sent = limited.isOnNode ? headed : releaseAfter(headed, admission, limited.method)
    if (sent !== res) replaceResponse(context, sent)
    return undefined
  }
  return withHandle(limit, requests)
}

class HonoLimitedRequest extends FetchLimitedRequest<Context> {
  /** Whether `client` is the response of Node's server. */
  readonly isOnNode: boolean

  constructor(context: Context) {
    const { outgoing } = (context.env ?? {}) as NodeBindings
    super(context, context.req.raw, context.env, outgoing)
    this.isOnNode = outgoing !== undefined
  }

  override peer(): string | undefined {
    return this.socket?.remoteAddress
  }

  override endIfGone(): boolean {
    return endIfGone(this.socket)
  }

  override header(name: string): string | undefined {
    return this.request.req.header(name)
  }

  private get socket(): PeerSocket | undefined {
    return (this.context as NodeBindings | undefined)?.incoming?.socket
  }
}

/** Hono copies the headers of a response over those of the one that replaces it. */
function replaceResponse(context: Context, response: Response): void {
  context.res = undefined
  context.res = response
}

async function refuse(
  { onRefused }: HonoOptions,
  refused: RefusedRequest,
  context: Context,
): Promise<Response> {
  const origin = context.req.header('origin')
  // Another middleware may have allowed the origin already.
  const before = origin === undefined ? undefined : context.res.headers
  const response = responseOf(refused.response, origin, before)
  // Hono copies the headers that it has over those of the answer.
  before?.delete(EXPOSE_HEADERS)
  if (onRefused === undefined || refused.decision === undefined) return response
  return (await onRefused(context, response, refused.decision)) ?? response
}
