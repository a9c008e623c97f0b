import {
  type AddressInfo,
  createServer,
  type ListenOptions,
  type Server,
  type Socket,
} from 'node:net'
import {
  createServer as createTlsServer,
  type SecureContextOptions,
  type Server as TlsServer,
  type TlsOptions,
  type TLSSocket,
} from 'node:tls'
import { monotonicMs } from './clock.js'
import { Connection } from './connection.js'
import {
  type AnswerWriter,
  type ContextOptions,
  createContext,
  type ServerContext,
} from './context.js'
import { SocketTransport } from './socket-transport.js'
import type { UnaryServerStats } from './stats.js'

/** How often deadlines are looked at. None is shorter than seconds by default. */
const SWEEP_MS = 1_000

const ADMITTED = () => {}

/** The same during a drain, which somebody waits for. */
const DRAIN_SWEEP_MS = 50

/** Timers have 31 bits; a longer one fires at once. */
const TIMER_MS_MAX = 2 ** 31 - 1

export interface UnaryServerOptions extends ContextOptions {
  /**
   * With it the server accepts only TLS, with ALPN `h2`. For mutual TLS: `ca`, `requestCert` and
   * `rejectUnauthorized`.
   */
  readonly tls?: Omit<TlsOptions, 'ALPNProtocols' | 'ALPNCallback' | 'handshakeTimeout'>
  /**
   * Decides on a connection from this address, beside the bounds of `limits`. A function accepts it
   * and is called when it is gone; undefined refuses it. An address is empty for a socket of the
   * file system, and for a connection that was reset before it was accepted.
   */
  readonly admit?: (remoteAddress: string) => (() => void) | undefined
  /** How often deadlines are looked at, in milliseconds. @default 1000 */
  readonly sweepMs?: number
}

export interface UnaryServer {
  /** Resolves to the address, or to the path of a socket in the file system. */
  listen(options: ListenOptions): Promise<AddressInfo | string>
  /** Connections from now on use these certificates and keys. Only with `tls`. */
  setSecureContext(options: SecureContextOptions): void
  /**
   * Accepts no more connections, asks clients to go, and answers what they still send. Resolves
   * when all have gone; after `ms` the rest is closed, and each after `limits.drainMs`.
   */
  drain(ms: number): Promise<void>
  /** Closes everything at once. */
  close(): Promise<void>
  stats(): UnaryServerStats
}

/** A server of HTTP/2 that answers unary calls of gRPC, and nothing else. */
export function createUnaryServer(options: UnaryServerOptions): UnaryServer {
  return new NetUnaryServer(options)
}

interface Client {
  readonly connection: Connection
  readonly socket: Socket
}

class NetUnaryServer implements UnaryServer {
  readonly #context: ServerContext
  readonly #server: Server | TlsServer
  readonly #isTls: boolean
  readonly #admit: NonNullable<UnaryServerOptions['admit']>
  readonly #sweepMs: number
  readonly #clients = new Set<Client>()
  /** All sockets, those included that are in the handshake of TLS. */
  readonly #sockets = new Set<Socket>()
  readonly #socketsOf = new Map<string, number>()
  #answers: AnswerWriter[] = []
  #sweepTimer: NodeJS.Timeout | undefined
  #closed: Promise<void> | undefined
  /** Resolves that promise, once the server itself has stopped. */
  #onStopped: (() => void) | undefined
  #isDraining = false

