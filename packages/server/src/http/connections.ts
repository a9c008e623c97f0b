/** The open connections of a listener, and what is under way on each. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

interface Connection {
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
}

/** How long a client may still read our last words before the connection is cut. */
const LINGER_MS = 1000
/** A connection that was idle in so many sweeps is closed. */
export const IDLE_SWEEPS_MAX = 16

export class Connections {
  /** Every one, also those that are still at their TLS handshake. */
  readonly #sockets = new Set<Socket>()
  readonly #speaking = new Map<Socket, Connection>()
  #inFlight = 0
  #isDraining = false

  inFlight(): number {
    return this.#inFlight
  }

  /** A connection was made. */
  add(socket: Socket): void {
    this.#sockets.add(socket)
    socket.once('close', () => this.#sockets.delete(socket))
  }

  /** A connection begins to speak HTTP. */
  speak(socket: Socket): void {
    const connection: Connection = {
      inFlight: 0,
      request: undefined,
      response: undefined,
      idleSweeps: 0,
      isUpgraded: false,
      isEnding: false,
    }
    this.#speaking.set(socket, connection)
    // Each of the requests that a client sends without waiting listens for the end.
    socket.setMaxListeners(0)
    socket.once('close', () => {
      // A response that waits for its turn does not hear of the end.
      this.#inFlight -= connection.inFlight
      this.#speaking.delete(socket)
    })
  }

  /** A request is there, its response is to come. */
  begin(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request
    const connection = this.#speaking.get(socket)
    if (connection === undefined) return
    connection.inFlight++
    connection.request = request
    connection.response = response
    connection.idleSweeps = 0
    this.#inFlight++
    if (this.#isDraining) closeAfter(response)
    response.once('close', () => {
      if (!this.#speaking.has(socket)) return
      connection.inFlight--
      this.#inFlight--
      if (connection.isEnding && connection.inFlight === 0) endSlowly(socket)
    })
  }

  upgrade(socket: Socket): void {
    const connection = this.#speaking.get(socket)
    if (connection === undefined) return
    connection.isUpgraded = true
    // Its answer would come before those that are due.
    if (connection.inFlight > 0) socket.destroy()
  }

  /** From now on every response is the last of its connection. */
  drain(): void {
    this.#isDraining = true
    // Of several responses on one connection only the last may end it.
    for (const { response } of this.#speaking.values()) closeAfter(response)
  }

  /**
   * Ends a connection on which something came that is no request: with these bytes, where they can
   * be taken for nothing but the answer to it.
   */
  refuse(socket: Socket, bytes: string, endIt: (socket: Socket, bytes: string) => void): void {
    const connection = this.#speaking.get(socket)
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
    } else if (inFlight === 0) endIt(socket, bytes)
    // What came before is sound, and its response the last thing sent here.
    else closeAfter(response)
  }

  /** Closes connections that wait between two requests, or never sent anything. */
  closeSilent(): void {
    for (const [socket, { isUpgraded }] of this.#speaking) {
      if (!isUpgraded && socket.bytesRead === 0) socket.destroy()
    }
  }

  /**
   * Closes what no timeout of Node closes: on a connection between two requests a single line end
   * stops the timer of keep-alive and starts no other.
   */
  sweep(): void {
    for (const [socket, connection] of this.#speaking) {
      if (connection.inFlight > 0 || connection.isUpgraded) continue
      if (++connection.idleSweeps > IDLE_SWEEPS_MAX) socket.destroy()
    }
  }

  destroyAll(): void {
    for (const socket of this.#sockets) socket.destroy()
  }
}

/** Says so in the response, if that is not too late. */
export function closeAfter(response: ServerResponse | undefined): void {
  if (response !== undefined && !response.headersSent) response.shouldKeepAlive = false
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
