/** An HTTP/1.1 server with strict parsing, limits on slow clients, and graceful draining. */
import {
  createServer,
  IncomingMessage,
  type RequestListener,
  type Server as HttpServer,
  type ServerResponse,
} from 'node:http'
import { createServer as createTlsServer, type Server as HttpsServer } from 'node:https'
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net'
import type { ListenAddress, TlsFiles } from '../../config/config.js'
import type { Log } from '../../observability/log/logger.js'
import { AddressBounds, type AddressBoundsOptions } from './address-bounds.js'
import { sendProblem, type HttpProblem, problemResponse, responseText } from './responses.js'
import { type Certificates, watchCertificates } from './certificates.js'
import { Connections, endNow, endSlowly } from './connections.js'
import { refuseMethod } from './strict-request.js'
import { limitUnreadBody } from './unread-body.js'

export interface ListenerOptions {
  readonly listen: ListenAddress
  readonly tls: TlsFiles | undefined
  readonly timeouts: {
    /** The time limit for the head of a request, and between two requests. */
    readonly headersMs: number
    /** The time limit for a whole request. */
    readonly requestMs: number
    /** How long a client may read nothing of its responses. */
    readonly stallMs: number
  }
  readonly maxConnections: number
  readonly perAddress: PerAddressOptions
  readonly log: Log
  /** Whether the port is not shared with other workers. @default false */
  readonly exclusive?: boolean | undefined
}

export interface PerAddressOptions extends AddressBoundsOptions {
  /** The address as it appears in logs. */
  readonly describe: (address: string) => string
}

/** What a listener has refused or closed since the start. */
export interface ListenerCounts {
  /** Connections beyond `maxConnections`. */
  readonly overMax: number
  /** Connections beyond the limit of one address. */
  readonly overAddressMax: number
  /** Calls in flight beyond the limit of one address. */
  readonly busyCalls: number
  /** Connections closed because their client stopped reading. */
  readonly stalled: number
}

export interface HttpListener {
  /** For the `upgrade` events of the owner. */
  readonly server: HttpServer | HttpsServer
  /** Answers each request, unless its address has too many in flight. */
  serve(handle: RequestListener): void
  start(): Promise<{ readonly host: string; readonly port: number; readonly url: string }>
  /** From now on each response says `Connection: close`; connections are still accepted. */
  beginDraining(): void
  /**
   * Stops accepting connections; from now on each response says `Connection: close`. Settles when
   * no client can connect any more.
   */
  stopAccepting(): Promise<void>
  /** Closes connections without a request. */
  closeIdle(): void
  /** Destroys every connection, also those with requests in flight. */
  destroyAll(): void
  /** Requests whose response is not done. */
  inFlight(): number
  counts(): ListenerCounts
  /** Settles when the listener is closed and the last connection has ended. */
  readonly closed: Promise<void>
}

/** All callers behind a balancer share its address. */
export const BALANCER_HINT = 'if this is a balancer or proxy, list it in trustedProxies'
const HEADER_BYTES_MAX = 16 * 1024
/** How much later than `headersMs` a silent connection is closed at most. */
const CHECK_MS_MAX = 250
const CHECK_MS_MIN = 10
const KEEP_ALIVE_MS = 60_000
/** The number of sweeps in the time after which a connection is closed. */
const SWEEPS = 16
/** How much longer Node waits than it announced, for requests that are on their way. */
const KEEP_ALIVE_GRACE_MS = 1000

export function createListener(options: ListenerOptions): HttpListener {
  return new StrictListener(options)
}

class StrictListener implements HttpListener {
  readonly server: HttpServer | HttpsServer
  readonly closed: Promise<void>
  readonly #options: ListenerOptions
  readonly #connections: Connections
  readonly #sweeps: NodeJS.Timeout
  /** Requests that were refused already. */
  readonly #rejected = new WeakSet<IncomingMessage>()
  readonly #counts = { overMax: 0, overAddressMax: 0, busyCalls: 0, stalled: 0 }
  /** The counts at the last log line. */
  #logged: ListenerCounts = { ...this.#counts }
  #lastError = ''
  /** The last address that reached each limit. */
  #overAddress = ''
  #busyAddress = ''
  #certificates: Certificates | undefined
  #hasStarted = false

