/**
 * Serves the unary gRPC methods with our own HTTP/2 server, which costs a fraction of Node's and of
 * @grpc/grpc-js. It has no streaming methods: watching the health and reflection are UNIMPLEMENTED.
 */
import type { AddressInfo } from 'node:net'
import {
  createUnaryServer,
  type GrpcStatus,
  GrpcStatusError,
  type UnaryCall,
  type UnaryHandler,
  type UnaryServer,
} from '@sluice/http2-unary'
import { formatListen } from '../../../config/listen.js'
import { monotonicMs } from '../../../lib/wall-clock.js'
import { AddressBounds } from '../../http/address-bounds.js'
import { type Certificates, watchCertificates } from '../../http/certificates.js'
import type { ErrorReporter } from '../../http/error-reporter.js'
import { type ListenerCounts, listenError } from '../../http/http-listener.js'
import { REQUEST_BYTES_MAX } from '../rate-limit-messages.js'
import type { RateLimitOptions } from '../rate-limit-service.js'
import {
  type GrpcServer,
  type GrpcServerOptions,
  HEADER_LIST_BYTES_MAX,
  STREAMS_MAX,
  TIMES,
  TLS_MIN,
} from './grpc-server.js'
import { statusOf, type UnaryMethod } from './grpc-service.js'
import { RefusedConnections } from './refused-connections.js'

export interface UnaryServerDeps {
  readonly unary: readonly UnaryMethod[]
  readonly errorReporter: Pick<ErrorReporter, 'log'>
  /** Called when a unary call was answered, with the number of its status. */
  readonly onAnswered?: ((method: UnaryMethod, status: number) => void) | undefined
}

const OK = 0
const UNTIMED: RateLimitOptions = { timeoutMs: undefined }

export class UnaryGrpcServer implements GrpcServer {
  readonly closed: Promise<void>
  readonly #options: GrpcServerOptions
  readonly #addresses: AddressBounds
  readonly #server: UnaryServer
  readonly #refused: RefusedConnections
  readonly #sweeps: NodeJS.Timeout
  #overAddressMax = 0
  #overAddress = ''
  #certificates: Certificates | undefined
  #onClosed: () => void = () => {}

  constructor(options: GrpcServerOptions, deps: UnaryServerDeps) {
    this.#options = options
    this.#addresses = new AddressBounds({ ...options.perAddress, maxCalls: Infinity })
    this.#refused = new RefusedConnections(options)
    this.#server = this.createServer(deps)
    this.closed = new Promise<void>((resolve) => (this.#onClosed = resolve)).then(() =>
      clearInterval(this.#sweeps),
    )
    const { sweepMs = TIMES.sweepMs } = options.times ?? {}
    this.#sweeps = setInterval(
      () => this.#refused.log(this.counts(), this.#overAddress),
      sweepMs,
    ).unref()
  }

  async start(): Promise<{ readonly port: number; readonly target: string }> {
    const { listen, tls, log, exclusive = false } = this.#options
    if (tls !== undefined) this.#certificates = await watchCertificates(this.#server, tls, log)
    const { host, port: wanted } = listen
    const address = await this.#server
      .listen({ host, port: wanted, exclusive })
      .catch((error: NodeJS.ErrnoException) => {
        this.#certificates?.close()
        throw listenError(listen, error)
      })
    const { port } = address as AddressInfo
    return { port, target: formatListen({ host, port }) }
  }

  /** Connections are still accepted, and calls on all of them are answered. */
  beginDraining(): void {}

  /**
   * Accepts no more connections, and announces on each that it ends. Each closes by itself when its
   * client knows that and its calls are answered.
   */
  stopAccepting(): Promise<void> {
    this.#certificates?.close()
    void this.#server.drain(Infinity).then(this.#onClosed)
    return Promise.resolve()
  }

  closeIdle(): void {}

  destroyAll(): void {
    void this.#server.close().then(this.#onClosed)
  }

  inFlight(): number {
    return this.#server.stats().inFlight
  }

  leaving(): number {
    return this.#server.stats().leaving
  }

  connections(): number {
    return this.#server.stats().connections
  }

  counts(): ListenerCounts {
    const { connectionsRefused, stalled } = this.#server.stats()
    const overAddressMax = this.#overAddressMax
    return { overMax: connectionsRefused - overAddressMax, overAddressMax, busyCalls: 0, stalled }
  }

  private createServer({ unary, errorReporter, onAnswered }: UnaryServerDeps): UnaryServer {
    const { tls, maxConnections, random, log, times } = this.#options
    const { sweepMs, handshakeMs, callMs, closeMs, ...others } = { ...TIMES, ...times }
    const hasClientCa = tls?.clientCa !== undefined
    const handler = (method: UnaryMethod) => unaryHandler(method, { errorReporter, onAnswered })
    return createUnaryServer({
      methods: Object.fromEntries(unary.map((method) => [method.path, handler(method)])),
      limits: {
        streams: STREAMS_MAX,
        messageBytes: REQUEST_BYTES_MAX,
        headerListBytes: HEADER_LIST_BYTES_MAX,
        connections: maxConnections,
        // Addresses are counted by `admit`, which knows those of load balancers.
        connectionsPerAddress: maxConnections,
        prefaceMs: handshakeMs,
        requestMs: callMs,
        callMs,
        noticeMs: others.noticeMs,
        drainMs: closeMs,
        idleMs: others.idleMs,
        ageMs: others.ageMs,
        pingMs: others.pingMs,
        pingTimeoutMs: others.pingTimeoutMs,
      },
      sweepMs,
      admit: (address) => this.admit(address),
      onError: (error) => log.error({ error: String(error) }, 'connection could not be served'),
      ...(random && { random }),
      ...(tls && {
        tls: { minVersion: TLS_MIN, requestCert: hasClientCa, rejectUnauthorized: hasClientCa },
      }),
    })
  }

  private admit(address: string): (() => void) | undefined {
    const use = this.#addresses.connect(address)
    if (use === undefined) return () => {}
    if (!('refused' in use)) return () => this.#addresses.disconnect(use)
    this.#overAddressMax++
    this.#overAddress = use.refused
    return undefined
  }
}

/** Answers a call of a method; the only place where its failure becomes a status. */
function unaryHandler(
  method: UnaryMethod,
  { errorReporter, onAnswered }: Omit<UnaryServerDeps, 'unary'>,
): UnaryHandler {
  const succeed = (response: Uint8Array) => {
    onAnswered?.(method, OK)
    return response
  }
  const fail = (error: unknown): never => {
    const { code, details } = statusOf(error, errorReporter)
    onAnswered?.(method, code)
    throw new GrpcStatusError(code as GrpcStatus, details)
  }
  return (message, call) => {
    try {
      const answered = method.call(message, optionsOf(call))
      return answered instanceof Promise ? answered.then(succeed, fail) : succeed(answered)
    } catch (error) {
      return fail(error)
    }
  }
}

function optionsOf({ deadlineMs }: UnaryCall): RateLimitOptions {
  if (deadlineMs === undefined) return UNTIMED
  return { timeoutMs: Math.max(0, deadlineMs - monotonicMs()) }
}
