/** `@sluice/limiter/koa`: a middleware for Koa 3. */
import { PROBLEM_TYPE } from '@sluice/core'
import type { FlatHeaders } from '@sluice/core'
import { asError } from './as-error.js'
import { withExposed } from './exposed-headers.js'
import type { MiddlewareOptions, RequestDecision } from './middleware-options.js'
import { type MiddlewareHandle, withHandle } from './middleware-handle.js'
import {
  NodeLimitedRequest,
  type NodeRequest,
  type NodeResponse,
  settleOnClose,
} from './node-exchange.js'
import { type Admission, type RefusedRequest, RequestLimiter } from './request-limiter.js'

/** The part of `ctx.response` that is used. */
export interface KoaResponse {
  status: number
  body: unknown
  set(name: string, value: string): void
}

/** The part of a context of Koa that is used. */
export interface KoaContext {
  readonly req: NodeRequest
  readonly res: NodeResponse
  readonly response: KoaResponse
  readonly originalUrl: string
  readonly app: { readonly proxy?: boolean }
  readonly state: object
}

/** The state of a request, for `new Koa<SluiceState>()`. */
export interface SluiceState {
  /** The decision of Sluice about this request. */
  sluice?: RequestDecision | undefined
}

export type KoaOptions<Context extends KoaContext = KoaContext> = MiddlewareOptions<
  Context,
  KoaResponse
>

export interface KoaMiddleware<Context> extends MiddlewareHandle {
  (context: Context, next: () => Promise<unknown>): Promise<void>
}

/**
 * Creates a middleware for Koa. The decision is in `ctx.state.sluice`.
 *
 * @example
 * app.use(sluice({ rules: [{ id: 'per-ip', by: ['ip'], limits: ['10/second'] }] }))
 *
 * @throws RulesError if a rule is invalid; SluiceError if an option is
 */
export function sluice<Context extends KoaContext = KoaContext>(
  options: KoaOptions<Context>,
): KoaMiddleware<Context> {
  const requests = new RequestLimiter<Context, KoaResponse>(options, { isSocketKnown: true })
  const limit = async (context: Context, next: () => Promise<unknown>): Promise<void> => {
    if (context.app.proxy === true) requests.warn('trusts-all-proxies', 'app.proxy of Koa')
    const { req, res, originalUrl, response, state } = context
    let admission: Admission
    try {
      const admitting = requests.admit(new NodeLimitedRequest(context, req, originalUrl, res))
      admission = admitting instanceof Promise ? await admitting : admitting
    } catch (error) {
      // Koa does not answer at all if what was thrown is undefined.
      throw asError(error)
    }
    if (admission.kind === 'abandoned') return
    const { decision } = admission
    if (decision !== undefined) (state as SluiceState).sluice = decision
    if (admission.kind === 'refused') return refuse(options, admission, context)
    settleOnClose(requests, admission, context, response, res)
    const headers = withExposed(admission.headers, req.headers['origin'], res)
    setHeaders(response, headers)
    try {
      await next()
    } catch (error) {
      keepHeaders(error, headers, req)
      throw error
    }
  }
  return withHandle(limit, requests)
}

async function refuse<Context extends KoaContext>(
  { onRefused }: KoaOptions<Context>,
  { response: refusal, decision }: RefusedRequest,
  context: Context,
): Promise<void> {
  const { response, req, res } = context
  response.status = refusal.status
  setHeaders(response, withExposed(refusal.headers, req.headers['origin'], res))
  if (onRefused !== undefined && decision !== undefined) {
    await onRefused(context, response, decision)
    return
  }
  response.set('Content-Type', PROBLEM_TYPE)
  response.body = refusal.body
}

function setHeaders(response: KoaResponse, headers: FlatHeaders): void {
  for (let i = 0; i < headers.length; i += 2) response.set(headers[i] ?? '', headers[i + 1] ?? '')
}

type ErrorHeaders = Record<string, string>

/** The headers that an error got here, and those that it had before. */
interface KeptHeaders {
  readonly req: NodeRequest
  readonly added: ErrorHeaders
  readonly own: ErrorHeaders | undefined
}

const keptHeaders = new WeakMap<Error, KeptHeaders>()

/**
 * Koa drops all headers when it answers an error, except those that the error has. One error may
 * be thrown for several requests: those of another caller are left out.
 */
function keepHeaders(error: unknown, headers: FlatHeaders, req: NodeRequest): void {
  if (!(error instanceof Error) || !Object.isExtensible(error)) return
  const failed: Error & { headers?: ErrorHeaders | undefined } = error
  const kept = keptHeaders.get(error)
  const isOfOther = kept !== undefined && kept.added === failed.headers && kept.req !== req
  const own = isOfOther ? kept.own : failed.headers
  const added: ErrorHeaders = {}
  for (let i = 0; i < headers.length; i += 2) added[headers[i] ?? ''] = headers[i + 1] ?? ''
  Object.assign(added, own)
  failed.headers = added
  // Of two middlewares of one request the first one here is the inner one.
  const before = kept !== undefined && kept.req === req ? kept.own : own
  keptHeaders.set(error, { req, added, own: before })
}