  constructor(options: ListenerOptions) {
    const { timeouts, perAddress } = options
    this.#options = options
    // A connection is closed as idle after twice `headersMs`: once for the wait until its next
    // request, and once for the head of that request.
    const idleMs = timeouts.headersMs * 2
    const stallSweepMs = Math.max(CHECK_MS_MAX, timeouts.stallMs / SWEEPS)
    const sweepMs = Math.max(CHECK_MS_MIN, Math.min(idleMs / SWEEPS, stallSweepMs))
    this.#connections = new Connections({
      addresses: new AddressBounds(perAddress),
      idleSweepsMax: Math.ceil(idleMs / sweepMs),
      stalledSweepsMax: Math.ceil(timeouts.stallMs / sweepMs),
    })
    this.server = this.createServer()
    this.closed = new Promise((resolve) => this.server.once('close', resolve)).then(() =>
      this.finish(),
    )
    this.listen()
    this.#sweeps = setInterval(() => this.sweep(), sweepMs).unref()
  }

  async start() {
    const { listen, tls, log } = this.#options
    if (tls !== undefined) {
      this.#certificates = await watchCertificates(this.server as HttpsServer, tls, log)
    }
    await this.bind()
    const { port } = this.server.address() as AddressInfo
    const name = listen.host.includes(':') ? `[${listen.host}]` : listen.host
    return { host: listen.host, port, url: `http${tls ? 's' : ''}://${name}:${port}` }
  }

  serve(handle: RequestListener): void {
    const serveUnlessRejected: RequestListener = (request, response) => {
      if (!this.#rejected.has(request)) handle(request, response)
    }
    this.server.on('request', serveUnlessRejected)
    this.server.on('checkContinue', serveUnlessRejected)
  }

  beginDraining(): void {
    this.#connections.drain()
  }

  stopAccepting(): Promise<void> {
    this.#connections.drain()
    this.#certificates?.close()
    // Not `close` of the HTTP server: it destroys idle connections without notice to their clients,
    // and ends the timeout checks while requests still arrive.
    if (this.server.listening) NetServer.prototype.close.call(this.server)
    else if (!this.#hasStarted) this.server.emit('close')
    return Promise.resolve()
  }

  closeIdle(): void {
    this.server.closeIdleConnections()
    this.#connections.closeSilent()
  }

  destroyAll(): void {
    this.#connections.destroyAll()
  }

  inFlight(): number {
    return this.#connections.inFlight()
  }

  counts(): ListenerCounts {
    return { ...this.#counts }
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
          this.#lastError = String(error)
        })
        resolve()
      })
    })
  }

  private finish(): void {
    clearInterval(this.#sweeps)
    // Ends the timeout checks, which are no longer needed.
    this.server.close()
  }

  private createServer(): HttpServer | HttpsServer {
    const { timeouts, tls, maxConnections } = this.#options
    const { headersMs } = timeouts
    const settings = {
      maxHeaderSize: HEADER_BYTES_MAX,
      headersTimeout: headersMs,
      requestTimeout: Math.max(timeouts.requestMs, headersMs),
      keepAliveTimeout: Math.max(headersMs / 2, headersMs - KEEP_ALIVE_GRACE_MS),
      connectionsCheckingInterval: Math.min(CHECK_MS_MAX, Math.max(CHECK_MS_MIN, headersMs / 10)),
      insecureHTTPParser: false,
      // Detects peers that disappeared without closing.
      keepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_MS,
      // Checked in strict-request.ts, which also closes the connection.
      requireHostHeader: false,
      IncomingMessage: UpgradingRequest,
    }
    const server =
      tls === undefined
        ? createServer(settings)
        : createTlsServer({ ...settings, ALPNProtocols: ['http/1.1'], handshakeTimeout: headersMs })
    // 0 is unlimited. With a limit, Node drops further headers silently, and the upstream would
    // receive another request than the one that was checked (CVE-2026-58044).
    server.maxHeadersCount = 0
    server.maxConnections = maxConnections
    return server
  }

  private listen(): void {
    const { server } = this
    const connections = this.#connections
    const httpEvent = this.#options.tls === undefined ? 'connection' : 'secureConnection'
    server.on('connection', (socket: Socket) => this.accept(socket))
    server.on(httpEvent, (socket: Socket) => this.startHttp(socket))
    server.on('clientError', (error, socket) => this.refuse(error, socket as Socket))
    // The owner checks it like any other request, and closes the connection if need be.
    server.on('checkExpectation', (request, response) => server.emit('request', request, response))
    server.on('connect', (_, socket) => {
      connections.detach(socket as Socket)
      socket.on('error', () => socket.destroy())
      socket.resume()
      endSlowly(socket as Socket, responseText(problemResponse(refuseMethod('CONNECT'))))
    })
    server.on('drop', () => {
      this.#counts.overMax++
    })
    const begin = (request: IncomingMessage, response: ServerResponse) => {
      const outcome = connections.begin(request, response)
      // The parser may drop bytes after such a request, so later ones cannot be trusted.
      if (request instanceof UpgradingRequest && request.isUpgradeAsked) {
        connections.markLast(response)
      }
      if (outcome === 'rejected') this.rejectBusy(request, response)
    }
    server.on('request', begin)
    this.listenBeforeOwner('checkContinue', begin)
    this.listenBeforeOwner('upgrade', (_: IncomingMessage, socket: Socket) =>
      connections.upgrade(socket),
    )
  }

  private accept(socket: Socket): void {
    const over = this.#connections.add(socket)
    if (over === undefined) return
    this.#counts.overAddressMax++
    this.#overAddress = over.refused
  }

  private startHttp(socket: Socket): void {
    if (socket.destroyed) return
    try {
      this.#connections.startHttp(socket)
    } catch (error) {
      // A connection is not served without a limit on its requests.
      this.#lastError = String(error)
      socket.destroy()
    }
  }

  /** Refuses a request whose address has too many calls in flight. */
  private rejectBusy(request: IncomingMessage, response: ServerResponse): void {
    this.#rejected.add(request)
    this.#counts.busyCalls++
    this.#busyAddress = this.#connections.addressOf(request.socket) ?? ''
    limitUnreadBody(request, response)
    sendProblem(response, BUSY_ADDRESS)
  }

  /** Listens before the owner, but only if the owner listens: Node checks for listeners. */
  private listenBeforeOwner<Arguments extends unknown[]>(
    event: string,
    listener: (...args: Arguments) => void,
  ): void {
    const { server } = this
    const onListener = (name: string) => {
      if (name !== event) return
      server.off('newListener', onListener)
      server.prependListener(event, listener as (...args: unknown[]) => void)
    }
    server.on('newListener', onListener)
  }

  /** Refuses bytes that are not a request, or that arrived too slowly. */
  private refuse(error: NodeJS.ErrnoException, socket: Socket): void {
    if (error.code === 'ECONNRESET') return void socket.destroy()
    const problem = PROBLEMS.get(error.code) ?? NOT_HTTP
    if (problem.status === 408 && this.#connections.isHeldBack(socket)) return
    // The rest of a late request could still arrive and be served.
    const end = problem.status === 408 ? endNow : endSlowly
    this.#connections.refuse(socket, responseText(problemResponse(problem)), end)
  }

  private sweep(): void {
    this.#counts.stalled += this.#connections.sweep().stalled
    const { log, maxConnections, perAddress } = this.#options
    const { overMax, overAddressMax, busyCalls, stalled } = this.newCounts()
    if (overMax > 0) log.warn({ connections: overMax, maxConnections }, 'too many connections')
    if (overAddressMax > 0) {
      const address = perAddress.describe(this.#overAddress)
      const most = { setting: 'gateway.maxConnectionsPerAddress', most: perAddress.maxConnections }
      const fields = { connections: overAddressMax, address, ...most, hint: BALANCER_HINT }
      log.warn(fields, 'connections refused: too many from one address')
    }
    if (busyCalls > 0) {
      const address = perAddress.describe(this.#busyAddress)
      const most = { setting: 'gateway.maxCallsPerAddress', most: perAddress.maxCalls }
      const fields = { calls: busyCalls, address, ...most, hint: BALANCER_HINT }
      log.warn(fields, 'requests refused: too many in flight from one address')
    }
    if (stalled > 0) {
      log.warn({ connections: stalled }, 'connections closed: the client stopped reading')
    }
    if (this.#lastError !== '')
      log.error({ error: this.#lastError }, 'connection could not be accepted')
    this.#lastError = ''
  }

  /** The counts since the last sweep. */
  private newCounts(): ListenerCounts {
    const before = this.#logged
    const now = this.counts()
    this.#logged = now
    return {
      overMax: now.overMax - before.overMax,
      overAddressMax: now.overAddressMax - before.overAddressMax,
      busyCalls: now.busyCalls - before.busyCalls,
      stalled: now.stalled - before.stalled,
    }
  }
}

const BUSY_ADDRESS: HttpProblem = {
  status: 503,
  detail: 'Too many requests from this address are in progress.',
  error: 'address_busy',
  headers: ['Retry-After', '1'],
}

/**
 * A request that counts as an upgrade only if it requests a WebSocket. A server may ignore other
 * upgrades and respond over HTTP/1.1. Java's HTTP client requests h2c on every connection and
 * depends on that.
 */
class UpgradingRequest extends IncomingMessage {
  // Only declared: Node sets `upgrade` before fields of this class are initialised.
  declare isUpgrade: boolean | null
  /** Whether the client requested any upgrade. */
  declare isUpgradeAsked?: boolean

  get upgrade(): boolean {
    if (this.isUpgrade !== true) return false
    return this.method === 'CONNECT' || this.headers.upgrade?.toLowerCase() === 'websocket'
  }

  set upgrade(isUpgrade: boolean | null) {
    this.isUpgrade = isUpgrade
    if (isUpgrade === true) this.isUpgradeAsked = true
  }
}

/** By the error code of the parser. */
const PROBLEMS: ReadonlyMap<string | undefined, HttpProblem> = new Map([
  ['HPE_HEADER_OVERFLOW', { status: 431, detail: 'Request headers exceed 16 KiB.' }],
  ['HPE_CHUNK_EXTENSIONS_OVERFLOW', { status: 413, detail: 'Chunk extensions exceed 16 KiB.' }],
  ['ERR_HTTP_REQUEST_TIMEOUT', { status: 408, detail: 'The request did not arrive in time.' }],
])

const NOT_HTTP: HttpProblem = { status: 400, detail: 'The request is not valid HTTP/1.1.' }

const LISTEN_REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'something else listens there',
  EACCES: 'this user may not listen there; ports below 1024 often need a privilege',
  EADDRNOTAVAIL: 'this machine has no such address',
  ENOTFOUND: 'there is no such name',
}

export function listenError({ host, port }: ListenAddress, cause: NodeJS.ErrnoException): Error {
  const why = LISTEN_REASONS[cause.code ?? ''] ?? cause.message
  return new Error(`listen ${host}:${port}: ${why}`, { cause })
}
