/** The open connections of a listener, and what is under way on each. */
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
  /** How often it was found without a request since its last. */
  idleSweeps: number
  /** It speaks another protocol now. */
  isUpgraded: boolean
  /** It takes no more requests. */
  isEnding: boolean
  /** Its last response says `Connection: close`, so no other may follow. */
  isLast: boolean
  gate: RequestGate | undefined
  /** Undefined: its address is not counted. */
  readonly use: AddressUse | undefined
  /** Of the requests in flight those that count as calls of the address. */
  calls: number
  /** What the client had taken at the last sweep that found something left to send. */
  progress: string
  /** In how many sweeps the client had taken nothing of what is left to send. */
  stalledSweeps: number
}

export interface ConnectionsOptions {
  /** Bounds for each address. */
  readonly addresses: AddressBounds
  /** In how many sweeps a connection may be without a request. */
  readonly idleSweepsMax: number
  /** In how many sweeps a client may take nothing of what is left to send. */
  readonly stalledSweepsMax: number
}

/** Whether a request may be served. */
export type RequestOutcome = 'served' | 'rejected'

/** How long a client may still read our last words before the connection is cut. */
const LINGER_MS = 1000

export class Connections {
  /** Every one, also those that are still at their TLS handshake. */
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

  /** A connection was made. Closes it, and returns its address, if that has too many. */
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

  /** A connection begins to speak HTTP. */
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
    // Each of the requests that a client sends without waiting listens for the end.
    socket.setMaxListeners(0)
    socket.once('close', () => {
      // A response that waits for its turn does not hear of the end.
      this.#inFlight -= connection.inFlight
      if (connection.use !== undefined) connection.use.calls -= connection.calls
      this.#httpConnections.delete(socket)
    })
  }

  /** A request is there, its response is to come. */
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

  /** The response is the last of its connection, if that can still be said. */
  markLast(response: ServerResponse): void {
    if (!closeAfter(response)) return
    const connection = this.#httpConnections.get(response.req.socket)
    if (connection?.response === response) connection.isLast = true
  }

  /** The address that a connection counts for; undefined if it counts for none. */
  addressOf(socket: Socket): string | undefined {
    return this.#httpConnections.get(socket)?.use?.address
  }

  /** A connection is left to its owner, who reads it from now on. */
  detach(socket: Socket): void {
    this.#httpConnections.get(socket)?.gate?.detach()
  }

  upgrade(socket: Socket): void {
    const connection = this.#httpConnections.get(socket)
    if (connection === undefined) return
    connection.isUpgraded = true
    connection.gate?.detach()
    // Its answer would come before those that are due.
    if (connection.inFlight > 0) socket.destroy()
  }

  /** From now on every response is the last of its connection. */
  drain(): void {
    this.#isDraining = true
    // Of several responses on one connection only the last may end it.
    for (const { response } of this.#httpConnections.values()) {
      if (response !== undefined) this.markLast(response)
    }
  }

  /**
   * Whether the rest of a head that the parser waits for lies here, unread: not its client is
   * late, but the answers before it. If it is not served after all, the connection is soon idle.
   */
  isHeldBack(socket: Socket): boolean {
    const isBodyDue = this.#httpConnections.get(socket)?.request?.complete === false
    return !isBodyDue && socket.isPaused() && socket.readableLength > 0
  }

  /**
   * Ends a connection on which something came that is no request: with these bytes, where they can
   * be taken for nothing but the answer to it.
   */
  refuse(socket: Socket, bytes: string, end: (socket: Socket, bytes: string) => void): void {
    const connection = this.#httpConnections.get(socket)
    if (connection === undefined || !socket.writable) return void socket.destroy()
    const { inFlight, request, response, isEnding } = connection
    if (isEnding) return
    connection.isEnding = true
    if (request?.complete === false) {
      // Its response is on its way, or was never begun and can still say what is wrong.
      if (response?.writableEnded === true) return
      if (inFlight === 1 && response?.headersSent === false) socket.write(bytes)
      // Now and not when the client has read it: whoever serves the request must learn that there
      // is no more of it before it is passed on.
      request.destroy()
    } else if (inFlight === 0) end(socket, bytes)
    // What came before is sound, and its response the last thing sent here.
    else if (response !== undefined) closeAfter(response)
  }

  /** Closes connections that wait between two requests, or never sent anything. */
  closeSilent(): void {
    for (const [socket, { isUpgraded }] of this.#httpConnections) {
      if (!isUpgraded && socket.bytesRead === 0) socket.destroy()
    }
  }

  /**
   * Closes what no timeout of Node closes. On a connection between two requests a single line end
   * stops the timer of keep-alive and starts no other. A client that reads nothing of its answers
   * is waited for without end, and with it what is still to be sent. Returns how many of those
   * were cut. Sweeps are counted, not time: a process that stood still cuts nobody for it.
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

/** Says so in the response; false if it is too late. */
function closeAfter(response: ServerResponse): boolean {
  if (response.headersSent) return false
  response.shouldKeepAlive = false
  return true
}

/**
 * A socket that is closed while data still comes in is reset, and the client loses the answer. So
 * it is read on for a moment.
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
