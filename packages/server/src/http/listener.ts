/** A server of HTTP/1.1 that is strict with requests, patient with nobody, and can be drained. */
import {
  createServer,
  IncomingMessage,
  type Server as HttpServer,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http'
import { createServer as createTlsServer, type Server as HttpsServer } from 'node:https'
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net'
import type { ListenAddress, TlsFiles } from '../config/config.js'
import type { Log } from '../log/logger.js'
import { problemObject } from './answer.js'
import { type Certificates, watchCertificates } from './certificates.js'
import { closeAfter, Connections, endNow, endSlowly, IDLE_SWEEPS_MAX } from './connections.js'
import { type RequestProblem, refuseMethod } from './strict-request.js'

export interface ListenerOptions {
  readonly listen: ListenAddress
  readonly tls: TlsFiles | undefined
  readonly timeouts: {
    /** Until the head of a request is there, and between two requests. */
    readonly headersMs: number
    /** Until a request is there whole. */
    readonly requestMs: number
  }
  readonly maxConnections: number
  readonly log: Log
  /** Whether a worker listens alone, and not with the others. @default false */
  readonly exclusive?: boolean | undefined
}

export interface Listener {
  /** For the owner's `request`, `checkContinue` and `upgrade`. */
  readonly server: HttpServer | HttpsServer
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
  /** Connections turned away because there were too many. */
  refusedConnections(): number
  /** Settles when nothing is accepted and the last connection is gone. */
  readonly closed: Promise<void>
}

const HEADER_BYTES_MAX = 16 * 1024
/** A silent connection is closed so much later than `headersMs` at most, for a usual one. */
const CHECK_MS_MAX = 250
const CHECK_MS_MIN = 10
const KEEP_ALIVE_MS = 60_000
/** Node waits so much longer than it told the client, for requests that are on their way. */
const KEEP_ALIVE_GRACE_MS = 1000

export function createListener(options: ListenerOptions): Listener {
  return new StrictListener(options)
}

class StrictListener implements Listener {
  readonly server: HttpServer | HttpsServer
  readonly closed: Promise<void>
  readonly #options: ListenerOptions
  readonly #connections = new Connections()
  readonly #sweeps: NodeJS.Timeout
  #certificates: Certificates | undefined
  #hasStarted = false
  #refused = 0
  #untold = { refused: 0, failed: '' }

  constructor(options: ListenerOptions) {
    this.#options = options
    this.server = this.createServer()
    this.closed = new Promise((resolve) => this.server.once('close', resolve)).then(() =>
      this.finish(),
    )
    this.listen()
    // Twice `headersMs` passes until a connection is closed as idle: it may wait as long as that
    // for its next request, and as long again until the head of it is there.
    const sweepMs = Math.max(CHECK_MS_MIN, (options.timeouts.headersMs * 2) / IDLE_SWEEPS_MAX)
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

  refusedConnections(): number {
    return this.#refused
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
          this.#untold.failed = String(error)
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
    const speaking = this.#options.tls === undefined ? 'connection' : 'secureConnection'
    server.on('connection', (socket: Socket) => connections.add(socket))
    server.on(speaking, (socket: Socket) => connections.speak(socket))
    server.on('clientError', (error, socket) => this.refuse(error, socket as Socket))
    // Its owner judges it like any other request: what follows on the connection is its too.
    server.on('checkExpectation', (request, response) => server.emit('request', request, response))
    server.on('connect', (_, socket) => {
      socket.on('error', () => socket.destroy())
      socket.resume()
      endSlowly(socket as Socket, bytesOf(refuseMethod('CONNECT')))
    })
    server.on('drop', () => {
      this.#refused++
      this.#untold.refused++
    })
    const begin = (request: IncomingMessage, response: ServerResponse) => {
      connections.begin(request, response)
      // The parser drops what lies behind such a request, so nothing that follows can be trusted.
      if (request instanceof UpgradingRequest && request.isUpgradeAsked) closeAfter(response)
    }
    server.on('request', begin)
    this.joinOwner('checkContinue', begin)
    this.joinOwner('upgrade', (_: IncomingMessage, socket: Socket) => connections.upgrade(socket))
  }

  /** Listens before the owner does, but not alone: Node looks whether anybody does. */
  private joinOwner<Arguments extends unknown[]>(
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
    const problem = PROBLEMS.get(error.code) ?? NO_REQUEST
    // The rest of a late request could still come, and would be served.
    const endIt = problem.status === 408 ? endNow : endSlowly
    this.#connections.refuse(socket, bytesOf(problem), endIt)
  }

  private sweep(): void {
    this.#connections.sweep()
    const { log, maxConnections } = this.#options
    const { refused, failed } = this.#untold
    if (refused > 0) log.warn({ connections: refused, maxConnections }, 'too many connections')
    if (failed !== '') log.error({ error: failed }, 'a connection could not be accepted')
    this.#untold = { refused: 0, failed: '' }
  }
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

interface Answer {
  readonly status: number
  readonly detail: string
  readonly headers?: RequestProblem['headers']
}

/** By the code of what the parser found. */
const PROBLEMS: ReadonlyMap<string | undefined, Answer> = new Map([
  [
    'HPE_HEADER_OVERFLOW',
    { status: 431, detail: 'headers: found more than 16 KiB; accepted: up to that' },
  ],
  [
    'HPE_CHUNK_EXTENSIONS_OVERFLOW',
    { status: 413, detail: 'chunk extensions: found more than 16 KiB; accepted: up to that' },
  ],
  ['ERR_HTTP_REQUEST_TIMEOUT', { status: 408, detail: 'The request did not arrive in time.' }],
])

const NO_REQUEST: Answer = { status: 400, detail: 'This is not a request of HTTP/1.1.' }

/** A response where Node has none to write to. */
function bytesOf(problem: Answer): string {
  const body = JSON.stringify(problemObject(problem))
  const length = String(Buffer.byteLength(body))
  const own = ['Content-Type', 'application/problem+json', 'Content-Length', length]
  const headers = [...(problem.headers ?? []), ...own, 'Connection', 'close']
  const lines = [`HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}`]
  for (let i = 0; i < headers.length; i += 2) lines.push(`${headers[i]}: ${headers[i + 1]}`)
  return `${lines.join('\r\n')}\r\n\r\n${body}`
}

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
