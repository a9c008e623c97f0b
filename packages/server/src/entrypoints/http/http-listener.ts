/** A server of HTTP/1.1 that is strict with requests, patient with nobody, and can be drained. */
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
    /** Until the head of a request is there, and between two requests. */
    readonly headersMs: number
    /** Until a request is there whole. */
    readonly requestMs: number
    /** How long a client may read nothing of what there is for it. */
    readonly stallMs: number
  }
  readonly maxConnections: number
  readonly perAddress: PerAddressOptions
  readonly log: Log
  /** Whether a worker listens alone, and not with the others. @default false */
  readonly exclusive?: boolean | undefined
}

interface PerAddressOptions extends AddressBoundsOptions {
  /** An address as a log line may show it. */
  readonly describe: (address: string) => string
}

/** What a listener has turned away, since the start. */
interface ListenerCounts {
  /** Connections beyond `maxConnections`. */
  readonly overMax: number
  /** Connections beyond those that one address may have. */
  readonly overAddressMax: number
  /** Calls beyond those that one address may have in flight. */
  readonly busyCalls: number
  /** Connections cut because their client read nothing. */
  readonly stalled: number
}

export interface HttpListener {
  /** For the owner's `upgrade`. */
  readonly server: HttpServer | HttpsServer
  /** Answers each request, unless its address has too many in flight. */
  serve(handle: RequestListener): void
  start(): Promise<{ readonly host: string; readonly port: number; readonly url: string }>
  /** From now on each response says `Connection: close`; connections are still taken. */
  beginDraining(): void
  /**
   * Takes no more connections and asks every client to close its own: from now on each response
   * says `Connection: close`. Settles when nobody can connect any more.
   */
  stopAccepting(): Promise<void>
  /** Closes connections that no request is on. */
  closeIdle(): void
  /** Closes every connection, whatever is on it. */
  destroyAll(): void
  /** Requests whose response is not done. */
  inFlight(): number
  counts(): ListenerCounts
  /** Settles when nothing is accepted and the last connection is gone. */
  readonly closed: Promise<void>
}

/** All callers behind a balancer share its address. */
const BALANCER_HINT = 'if this is a balancer or proxy, list it in trustedProxies'
const HEADER_BYTES_MAX = 16 * 1024
/** A silent connection is closed so much later than `headersMs` at most, for a usual one. */
const CHECK_MS_MAX = 250
const CHECK_MS_MIN = 10
const KEEP_ALIVE_MS = 60_000
/** How often a connection is looked at, in the time after which it is closed. */
const SWEEPS = 16
/** Node waits so much longer than it told the client, for requests that are on their way. */
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
  /** Requests that are answered already. */
  readonly #rejected = new WeakSet<IncomingMessage>()
  readonly #counts = { overMax: 0, overAddressMax: 0, busyCalls: 0, stalled: 0 }
  /** What the log was last told. */
  #logged: ListenerCounts = { ...this.#counts }
  #lastError = ''
  /** The last address of each kind that met its bound. */
  #overAddress = ''
  #busyAddress = ''
  #certificates: Certificates | undefined
  #hasStarted = false

  constructor(options: ListenerOptions) {
    const { timeouts, perAddress } = options
    this.#options = options
    // Twice `headersMs` passes until a connection is closed as idle: it may wait as long as that
    // for its next request, and as long again until the head of it is there.
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
    // Not the close of HTTP servers: that cuts idle connections before their clients could be
    // told, and ends the checks of timeouts while requests are still coming in.
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
        // Too many open files, for one: the next connection may do better.
        server.on('error', (error) => {
          this.#lastError = String(error)
        })
        resolve()
      })
    })
  }

  private finish(): void {
    clearInterval(this.#sweeps)
    // Ends the checks of timeouts, now that there is nothing to check.
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
      // A peer that vanished without a word is noticed in the end.
      keepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_MS,
      // Asked for by whoever reads the request, and then knows what not to read after it.
      requireHostHeader: false,
      IncomingMessage: UpgradingRequest,
    }
    const server =
      tls === undefined
        ? createServer(settings)
        : createTlsServer({ ...settings, ALPNProtocols: ['http/1.1'], handshakeTimeout: headersMs })
    // 0 is without end. With a number, headers beyond it would be dropped without a word, and the
    // next server would be sent another request than was checked (CVE-2026-58044).
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
    // Its owner judges it like any other request: what follows on the connection is its too.
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
      // The parser may drop what lies behind such a request, so nothing that follows can be
      // trusted.
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
      // Without a bound on its requests a connection is not served.
      this.#lastError = String(error)
      socket.destroy()
    }
  }

  /** Its address has too many calls in flight. */
  private rejectBusy(request: IncomingMessage, response: ServerResponse): void {
    this.#rejected.add(request)
    this.#counts.busyCalls++
    this.#busyAddress = this.#connections.addressOf(request.socket) ?? ''
    limitUnreadBody(request, response)
    sendProblem(response, BUSY_ADDRESS)
  }

  /** Listens before the owner does, but not alone: Node looks whether anybody does. */
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

  /** What came is no request, or came too slowly. */
  private refuse(error: NodeJS.ErrnoException, socket: Socket): void {
    if (error.code === 'ECONNRESET') return void socket.destroy()
    const problem = PROBLEMS.get(error.code) ?? NOT_HTTP
    if (problem.status === 408 && this.#connections.isHeldBack(socket)) return
    // The rest of a late request could still come, and would be served.
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

  /** What was counted since the last sweep. */
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
 * A request of which Node asks whether it is an upgrade. Only those to a WebSocket are: a server
 * may pass over the others and answer as if they had not been asked for. Java's client asks for
 * h2c whenever it connects and would be lost with anything else.
 */
class UpgradingRequest extends IncomingMessage {
  // Declared only: Node sets `upgrade` before fields of this class would exist.
  declare isUpgrade: boolean | null
  /** Whether the client asked for one, whatever became of it. */
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

/** By the code of what the parser found. */
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

function listenError({ host, port }: ListenAddress, cause: NodeJS.ErrnoException): Error {
  const why = LISTEN_REASONS[cause.code ?? ''] ?? cause.message
  return new Error(`listen ${host}:${port}: ${why}`, { cause })
}
