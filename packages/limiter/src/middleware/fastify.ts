/** `@sluice/limiter/fastify`: a plugin for Fastify 5. */
import type {
  FastifyInstance,
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
  HookHandlerDoneFunction,
} from 'fastify'
import { asError } from './as-error.js'
import { withExposed } from './exposed-headers.js'
import { sendProblem, setReplyHeaders } from './fastify-reply.js'
import type { MiddlewareHandle } from './middleware-handle.js'
import type { Awaitable, MiddlewareOptions, RequestDecision } from './middleware-options.js'
import { settleOnClose } from './node-exchange.js'
import { type Admission, type RefusedRequest, RequestLimiter } from './request-limiter.js'
import {
  bindRoutes,
  invalid,
  requireRouteLimit,
  RoutedCall,
  type RouteLimit,
} from './routed-call.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** The decision of Sluice about this request. */
    sluice?: RequestDecision | undefined
  }
  interface FastifyInstance {
    /** The limiter of the plugin `sluice`. */
    sluice: MiddlewareHandle
  }
  interface FastifyContextConfig {
    /** What a route changes of the plugin `sluice`; `false`: it is not limited. */
    sluice?: false | FastifyRouteLimit | undefined
  }
}

/** When a request is decided: before its body is read, or after it was parsed or validated. */
export type FastifyHook = 'onRequest' | 'preValidation' | 'preHandler'

export interface FastifyOptions
  extends MiddlewareOptions<FastifyRequest, FastifyReply, unknown, unknown> {
  /** Choose `preHandler` if attributes come from an authentication hook. @default 'onRequest' */
  readonly hook?: FastifyHook | undefined
}

/** The value of `config.sluice` of a route. */
export interface FastifyRouteLimit extends RouteLimit<FastifyRequest, FastifyReply> {
  /** @default as in the options of the plugin */
  readonly hook?: FastifyHook | undefined
}

const HOOKS: readonly FastifyHook[] = ['onRequest', 'preValidation', 'preHandler']

/** A route, with what it changes. */
interface RoutePlan {
  readonly hook: FastifyHook
  /** Undefined if the route is not limited. */
  readonly limit: FastifyRouteLimit | undefined
  /** Undefined for the 404 handler. */
  readonly route: string | undefined
}

type RouteConfig = FastifyRequest['routeOptions']['config']

const UNCHANGED: FastifyRouteLimit = {}

/** Marks a request that was decided, or is not limited. */
const FINISHED = Symbol('finished')

class FastifyLimiter {
  readonly requests: RequestLimiter<RoutedCall<FastifyRequest, FastifyReply>, FastifyReply, unknown>
  readonly #options: FastifyOptions
  readonly #plans = new WeakMap<RouteConfig, RoutePlan>()

  constructor(options: FastifyOptions) {
    const { hook } = options
    if (hook !== undefined && !HOOKS.includes(hook)) throw invalid('hook', hook, HOOKS.join(', '))
    this.#options = options
    this.requests = new RequestLimiter(bindRoutes<FastifyRequest, FastifyReply, unknown>(options), {
      isSocketKnown: true,
    })
  }

  planOf({ routeOptions: { config, url } }: FastifyRequest): RoutePlan {
    const known = this.#plans.get(config)
    if (known !== undefined) return known
    const { sluice: limit = UNCHANGED, method } = config
    const plan: RoutePlan = {
      hook: (limit === false ? undefined : limit.hook) ?? this.#options.hook ?? 'onRequest',
      limit: limit === false ? undefined : limit,
      route: url === undefined ? undefined : routeName(method, url),
    }
    this.#plans.set(config, plan)
    return plan
  }

  /**
   * Calls `done` with an error or nothing, or answers the request. Throws only what `done` does:
   * errors of the handler are not those of the plugin.
   */
  handle(
    plan: RoutePlan,
    request: FastifyRequest,
    reply: FastifyReply,
    done: HookHandlerDoneFunction,
  ): void {
    const call = this.describe(plan, request, reply)
    const fail = (error: unknown) => done(asError(error) as Error)
    let admitting: Awaitable<Admission>
    try {
      admitting = this.requests.admit(call)
    } catch (error) {
      return fail(error)
    }
    if (!(admitting instanceof Promise)) return this.finish(admitting, call, done)
    void admitting.then((admission) => this.finish(admission, call, done), fail)
  }

