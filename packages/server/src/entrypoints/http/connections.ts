/** Tracks the open connections of a listener and the requests on each. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { AddressBounds, AddressUse } from './address-bounds.js'
import { PIPELINED_REQUESTS_MAX, RequestGate } from './request-gate.js'
import { writeProgress } from './write-progress.js'

interface HttpConnection {
  /** Requests that have begun. */
  requestsStarted: number
  /** Requests whose response is not done; several if the client sends without waiting. */
  inFlight: number
  /** The last of them. */
  request: IncomingMessage | undefined
  response: ServerResponse | undefined
  /** The number of sweeps since its last request. */
  idleSweeps: number
  /** Whether it was upgraded to another protocol. */
  isUpgraded: boolean
  /** Whether it accepts no more requests. */
  isEnding: boolean
  /** Whether its last response says `Connection: close`, so that no other may follow. */
  isLast: boolean
  gate: RequestGate | undefined
  /** Undefined if its address is exempt. */
  readonly use: AddressUse | undefined
  /** How many of the requests in flight count as calls of the address. */
  calls: number
  /** How much the client had read at the last sweep with unsent data. */
  progress: string
  /** The number of sweeps in which the client read none of the unsent data. */
  stalledSweeps: number
}

export interface ConnectionsOptions {
  /** Bounds for each address. */
  readonly addresses: AddressBounds
  /** For how many sweeps a connection may have no request. */
  readonly idleSweepsMax: number
  /** For how many sweeps a client may read none of the unsent data. */
  readonly stalledSweepsMax: number
}

/** Whether a request may be served. */
export type RequestOutcome = 'served' | 'rejected'

/** How long a client may read the last response before the connection is destroyed. */
const LINGER_MS = 1000

export class Connections {
  /** All connections, including those still in their TLS handshake. */
  readonly #sockets = new Set<Socket>()
  readonly #httpConnections = new Map<Socket, HttpConnection>()
  readonly #options: ConnectionsOptions
  #inFlight = 0
  #isDraining = false

  constructor(options: ConnectionsOptions) {
    this.#options = options
  }

  inFlight(): number {
    return this.#inFlight
  }

  /** Adds a new connection. If its address has too many, closes it and returns the address. */
  add(socket: Socket): { readonly refused: string } | undefined {
    const { addresses } = this.#options
    const use = addresses.connect(socket.remoteAddress)
    if (use !== undefined && 'refused' in use) {
      socket.destroy()
      return use
    }
    this.#sockets.add(socket)
    socket.once('close', () => {
      this.#sockets.delete(socket)
      if (use !== undefined) addresses.disconnect(use)
    })
    return undefined
  }

  /** Called when a connection is ready for HTTP. */
  startHttp(socket: Socket): void {
    const connection: HttpConnection = {
      requestsStarted: 0,
      inFlight: 0,
      request: undefined,
      response: undefined,
      idleSweeps: 0,
      isUpgraded: false,
      isEnding: false,
      isLast: false,
      gate: undefined,
      use: this.#options.addresses.find(socket.remoteAddress),
      calls: 0,
      progress: '',
      stalledSweeps: 0,
    }
    this.#httpConnections.set(socket, connection)
    connection.gate = new RequestGate(socket, {
      room: () => (connection.isLast ? 0 : PIPELINED_REQUESTS_MAX - connection.inFlight),
      requestsStarted: () => connection.requestsStarted,
      isBodyDue: () => connection.request?.complete === false,
      isEnding: () => connection.isEnding,
    })
    // Each pipelined request adds a listener for the end.
    socket.setMaxListeners(0)
    socket.once('close', () => {
      // A response that waits for an earlier one gets no close event.
      this.#inFlight -= connection.inFlight
      if (connection.use !== undefined) connection.use.calls -= connection.calls
      this.#httpConnections.delete(socket)
    })
  }

