/**
 * Calls of frameworks that know the route of a request, Fastify and Nest: a route may change some
 * options of its middleware, and its pattern is an attribute of the call.
 */
import { type Attributes, type Decision, isCount, show, SluiceError } from '@sluice/core'
import type { HeldClient } from '../held-calls.js'
import type { Awaitable, MiddlewareOptions } from './middleware-options.js'
import { endIfGone, type PeerSocket } from './peer-socket.js'
import { requireMiddlewareOptions } from './read-options.js'
import { chain, type LimitedRequest } from './request-limiter.js'

/** What a route changes. `Context` is what functions get beside the request. */
export interface RouteLimit<Request, Response, Context = unknown> {
  /** Attributes of the calls of this route, beside those of the middleware. */
  readonly attributes?:
    | Attributes
    | ((request: Request, context: Context) => Awaitable<Attributes | undefined>)
    | undefined
  /** How much a call of this route takes. @default as in the options of the middleware */
  readonly cost?:
    | number
    | ((request: Request, context: Context) => Awaitable<number | undefined>)
    | undefined
  /** Whether a call of this route is not limited; that of the middleware decides first. */
  readonly skip?: ((request: Request, context: Context) => Awaitable<boolean>) | undefined
  /** Answers a refused call of this route. @default as in the options of the middleware */
  readonly onRefused?:
    | ((request: Request, response: Response, decision: Decision) => unknown)
    | undefined
}

/** The options of a middleware whose functions get a context beside the request. */
export interface RoutedOptions<Request, Response, Context = unknown>
  extends Omit<
    MiddlewareOptions<Request, Response, unknown, Context>,
    'attributes' | 'cost' | 'skip'
  > {
  /** Adds attributes to a call, or replaces them: `user`, `plan`, `ip` … */
  readonly attributes?:
    | ((request: Request, context: Context) => Awaitable<Attributes | undefined>)
    | undefined
  /** How much a call takes. @default 1 */
  readonly cost?:
    | ((request: Request, context: Context) => Awaitable<number | undefined>)
    | undefined
  /** Whether a call is not limited at all. */
  readonly skip?: ((request: Request, context: Context) => Awaitable<boolean>) | undefined
}

/** The part of a request of Node that is read; that of a WebSocket is its upgrade. */
export interface RawRequest {
  readonly headers?: Readonly<Record<string, string | string[] | undefined>> | undefined
  readonly socket?: PeerSocket | null | undefined
}

/** What is described of a call: its fields, without what is read of them. */
type RoutedCallFields<Request, Response, Context> = Omit<
  RoutedCall<Request, Response, Context>,
  'request' | 'peer' | 'endIfGone' | 'header'
>

/** One call with its route, described for `RequestLimiter`. */
export class RoutedCall<Request, Response, Context = unknown>
  implements LimitedRequest<RoutedCall<Request, Response, Context>>
{
  /** The request of the framework, which functions of the user get. */
  readonly source: Request
  readonly response: Response
  readonly context: Context
  /** What a second middleware would get too, to notice that both count. */
  readonly raw: object
  readonly rawRequest: RawRequest
  readonly method: string
  readonly target: string
  readonly client: HeldClient | undefined
  readonly limit: RouteLimit<Request, Response, Context> | undefined
  /** The pattern of the route, if the adapter names it. */
  readonly route: string | undefined

  constructor(fields: RoutedCallFields<Request, Response, Context>) {
    this.source = fields.source
    this.response = fields.response
    this.context = fields.context
    this.raw = fields.raw
    this.rawRequest = fields.rawRequest
    this.method = fields.method
    this.target = fields.target
    this.client = fields.client
    this.limit = fields.limit
    this.route = fields.route
  }

  get request(): this {
    return this
  }

  peer(): string | undefined {
    return this.rawRequest.socket?.remoteAddress
  }

  endIfGone(): boolean {
    return endIfGone(this.rawRequest.socket)
  }

  header(name: string): string | undefined {
    const value = this.rawRequest.headers?.[name]
    return typeof value === 'object' ? value.join(', ') : value
  }
}

/**
 * The options for `RequestLimiter`, whose functions find what the route of a call changes.
 * `onRefused` is up to the adapter.
 *
 * @throws SluiceError if an option is invalid
 */
export function bindRoutes<Request, Response, Context>(
  options: RoutedOptions<Request, Response, Context>,
): MiddlewareOptions<RoutedCall<Request, Response, Context>, Response, unknown, never> {
  type AnyCall = RoutedCall<Request, Response, Context>
  // First, because the functions below hide those of the user.
  requireMiddlewareOptions(options as MiddlewareOptions<never, never, unknown, never>)
  const { attributes, cost, skip, count, onDecision, address } = options
  return {
    ...options,
    attributes: ({ limit, source, context }: AnyCall) => {
      const own = limit?.attributes
      if (own === undefined) return attributes?.(source, context)
      return chain(attributes?.(source, context), (general) =>
        chain(typeof own === 'function' ? own(source, context) : own, (special) => ({
          ...general,
          ...special,
        })),
      )
    },
    cost: ({ limit, source, context }: AnyCall) => {
      const own = limit?.cost ?? cost
      return typeof own === 'function' ? own(source, context) : own
    },
    skip: ({ limit, source, context }: AnyCall) =>
      chain(skip?.(source, context) ?? false, (isSkipped) => {
        return isSkipped || (limit?.skip?.(source, context) ?? false)
      }),
    count: typeof count === 'function' ? (call, response) => count(call.source, response) : count,
    onRefused: undefined,
    onDecision: onDecision && ((decision, { source }) => onDecision(decision, source)),
    address:
      typeof address === 'function' ? ({ source, context }) => address(source, context) : address,
  }
}

const FUNCTIONS = ['skip', 'onRefused'] as const

/** Throws OPTION_INVALID if what a route changes is invalid. `place` says which route it is. */
export function requireRouteLimit(limit: unknown, place: string): void {
  if (typeof limit !== 'object' || limit === null || Array.isArray(limit)) {
    throw invalid(place, limit, '{ attributes, cost, skip, onRefused }')
  }
  const { attributes, cost } = limit as RouteLimit<never, never, never>
  if (!['object', 'function', 'undefined'].includes(typeof attributes) || attributes === null) {
    throw invalid(`${place}.attributes`, attributes, 'an object, or a function that returns one')
  }
  if (cost !== undefined && typeof cost !== 'function' && !isCount(cost)) {
    throw invalid(`${place}.cost`, cost, 'a whole number from 0, or a function')
  }
  for (const name of FUNCTIONS) {
    const value = (limit as Readonly<Record<string, unknown>>)[name]
    if (value !== undefined && typeof value !== 'function') {
      throw invalid(`${place}.${name}`, value, 'a function')
    }
  }
}

export function invalid(place: string, found: unknown, accepted: string): SluiceError {
  return new SluiceError('OPTION_INVALID', `${place}: found ${show(found)}; accepted: ${accepted}`)
}
