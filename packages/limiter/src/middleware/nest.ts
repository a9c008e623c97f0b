/**
 * `@sluice/limiter/nest`: a module, a guard and decorators for NestJS 11 and 12.
 *
 * Decorators are applied as functions, so that no compiler has to emit metadata.
 */
import {
  type ArgumentsHost,
  type CanActivate,
  Catch,
  type DynamicModule,
  type ExceptionFilter,
  type ExecutionContext,
  HttpException,
  Inject,
  Injectable,
  Module,
  type Provider,
} from '@nestjs/common'
import { APP_FILTER, Reflector } from '@nestjs/core'
import type { Decision, HttpResponse } from '@sluice/core'
import { withExposed } from './exposed-headers.js'
import type { CallLimiter } from './middleware-options.js'
import {
  asResponse,
  describeCall,
  findRequestResponse,
  isAnswered,
  type PlatformResponse,
  rawResponse,
  type RequestResponse,
  respondProblem,
  setPlatformHeaders,
  setStatus,
} from './nest-exchange.js'
import {
  LIMIT_KEY,
  type NestAsyncOptions,
  type NestOptions,
  type NestRequest,
  type NestRouteLimit,
  SKIP_KEY,
  type SluiceOptionsFactory,
} from './nest-options.js'
import { settleOnClose } from './node-exchange.js'
import { type Admission, type RefusedRequest, RequestLimiter } from './request-limiter.js'
import { bindRoutes, invalid, RoutedCall } from './routed-call.js'

export {
  Limit,
  type NestAsyncOptions,
  type NestOptions,
  type NestRequest,
  type NestRouteLimit,
  SkipLimit,
  type SluiceOptionsFactory,
} from './nest-options.js'
export type { RequestResponse } from './nest-exchange.js'

/** The token of the options of `SluiceModule`. */
export const SLUICE_OPTIONS = Symbol('sluice options')

/** A refusal. Its `getResponse()` is the problem that the client gets. */
export class SluiceException extends HttpException {
  /** Undefined if the call was not decided: its path is ambiguous, or the limiter failed. */
  readonly decision: Decision | undefined
  /** The whole response: status, headers and body. */
  readonly refusal: HttpResponse
  /** What an error of GraphQL has beside its message. */
  readonly extensions: { readonly code: string; readonly problem: object }

  constructor({ response, decision }: RefusedRequest) {
    const problem = JSON.parse(response.body) as Readonly<Record<string, unknown>>
    super(problem, response.status)
    // The message is what clients of GraphQL see.
    this.message = String(problem['detail'])
    this.extensions = { code: String(problem['error']).toUpperCase(), problem }
    this.decision = decision
    this.refusal = response
  }
}

/** Answers with problem details, whose content type Nest would replace. */
export class SluiceExceptionFilter implements ExceptionFilter<SluiceException> {
  catch(exception: SluiceException, host: ArgumentsHost): void {
    // GraphQL makes an error of the result of it.
    if (host.getType<string>() !== 'http') throw exception
    const res = asResponse(host.switchToHttp().getResponse<object>())
    if (res !== undefined && !isAnswered(res)) respondProblem(res, exception.refusal)
  }
}
Catch(SluiceException)(SluiceExceptionFilter)

type NestCall = RoutedCall<NestRequest, unknown, ExecutionContext>

/** The limiter of the module, one for all guards. */
export class SluiceService {
  readonly #options: NestOptions
  readonly #requests: RequestLimiter<NestCall, unknown, unknown>

  constructor(options: NestOptions) {
    this.#options = options
    const bound = bindRoutes<NestRequest, unknown, ExecutionContext>(options)
    this.#requests = new RequestLimiter(bound, { isSocketKnown: true })
  }

  /** Decides the calls: for `peek`, `reset` and the like. */
  get limiter(): CallLimiter {
    return this.#requests.limiter
  }

  /** Called when the server is closed: until then calls that are still served are decided. */
  onApplicationShutdown(): Promise<void> {
    return this.#requests.close()
  }

  /** Returns true if a call is admitted; throws, or rejects, if it is refused. */
  activate(
    context: ExecutionContext,
    found: RequestResponse,
    limit: NestRouteLimit | undefined,
  ): boolean | Promise<boolean> {
    const { route, ...shape } = describeCall(context, found)
    const res = asResponse(found.res)
    const call: NestCall = new RoutedCall<NestRequest, unknown, ExecutionContext>({
      ...shape,
      source: found.req,
      response: found.res,
      context,
      client: res && rawResponse(res),
      limit,
      route: this.#requests.definesRoutes ? undefined : route,
    })
    const admitting = this.#requests.admit(call)
    if (!(admitting instanceof Promise)) return this.finish(admitting, call, res)
    return admitting.then((admission) => this.finish(admission, call, res))
  }