  /** Records a request whose response is not written yet. */
  begin(request: IncomingMessage, response: ServerResponse): RequestOutcome {
    const { socket } = request
    const connection = this.#httpConnections.get(socket)
    if (connection === undefined) return 'served'
    const isCall = this.beginCall(connection)
    connection.inFlight++
    connection.requestsStarted++
    connection.request = request
    connection.response = response
    connection.idleSweeps = 0
    this.#inFlight++
    if (this.#isDraining) this.markLast(response)
    response.once('close', () => {
      if (!this.#httpConnections.has(socket)) return
      connection.inFlight--
      this.#inFlight--
      if (isCall) this.endCall(connection)
      if (connection.isEnding && connection.inFlight === 0) endSlowly(socket)
      connection.gate?.release()
    })
    return isCall || connection.use === undefined ? 'served' : 'rejected'
  }

  /** Makes a response the last of its connection, if its head is not sent yet. */
  markLast(response: ServerResponse): void {
    if (!closeAfter(response)) return
    const connection = this.#httpConnections.get(response.req.socket)
    if (connection?.response === response) connection.isLast = true
  }

  /** The address that a connection counts for; undefined if exempt. */
  addressOf(socket: Socket): string | undefined {
    return this.#httpConnections.get(socket)?.use?.address
  }

  /** Hands a connection over to the owner of the upgrade, which reads it from now on. */
  detach(socket: Socket): void {
    this.#httpConnections.get(socket)?.gate?.detach()
  }

  upgrade(socket: Socket): void {
    const connection = this.#httpConnections.get(socket)
    if (connection === undefined) return
    connection.isUpgraded = true
    connection.gate?.detach()
    // Its response would overtake earlier ones.
    if (connection.inFlight > 0) socket.destroy()
  }

  /** Makes every response from now on the last of its connection. */
  drain(): void {
    this.#isDraining = true
    // Of several pipelined responses only the last may close the connection.
    for (const { response } of this.#httpConnections.values()) {
      if (response !== undefined) this.markLast(response)
    }
  }

  /**
   * Whether the rest of the head that the parser waits for is here, unread: then earlier responses
   * are late, not the client. If it is never served, the connection soon counts as idle.
   */
  isHeldBack(socket: Socket): boolean {
    const isBodyDue = this.#httpConnections.get(socket)?.request?.complete === false
    return !isBodyDue && socket.isPaused() && socket.readableLength > 0
  }

  /**
   * Ends a connection that sent something other than a request. Sends these bytes first, if the
   * client cannot take them for the response to an earlier request.
   */
  refuse(socket: Socket, bytes: string, end: (socket: Socket, bytes: string) => void): void {
    const connection = this.#httpConnections.get(socket)
    if (connection === undefined || !socket.writable) return void socket.destroy()
    const { inFlight, request, response, isEnding } = connection
    if (isEnding) return
    connection.isEnding = true
    if (request?.complete === false) {
      // Its response is being written, or not started and can still report the problem.
      if (response?.writableEnded === true) return
      if (inFlight === 1 && response?.headersSent === false) socket.write(bytes)
      // At once, and not after the client has read it: the handler of the request must learn that
      // its body is incomplete before it is forwarded.
      request.destroy()
    } else if (inFlight === 0) end(socket, bytes)
    // The earlier request was valid, and its response is the last on this connection.
    else if (response !== undefined) closeAfter(response)
  }

  /** Closes connections between two requests, and those that never sent anything. */
  closeSilent(): void {
    for (const [socket, { isUpgraded }] of this.#httpConnections) {
      if (!isUpgraded && socket.bytesRead === 0) socket.destroy()
    }
  }

  /**
   * Closes connections that no timeout of Node closes. Between two requests a single line end stops
   * the keep-alive timer and starts no other; and Node waits without limit for a client that does
   * not read its responses. Returns how many of the latter were closed. It counts sweeps, not time,
   * so that no connection is closed because this process was suspended.
   */
  sweep(): { readonly stalled: number } {
    let stalled = 0
    for (const [socket, connection] of this.#httpConnections) {
      if (connection.isUpgraded) continue
      if (this.isStalled(socket, connection)) {
        stalled++
        socket.destroy()
      } else if (
        connection.inFlight === 0 &&
        ++connection.idleSweeps > this.#options.idleSweepsMax
      ) {
        socket.destroy()
      }
    }
    return { stalled }
  }

  destroyAll(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  /** Whether a request counts as a call of its address. */
  private beginCall(connection: HttpConnection): boolean {
    const { use } = connection
    if (use === undefined || !this.#options.addresses.hasRoomForCall(use)) return false
    use.calls++
    connection.calls++
    return true
  }

  private endCall(connection: HttpConnection): void {
    connection.calls--
    if (connection.use !== undefined) connection.use.calls--
  }

  private isStalled(socket: Socket, connection: HttpConnection): boolean {
    if (socket.writableLength === 0) {
      connection.stalledSweeps = 0
      return false
    }
    const progress = writeProgress(socket)
    if (progress !== connection.progress) connection.stalledSweeps = 0
    connection.progress = progress
    return connection.stalledSweeps++ >= this.#options.stalledSweepsMax
  }
}

/** Sets `Connection: close` on the response; false if its head is already sent. */
function closeAfter(response: ServerResponse): boolean {
  if (response.headersSent) return false
  response.shouldKeepAlive = false
  return true
}

/**
 * Reads on for a moment before it closes. Closing a socket while data arrives resets it, and the
 * client loses the response.
 */
export function endSlowly(socket: Socket, bytes = ''): void {
  socket.end(bytes)
  const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref()
  socket.once('close', () => clearTimeout(timer))
}

export function endNow(socket: Socket, bytes: string): void {
  socket.end(bytes)
  socket.destroySoon()
}