  private describe(
    { limit, route }: RoutePlan,
    request: FastifyRequest,
    reply: FastifyReply,
  ): RoutedCall<FastifyRequest, FastifyReply> {
    const { raw } = request
    return new RoutedCall<FastifyRequest, FastifyReply>({
      source: request,
      response: reply,
      context: undefined,
      raw,
      rawRequest: raw,
      method: request.method,
      target: request.originalUrl,
      client: reply.raw,
      limit,
      route: this.requests.definesRoutes ? undefined : route,
    })
  }

  private finish(
    admission: Admission,
    call: RoutedCall<FastifyRequest, FastifyReply>,
    done: HookHandlerDoneFunction,
  ): void {
    if (admission.kind === 'abandoned') return
    const { source: request, response: reply } = call
    const { decision } = admission
    if (decision !== undefined) request.sluice = decision
    if (admission.kind === 'admitted') {
      settleOnClose(this.requests, admission, call, reply, reply.raw)
      setReplyHeaders(reply, withExposed(admission.headers, request.headers.origin, reply))
      return done()
    }
    // Another part of the program answers already.
    if (reply.sent) return
    this.refuse(admission, call).catch((error: unknown) => done(asError(error) as Error))
  }

  private async refuse(
    { response, decision }: RefusedRequest,
    { source: request, response: reply, limit }: RoutedCall<FastifyRequest, FastifyReply>,
  ): Promise<void> {
    const headers = withExposed(response.headers, request.headers.origin, reply)
    setReplyHeaders(reply.code(response.status), headers)
    const onRefused = limit?.onRefused ?? this.#options.onRefused
    if (onRefused === undefined || decision === undefined) return sendProblem(reply, response)
    // A reply that is returned is a promise of its end, without a value.
    const answer = await onRefused(request, reply, decision)
    if (answer !== undefined && !reply.sent) reply.send(answer)
  }
}

/** As `routes` of a rule set name one: GET also has HEAD, and many methods have none. */
function routeName(method: string | string[], url: string): string {
  const methods = new Set([method].flat().map((name) => (name === 'HEAD' ? 'GET' : name)))
  return methods.size === 1 ? `${[...methods][0]} ${url}` : url
}

function requireRouteConfig(limit: unknown, place: string): void {
  if (limit === undefined || limit === false) return
  requireRouteLimit(limit, place)
  const { hook } = limit as FastifyRouteLimit
  if (hook !== undefined && !HOOKS.includes(hook)) {
    throw invalid(`${place}.hook`, hook, HOOKS.join(', '))
  }
}

async function plugin(fastify: FastifyInstance, options: FastifyOptions): Promise<void> {
  const limiter = new FastifyLimiter(options)
  const { requests } = limiter
  // One for each registration: several may decide the same request, by different rules.
  const pending = Symbol('sluice plan')
  type Pending = FastifyRequest & { [pending]?: RoutePlan | typeof FINISHED }

  if (!fastify.hasRequestDecorator('sluice')) fastify.decorateRequest('sluice', undefined)
  fastify.decorateRequest(pending as never, undefined as never)
  if (!Object.hasOwn(fastify, 'sluice')) {
    fastify.decorate('sluice', { limiter: requests.limiter, close: () => requests.close() })
  }
  fastify.addHook('onClose', () => requests.close())
  fastify.addHook('onRoute', ({ config, method, url }) => {
    requireRouteConfig(config?.sluice, `config.sluice of ${routeName(method, url)}`)
  })
  // Hooks of the instance, not of routes: they also apply to routes that were added before this
  // plugin was loaded, and to the 404 handler.
  for (const hook of HOOKS) {
    // All of them have the same signature, which the types do not know of a union.
    fastify.addHook(hook as 'onRequest', (request: Pending, reply, done) => {
      const plan = request[pending] ?? limiter.planOf(request)
      if (plan === FINISHED) return done()
      if (plan.limit !== undefined && plan.hook !== hook) {
        request[pending] = plan
        return done()
      }
      request[pending] = FINISHED
      if (plan.limit === undefined) return done()
      limiter.handle(plan, request, reply, done)
    })
  }
}

/**
 * The plugin. The decision is in `request.sluice`, and a route may change options by
 * `config.sluice`.
 *
 * @example
 * app.register(sluice, { rules: [{ id: 'per-ip', by: ['ip'], limits: ['10/second'] }] })
 *
 * @throws RulesError if a rule is invalid; SluiceError if an option is
 */
export const sluice: FastifyPluginAsync<FastifyOptions> = Object.assign(plugin, {
  // What fastify-plugin sets: hooks and decorators apply to the scope that registers the plugin.
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: '@sluice/limiter',
  [Symbol.for('plugin-meta')]: { name: '@sluice/limiter', fastify: '5.x' },
})