  constructor(options: UnaryServerOptions) {
    this.#context = createContext(options, {
      now: monotonicMs,
      scheduleAnswers: (writer) => this.scheduleAnswers(writer),
    })
    this.#isTls = options.tls !== undefined
    this.#admit = options.admit ?? (() => ADMITTED)
    this.#sweepMs = options.sweepMs ?? SWEEP_MS
    this.#server = this.createListener(options.tls)
  }

  listen(options: ListenOptions): Promise<AddressInfo | string> {
    const server = this.#server
    return new Promise((resolve, reject) => {
      server.once('error', reject)
      server.listen(options, () => {
        server.off('error', reject)
        server.on('error', (error) => this.#context.onError(error, undefined))
        this.sweepEvery(this.#sweepMs)
        resolve(server.address() ?? '')
      })
    })
  }

  setSecureContext(options: SecureContextOptions): void {
    const server = this.#server
    if (!('setSecureContext' in server)) throw new TypeError('The server was created without tls.')
    server.setSecureContext(options)
  }

  async drain(ms: number): Promise<void> {
    const closed = this.stopListening()
    if (!this.#isDraining) {
      this.#isDraining = true
      this.sweepEvery(Math.min(this.#sweepMs, DRAIN_SWEEP_MS))
      const nowMs = this.#context.now()
      for (const { connection } of this.#clients) connection.drain(nowMs)
    }
    const timer = setTimeout(() => this.destroyAll(), Math.min(ms, TIMER_MS_MAX))
    await closed
    clearTimeout(timer)
  }

  async close(): Promise<void> {
    const closed = this.stopListening()
    this.destroyAll()
    await closed
  }

  stats(): UnaryServerStats {
    const { counters, held } = this.#context
    let inFlight = 0
    let leaving = 0
    for (const { connection } of this.#clients) {
      inFlight += connection.inFlight
      if (connection.isLeaving) leaving += 1
    }
    const connections = this.#sockets.size
    return { ...counters, connections, inFlight, leaving, heldBytes: held.bytes }
  }

  private createListener(tls: UnaryServerOptions['tls']): Server | TlsServer {
    if (tls === undefined) {
      return createServer({ noDelay: true }, (socket) => {
        this.onSocket(socket)
        this.onClient(socket)
      })
    }
    const server = createTlsServer(
      {
        noDelay: true,
        ...tls,
        ALPNProtocols: ['h2'],
        handshakeTimeout: this.#context.limits.prefaceMs,
      } as TlsOptions,
      (socket) => this.onSecureClient(socket),
    )
    server.on('connection', (socket) => this.onSocket(socket))
    // A handshake that fails concerns its client only.
    server.on('tlsClientError', (_error, socket) => socket.destroy())
    return server
  }

  /** Counts a new socket, or closes it. */
  private onSocket(socket: Socket): void {
    const { limits, counters } = this.#context
    const address = socket.remoteAddress ?? ''
    const sockets = this.#socketsOf.get(address) ?? 0
    const isCrowded = address !== '' && sockets >= limits.connectionsPerAddress
    const isFull = this.#sockets.size >= limits.connections || isCrowded
    const release = isFull ? undefined : this.#admit(address)
    if (release === undefined) {
      counters.connectionsRefused += 1
      socket.destroy()
      return
    }
    counters.connectionsAccepted += 1
    this.#sockets.add(socket)
    this.#socketsOf.set(address, sockets + 1)
    socket.on('close', () => {
      this.#sockets.delete(socket)
      const left = (this.#socketsOf.get(address) ?? 1) - 1
      if (left > 0) this.#socketsOf.set(address, left)
      else this.#socketsOf.delete(address)
      release()
      this.resolveIfEmpty()
    })
  }

  private onSecureClient(socket: TLSSocket): void {
    socket.disableRenegotiation()
    if (socket.alpnProtocol === 'h2') this.onClient(socket)
    else socket.destroy()
  }

  private onClient(socket: Socket): void {
    if (socket.destroyed) return
    const { now } = this.#context
    const transport = new SocketTransport(socket, this.#isTls)
    const connection = new Connection(this.#context, transport, socket.remoteAddress ?? '', now())
    const client = { connection, socket }
    this.#clients.add(client)
    // Each is followed by `close`.
    socket.on('error', () => {})
    socket.on('data', (chunk: Buffer) => connection.receive(chunk, now()))
    socket.on('close', () => {
      this.#clients.delete(client)
      transport.onClosed()
      connection.onClosed()
    })
    connection.start()
    if (this.#isDraining) connection.drain(now())
  }

  /** Answers of promises that settle in one turn of the event loop leave in one write. */
  private scheduleAnswers(writer: AnswerWriter): void {
    this.#answers.push(writer)
    if (this.#answers.length > 1) return
    setImmediate(() => {
      const writers = this.#answers
      this.#answers = []
      for (const waiting of writers) waiting.writeAnswers()
    })
  }

  private sweepEvery(ms: number): void {
    clearInterval(this.#sweepTimer)
    this.#sweepTimer = setInterval(() => {
      const nowMs = this.#context.now()
      for (const { connection } of this.#clients) connection.sweep(nowMs)
    }, ms)
    this.#sweepTimer.unref()
  }

  private stopListening(): Promise<void> {
    this.#closed ??= new Promise((resolve) => {
      // It fails if the server does not listen, which is as good.
      this.#server.close(() => {
        clearInterval(this.#sweepTimer)
        this.#onStopped = resolve
        this.resolveIfEmpty()
      })
    })
    return this.#closed
  }

  /** The last sockets may close after the server says that they have. */
  private resolveIfEmpty(): void {
    if (this.#sockets.size === 0) this.#onStopped?.()
  }

  private destroyAll(): void {
    for (const socket of this.#sockets) socket.destroy()
  }
}
