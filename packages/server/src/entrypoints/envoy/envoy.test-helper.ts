/** A rate limit service that does as it is told, on a listener of its own, and clients of it. */
import {
  type Client,
  type ChannelOptions,
  type ClientDuplexStream,
  type ClientReadableStream,
  credentials,
  type ChannelCredentials,
  makeGenericClientConstructor,
  Metadata,
  type ServiceError,
} from '@grpc/grpc-js'
import { afterEach, expect } from 'vitest'
import { createMemoryLog, type MemoryLog } from '../../observability/log/memory-log.test-helper.js'
import type { RateLimitRequest, RateLimitResponse } from './rate-limit-messages.js'
import type { GrpcServer, GrpcServerOptions } from './grpc/grpc-server.js'
import { type GrpcServerDeps, openGrpcServer } from './grpc/open-grpc-server.js'
import { unaryMethods } from './grpc/grpc-service.js'
import { HealthService } from './grpc/health.js'
import { officialService } from './protobuf/official-protos.test-helper.js'
import type { RateLimitOptions, RateLimitService } from './rate-limit-service.js'

export const RESPONSE: RateLimitResponse = {
  overallCode: 'ok',
  statuses: [
    {
      code: 'ok',
      currentLimit: { requestsPerUnit: 50, unit: 'second', name: '' },
      limitRemaining: 49,
      resetSeconds: 1,
    },
  ],
  responseHeaders: [],
  requestHeaders: [],
  rawBody: '',
  dynamicMetadata: undefined,
}

/** A request as the official codec takes it. */
export const REQUEST = {
  domain: 'basic',
  descriptors: [{ entries: [{ key: 'key1', value: 'foo' }] }],
  hits_addend: 1,
}

export interface TestService extends RateLimitService {
  readonly requests: RateLimitRequest[]
  readonly options: RateLimitOptions[]
}

/** Answers every request with the result of the function, and records it. */
export function testService(
  answer: (request: RateLimitRequest) => RateLimitResponse | Promise<RateLimitResponse> = () =>
    RESPONSE,
): TestService {
  const requests: RateLimitRequest[] = []
  const recorded: RateLimitOptions[] = []
  return {
    requests,
    options: recorded,
    shouldRateLimit(request, options) {
      requests.push(request)
      recorded.push(options)
      return answer(request)
    },
  }
}

/** Both implementations of HTTP/2 and gRPC: what clients see holds for each. */
export const SERVERS = ['grpc-js', 'own'] as const

export interface TestGrpcOptions extends Partial<Omit<GrpcServerOptions, 'perAddress'>> {
  /** @default grpc-js */
  readonly kind?: GrpcServerDeps['kind']
  readonly service?: RateLimitService
  readonly isReady?: () => boolean
  readonly maxConnectionsPerAddress?: number
  readonly streams?: GrpcServerDeps['streams']
  readonly onAnswered?: GrpcServerDeps['onAnswered']
}

export interface TestGrpc {
  readonly listener: GrpcServer
  readonly port: number
  readonly target: string
  readonly health: HealthService
  readonly memoryLog: MemoryLog
}

/** Expects what will be so soon, however busy the machine is. */
export const eventually = <T>(read: () => T) => expect.poll(read, { timeout: 30_000, interval: 5 })

const closing: (() => void | Promise<void>)[] = []

/** Closes everything that a test started, the last first. */
export function closeAfterEach(): void {
  afterEach(async () => {
    for (const close of closing.splice(0).toReversed()) await close()
  })
}

export function closeAfterTest(close: () => void | Promise<void>): void {
  closing.push(close)
}

export async function startGrpc(options: TestGrpcOptions = {}): Promise<TestGrpc> {
  const { isReady = () => true } = options
  const memoryLog = createMemoryLog()
  const health = new HealthService({ isReady })
  const listener = openTestServer(options, { health, memoryLog })
  closeAfterTest(async () => {
    await listener.stopAccepting()
    listener.destroyAll()
    await listener.closed
  })
  const { port, target } = await listener.start()
  return { listener, port, target, health, memoryLog }
}

