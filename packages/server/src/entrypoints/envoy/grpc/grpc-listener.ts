/**
 * An HTTP/2 listener for gRPC: bounds on connections and streams, TLS with certificates that are
 * reloaded, and draining without lost calls. It knows nothing of messages; another module serves
 * the `stream` events of its server.
 */
import {
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type SecureServerOptions,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2'
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net'
import { formatListen } from '../../../config/listen.js'
import { monotonicMs } from '../../../lib/wall-clock.js'
import { AddressBounds, type AddressUse } from '../../http/address-bounds.js'
import { type Certificates, watchCertificates } from '../../http/certificates.js'
import { type ListenerCounts, listenError } from '../../http/http-listener.js'
import { GrpcConnection } from './grpc-connection.js'
import {
  type GrpcServer,
  type GrpcServerOptions,
  HEADER_LIST_BYTES_MAX,
  STREAMS_MAX,
  TIMES,
  TLS_MIN,
} from './grpc-server.js'
import { RefusedConnections } from './refused-connections.js'

export interface GrpcListenerOptions extends GrpcServerOptions {
  /** Whether a path is a unary method, which counts as a call in flight. */
  readonly isUnary: (path: string) => boolean
}

/** What Node may hold for one connection: the streams above, with a few headers each. */
const SESSION_MEGABYTES_MAX = 32
/**
 * Streams that a client may cancel at once, and for each second. Envoy cancels every call that is
 * not answered within its timeout, so a slow second must not end its connection. Node 20 does not
 * know these settings, and ends a connection after a thousand and 33 a second.
 */
const RESETS = { streamResetBurst: 20_000, streamResetRate: 5000 }
const KEEP_ALIVE_MS = 60_000

export class GrpcListener implements GrpcServer {
  readonly server: Http2Server | Http2SecureServer
  readonly closed: Promise<void>
  readonly #options: GrpcListenerOptions
  readonly #times: typeof TIMES
  readonly #addresses: AddressBounds
  readonly #sockets = new Set<Socket>()
  readonly #connections = new Map<ServerHttp2Session, GrpcConnection>()
  readonly #sweeps: NodeJS.Timeout
  readonly #counts = { overMax: 0, overAddressMax: 0, busyCalls: 0, stalled: 0 }
  readonly #refused: RefusedConnections
  #overAddress = ''
  #certificates: Certificates | undefined
  #hasStarted = false
  #isClosing = false

  constructor(options: GrpcListenerOptions) {
    this.#options = options
    this.#times = { ...TIMES, ...options.times }
    this.#refused = new RefusedConnections(options)
    this.#addresses = new AddressBounds({ ...options.perAddress, maxCalls: Infinity })
    this.server = this.createServer()
    this.closed = new Promise<void>((resolve) => this.server.once('close', resolve)).then(() =>
      clearInterval(this.#sweeps),
    )
    this.listen()
    this.#sweeps = setInterval(() => this.sweep(), this.#times.sweepMs).unref()
  }

  async start(): Promise<{ readonly port: number; readonly target: string }> {
    const { listen, tls, log } = this.#options
    if (tls !== undefined) {
      const server = this.server as Http2SecureServer
      this.#certificates = await watchCertificates(server, tls, log)
    }
    await this.bind()
    const { port } = this.server.address() as AddressInfo
    return { port, target: formatListen({ host: listen.host, port }) }
  }

  /** Connections are still accepted, and calls on all of them are answered. */
  beginDraining(): void {}

  /** Accepts no more connections, and announces on each that it ends. */
  stopAccepting(): Promise<void> {
    this.#isClosing = true
    this.#certificates?.close()
    // Not `close` of the HTTP/2 server: some versions of Node end all connections with it.
    if (this.server.listening) NetServer.prototype.close.call(this.server)
    else if (!this.#hasStarted) this.server.emit('close')
    for (const connection of this.#connections.values()) connection.notify(monotonicMs())
    return Promise.resolve()
  }

  /** Closes connections, each when its last stream has ended. */
  closeIdle(): void {
    for (const connection of this.#connections.values()) connection.close()
  }

  destroyAll(): void {
    for (const connection of this.#connections.values()) connection.destroy()
    for (const socket of this.#sockets) socket.destroy()
  }

  /** Unary calls whose response is not sent. */
  inFlight(): number {
    let calls = 0
    for (const connection of this.#connections.values()) calls += connection.inFlight()
    return calls
  }

  connections(): number {
    return this.#connections.size
  }

  counts(): ListenerCounts {
    return { ...this.#counts }
  }

  private createServer(): Http2Server | Http2SecureServer {
    const { tls, maxConnections } = this.#options
    const settings: SecureServerOptions = {
      ...RESETS,
      maxSessionMemory: SESSION_MEGABYTES_MAX,
      settings: { maxConcurrentStreams: STREAMS_MAX, maxHeaderListSize: HEADER_LIST_BYTES_MAX },
    }
    const hasClientCa = tls?.clientCa !== undefined
    const server =
      tls === undefined
        ? createServer(settings)
        : createSecureServer({
            ...settings,
            minVersion: TLS_MIN,
            requestCert: hasClientCa,
            rejectUnauthorized: hasClientCa,
            handshakeTimeout: this.#times.handshakeMs,
          })
    server.maxConnections = maxConnections
    return server
  }

  private listen(): void {
    const { server } = this
    server.on('connection', (socket: Socket) => this.accept(socket))
    server.on('session', (session: ServerHttp2Session) => this.begin(session))
    server.on('stream', (stream, headers) => this.addStream(stream, headers[':path'] ?? ''))
    // A connection that fails ends, which its session reports; without a listener Node would throw.
    server.on('sessionError', () => {})
    server.on('tlsClientError', () => {})
    server.on('drop', () => {
      this.#counts.overMax++
    })
  }

  private accept(socket: Socket): void {
    const use = this.#addresses.connect(socket.remoteAddress)
    if (use !== undefined && 'refused' in use) {
      this.#counts.overAddressMax++
      this.#overAddress = use.refused
      socket.destroy()
      return
    }
    // Detects peers that disappeared during their handshake.
    socket.setKeepAlive(true, KEEP_ALIVE_MS)
    this.#sockets.add(socket)
    socket.once('close', () => this.forget(socket, use))
  }

  private forget(socket: Socket, use: AddressUse | undefined): void {
    this.#sockets.delete(socket)
    if (use !== undefined) this.#addresses.disconnect(use)
  }

  private begin(session: ServerHttp2Session): void {
    const { random = Math.random } = this.#options
    const nowMs = monotonicMs()
    const connection = new GrpcConnection(session, this.#times, { nowMs, jitter: random() })
    this.#connections.set(session, connection)
    session.once('close', () => this.#connections.delete(session))
    // It was accepted before, and its handshake took until now.
    if (this.#isClosing) connection.notify(nowMs)
  }

  private addStream(stream: ServerHttp2Stream, path: string): void {
    // It may also fail after its call was answered, when nobody else listens.
    stream.on('error', () => {})
    const connection = this.#connections.get(stream.session as ServerHttp2Session)
    connection?.addStream(stream, monotonicMs(), this.#options.isUnary(path))
  }

  private bind(): Promise<void> {
    const { server } = this
    const { listen, exclusive = false } = this.#options
    return new Promise((resolve, reject) => {
      const fail = (error: Error) => {
        this.#certificates?.close()
        reject(listenError(listen, error))
      }
      server.once('error', fail)
      server.listen({ host: listen.host, port: listen.port, exclusive }, () => {
        this.#hasStarted = true
        server.off('error', fail)
        // For example too many open files; the next connection may succeed.
        server.on('error', (error) => {
          this.#options.log.error({ error: String(error) }, 'connection could not be accepted')
        })
        resolve()
      })
    })
  }

  private sweep(): void {
    const nowMs = monotonicMs()
    for (const connection of this.#connections.values()) {
      if (connection.sweep(nowMs) === 'stalled') this.#counts.stalled++
    }
    this.#refused.log(this.counts(), this.#overAddress)
  }
}