  private finish(
    admission: Admission,
    call: NestCall,
    res: PlatformResponse | undefined,
  ): boolean | Promise<boolean> {
    if (admission.kind === 'abandoned') return neverActivated()
    const { decision } = admission
    if (decision !== undefined) call.source.sluice = decision
    if (admission.kind === 'refused') return this.refuse(admission, call, res)
    if (res === undefined) return true
    settleOnClose(this.#requests, admission, call, call.response, rawResponse(res))
    setPlatformHeaders(res, withExposed(admission.headers, call.header('origin'), res))
    return true
  }

  private refuse(
    refused: RefusedRequest,
    call: NestCall,
    res: PlatformResponse | undefined,
  ): Promise<boolean> {
    const { response, decision } = refused
    if (res !== undefined) {
      // Another part of the program answers already.
      if (isAnswered(res)) return neverActivated()
      setStatus(res, response.status)
      setPlatformHeaders(res, withExposed(response.headers, call.header('origin'), res))
    }
    const onRefused = call.limit?.onRefused ?? this.#options.onRefused
    if (onRefused === undefined || decision === undefined) return throwRefusal(refused, call)
    return Promise.resolve(onRefused(call.source, call.response, decision)).then(() =>
      res !== undefined && isAnswered(res) ? neverActivated() : throwRefusal(refused, call),
    )
  }
}

/** There is nothing left to do: the client has left, or has its answer. */
function neverActivated(): Promise<boolean> {
  return new Promise(() => {})
}

async function throwRefusal(refused: RefusedRequest, { context }: NestCall): Promise<never> {
  const exception = new SluiceException(refused)
  if (context.getType<string>() !== 'ws') throw exception
  // Only applications with gateways have this package.
  const { WsException } = await import('@nestjs/websockets')
  throw new WsException(exception.getResponse())
}

/** Limits of a handler, from its decorators and those of its class. */
interface HandlerPlan {
  readonly isSkipped: boolean
  readonly limit: NestRouteLimit | undefined
}

const reflector = new Reflector()

/** Marks a context that was decided, so that a second guard does not count it again. */
const DECIDED = Symbol('sluice decided')

/**
 * Limits calls: provide it as `APP_GUARD`, or name it in `@UseGuards()`, which gateways need.
 * Where both apply to a handler a call counts once.
 */
export class SluiceGuard implements CanActivate {
  readonly #service: SluiceService
  readonly #plans = new WeakMap<object, WeakMap<object, HandlerPlan>>()

  constructor(service: SluiceService) {
    this.#service = service
  }

  canActivate(context: ExecutionContext & { [DECIDED]?: true }): boolean | Promise<boolean> {
    if (context[DECIDED]) return true
    context[DECIDED] = true
    const { isSkipped, limit } = this.planOf(context)
    if (isSkipped) return true
    return this.#service.activate(context, this.getRequestResponse(context), limit)
  }

  /** Finds request and response; override it for contexts of another shape. */
  protected getRequestResponse(context: ExecutionContext): RequestResponse {
    return findRequestResponse(context)
  }

  private planOf(context: ExecutionContext): HandlerPlan {
    const handler = context.getHandler()
    const type = context.getClass()
    const ofHandler = this.#plans.get(handler) ?? new WeakMap<object, HandlerPlan>()
    const known = ofHandler.get(type)
    if (known !== undefined) return known
    const plan: HandlerPlan = {
      isSkipped: reflector.getAllAndOverride<boolean>(SKIP_KEY, [handler, type]) ?? false,
      limit: mergeLimits(
        reflector.get<NestRouteLimit | undefined>(LIMIT_KEY, type),
        reflector.get<NestRouteLimit | undefined>(LIMIT_KEY, handler),
      ),
    }
    this.#plans.set(handler, ofHandler.set(type, plan))
    return plan
  }
}
Injectable()(SluiceGuard)
Inject(SluiceService)(SluiceGuard, undefined, 0)

function mergeLimits(
  ofClass: NestRouteLimit | undefined,
  ofHandler: NestRouteLimit | undefined,
): NestRouteLimit | undefined {
  if (ofClass === undefined || ofHandler === undefined) return ofHandler ?? ofClass
  const [a, b] = [ofClass.attributes, ofHandler.attributes]
  const attributes =
    a === undefined || b === undefined
      ? (b ?? a)
      : async (request: NestRequest, context: ExecutionContext) => ({
          ...(typeof a === 'function' ? await a(request, context) : a),
          ...(typeof b === 'function' ? await b(request, context) : b),
        })
  return { ...ofClass, ...ofHandler, attributes }
}

/** Creates the limiter, and answers refusals. */
export class SluiceModule {
  /**
   * @example
   * SluiceModule.forRoot({ rules: [{ id: 'per-ip', by: ['ip'], limits: ['10/second'] }] })
   */
  static forRoot<Request = NestRequest, Response = unknown>(
    options: NestOptions<Request, Response>,
  ): DynamicModule {
    return describeModule([{ provide: SLUICE_OPTIONS, useValue: options }])
  }

  /** With options that come from other providers, such as a configuration service. */
  static forRootAsync<Request = NestRequest, Response = unknown>(
    options: NestAsyncOptions<Request, Response>,
  ): DynamicModule {
    return { ...describeModule(asyncProviders(options)), imports: options.imports ?? [] }
  }
}
Module({})(SluiceModule)

function describeModule(providers: Provider[]): DynamicModule {
  return {
    module: SluiceModule,
    global: true,
    providers: [
      ...providers,
      {
        provide: SluiceService,
        useFactory: (options: NestOptions) => new SluiceService(options),
        inject: [SLUICE_OPTIONS],
      },
      SluiceGuard,
      { provide: APP_FILTER, useClass: SluiceExceptionFilter },
    ],
    exports: [SluiceService, SluiceGuard],
  }
}

function asyncProviders<Request, Response>(
  options: NestAsyncOptions<Request, Response>,
): Provider[] {
  const { useFactory, useClass, useExisting, inject = [] } = options
  if (useFactory !== undefined) {
    return [{ provide: SLUICE_OPTIONS, useFactory: useFactory as () => NestOptions, inject }]
  }
  const factory = useExisting ?? useClass
  if (factory === undefined) {
    throw invalid('forRootAsync', 'no options', 'useFactory, useClass or useExisting')
  }
  const provider: Provider = {
    provide: SLUICE_OPTIONS,
    useFactory: (created: SluiceOptionsFactory) => created.createSluiceOptions(),
    inject: [factory],
  }
  return useClass === undefined ? [provider] : [provider, useClass]
}