/** A server that does not listen yet. */
export function openTestServer(
  options: TestGrpcOptions,
  { health, memoryLog }: Pick<TestGrpc, 'health' | 'memoryLog'>,
): GrpcServer {
  const { kind = 'grpc-js', service = testService(), streams = [], onAnswered } = options
  return openGrpcServer(
    {
      listen: { host: '127.0.0.1', port: 0 },
      tls: undefined,
      maxConnections: 1000,
      log: memoryLog.log,
      ...options,
      perAddress: {
        maxConnections: options.maxConnectionsPerAddress ?? 1000,
        isExempt: () => options.maxConnectionsPerAddress === undefined,
        describe: (address) => address,
      },
    },
    {
      kind,
      unary: unaryMethods({ service, health }),
      streams,
      health,
      errorReporter: { log: (error: unknown) => memoryLog.log.error({}, String(error)) },
      onAnswered,
    },
  )
}

export interface UnaryResult {
  readonly error: ServiceError | undefined
  readonly response: unknown
}

export interface CallOptions {
  readonly deadlineMs?: number
}

/** A client with the official definitions, on a connection of its own. */
export class TestClient {
  readonly #clients = new Map<string, Client>()
  readonly #target: string
  readonly #credentials: ChannelCredentials
  readonly #options: ChannelOptions

  constructor(
    target: string,
    channelCredentials: ChannelCredentials = credentials.createInsecure(),
    options: ChannelOptions = {},
  ) {
    this.#target = target
    this.#credentials = channelCredentials
    this.#options = { 'grpc.use_local_subchannel_pool': 1, ...options }
    closeAfterTest(() => this.close())
  }

  shouldRateLimit(request: object = REQUEST, options: CallOptions = {}): Promise<UnaryResult> {
    return this.unary('envoy.service.ratelimit.v3.RateLimitService', 'ShouldRateLimit', {
      request,
      ...options,
    })
  }

  check(service: string): Promise<UnaryResult> {
    return this.unary('grpc.health.v1.Health', 'Check', { request: { service } })
  }

  watch(service: string): ClientReadableStream<unknown> {
    const { path, ...method } = methodOf('grpc.health.v1.Health', 'Watch')
    const { requestSerialize, responseDeserialize } = method
    return this.client('grpc.health.v1.Health').makeServerStreamRequest(
      path,
      requestSerialize,
      responseDeserialize,
      { service },
    )
  }

  reflect(version: string): ClientDuplexStream<unknown, unknown> {
    return this.stream(`grpc.reflection.${version}.ServerReflection`, 'ServerReflectionInfo')
  }

  stream(service: string, name: string): ClientDuplexStream<unknown, unknown> {
    const { path, requestSerialize, responseDeserialize } = methodOf(service, name)
    return this.client(service).makeBidiStreamRequest(path, requestSerialize, responseDeserialize)
  }

  unary(
    service: string,
    name: string,
    { request, deadlineMs }: { readonly request: object } & CallOptions,
  ): Promise<UnaryResult> {
    const { path, requestSerialize, responseDeserialize } = methodOf(service, name)
    const serialize = Buffer.isBuffer(request) ? (bytes: Buffer) => bytes : requestSerialize
    const options = deadlineMs === undefined ? {} : { deadline: Date.now() + deadlineMs }
    return new Promise((resolve) => {
      this.client(service).makeUnaryRequest(
        path,
        serialize as (value: object) => Buffer,
        responseDeserialize,
        request,
        new Metadata(),
        options,
        (error, response) => resolve({ error: error ?? undefined, response }),
      )
    })
  }

  close(): void {
    for (const client of this.#clients.values()) client.close()
    this.#clients.clear()
  }

  private client(service: string): Client {
    const known = this.#clients.get(service)
    if (known !== undefined) return known
    const GenericClient = makeGenericClientConstructor(officialService(service), service)
    const client = new GenericClient(this.#target, this.#credentials, this.#options)
    this.#clients.set(service, client)
    return client
  }
}

function methodOf(service: string, name: string) {
  const method = officialService(service)[name]
  if (method === undefined) throw new Error(`${service} has no ${name}`)
  return method
}
