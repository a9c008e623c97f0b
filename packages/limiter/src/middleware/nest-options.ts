/** The options of the Nest module, and what its decorators set. */
import type { ExecutionContext, InjectionToken, ModuleMetadata, Type } from '@nestjs/common'
import { SetMetadata } from '@nestjs/common'
import type { RequestDecision } from './middleware-options.js'
import { requireRouteLimit, type RoutedOptions, type RouteLimit } from './routed-call.js'

/** A request of Express or Fastify, or the client of a WebSocket. */
export interface NestRequest {
  readonly headers?: Readonly<Record<string, string | string[] | undefined>>
  /** The decision about this request. */
  sluice?: RequestDecision | undefined
}

/**
 * `Request` and `Response` are those of the platform. Functions get the `ExecutionContext` as
 * their last argument; over WebSockets the request is the client, and there is no response.
 */
export type NestOptions<Request = NestRequest, Response = unknown> = RoutedOptions<
  Request,
  Response,
  ExecutionContext
>

/** Creates the options of `SluiceModule.forRootAsync({ useClass })`. */
export interface SluiceOptionsFactory<Request = NestRequest, Response = unknown> {
  createSluiceOptions(): NestOptions<Request, Response> | Promise<NestOptions<Request, Response>>
}

/** Where `SluiceModule.forRootAsync` gets its options: one of the three `use` fields. */
export interface NestAsyncOptions<Request = NestRequest, Response = unknown>
  extends Pick<ModuleMetadata, 'imports'> {
  readonly inject?: InjectionToken[] | undefined
  readonly useFactory?:
    | ((
        // Whatever `inject` names: Nest has no types for it either.
        ...args: never[]
      ) => NestOptions<Request, Response> | Promise<NestOptions<Request, Response>>)
    | undefined
  readonly useClass?: Type<SluiceOptionsFactory<Request, Response>> | undefined
  readonly useExisting?: InjectionToken<SluiceOptionsFactory<Request, Response>> | undefined
}

/** What `@Limit()` accepts. */
export type NestRouteLimit<Request = NestRequest, Response = unknown> = RouteLimit<
  Request,
  Response,
  ExecutionContext
>

export const LIMIT_KEY = 'sluice:limit'
export const SKIP_KEY = 'sluice:skip'

/**
 * Changes how the calls of a handler, or of all handlers of a class, are limited. What a handler
 * sets replaces what its class sets; attributes of both apply.
 *
 * @example
 * @Limit({ cost: 5, attributes: { endpoint: 'export' } })
 *
 * @throws SluiceError if a value is invalid
 */
export function Limit<Request = NestRequest, Response = unknown>(
  limit: NestRouteLimit<Request, Response>,
): ClassDecorator & MethodDecorator {
  requireRouteLimit(limit, '@Limit()')
  return SetMetadata(LIMIT_KEY, limit)
}

/** Does not limit a handler or a class; `@SkipLimit(false)` limits a handler of such a class. */
export function SkipLimit(skip = true): ClassDecorator & MethodDecorator {
  return SetMetadata(SKIP_KEY, skip)
}
