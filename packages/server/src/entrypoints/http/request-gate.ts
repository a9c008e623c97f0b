/**
 * Passes the bytes of a connection to Node's parser in pieces, so that only a bounded number of its
 * requests is in flight. Node alone parses a whole read of 64 KiB, which may contain a thousand
 * requests, and keeps their responses in the heap for a client that never reads them.
 *
 * The rest of a read goes back into the buffer of the socket, which is paused until responses are
 * done; TCP then applies backpressure to the client. A piece ends where the head of a request may
 * end, so a piece with n possible ends contains at most n requests.
 *
 * Connections also take turns. In one turn of the event loop few requests of one connection begin,
 * and connections with more continue a few at a time. So a caller with one request never waits
 * behind a thousand connections that have thousands of requests each.
 */
import type { Socket } from 'node:net'

/** Requests of one HTTP/1.1 connection that are parsed and not yet answered. */
export const PIPELINED_REQUESTS_MAX = 32
/** A socket is resumed when this many may begin, and not for each. */
const RESUME_ROOM = PIPELINED_REQUESTS_MAX / 2
/** Requests of one connection that begin in one turn of the event loop. */
export const REQUESTS_PER_TURN = 4
/** Pieces of one connection in one turn: a body of empty lines consists only of piece ends. */
const PIECES_PER_TURN = 256
/** How many waiting connections continue in one turn. */
export const RESUMED_PER_TURN = 16

/** What a gate needs to know about its connection. */
export interface GatedConnection {
  /** How many more requests may begin now. */
  room(): number
  /** How many requests have begun. */
  requestsStarted(): number
  /** Whether the last request is incomplete: the next bytes belong to it. */
  isBodyDue(): boolean
  /** Whether further bytes are useless, and are dropped. */
  isEnding(): boolean
}

const LF = 10
const CR = 13
/** `GET /` and two line feeds: no parser accepts less as a request. */
const REQUEST_BYTES_MIN = 7
const NOTHING = Buffer.alloc(0)

export class RequestGate {
  readonly #socket: Socket
  readonly #connection: GatedConnection
  readonly #parse: (bytes: Buffer) => void
  readonly #onData = (bytes: Buffer) => this.take(bytes)
  /** The bytes of the current read that the parser has not received. */
  #rest: Buffer = NOTHING
  /** Whether this gate has paused the socket. */
  #isHolding = false
  /** Whether it waits for its turn. */
  #isWaiting = false

  /** Throws if Node does not read this socket as documented: by a listener for `data`. */
  constructor(socket: Socket, connection: GatedConnection) {
    const [parse, ...others] = socket.listeners('data')
    if (parse === undefined || others.length > 0) throw new Error('no parser reads the connection')
    this.#socket = socket
    this.#connection = connection
    this.#parse = parse as (bytes: Buffer) => void
    // One more listener, of any kind, takes the socket from the parser's native reads.
    socket.on('data', this.#onData)
    socket.off('data', parse as () => void)
  }

  /** Continues in a later turn, if there is room again; called when a response is done. */
  release(): void {
    if (this.#isHolding && this.#connection.room() >= RESUME_ROOM) this.awaitTurn()
  }

  /** Continues reading; called when the turn of this connection has come. */
  resume(): void {
    this.#isWaiting = false
    if (!this.#isHolding || this.#socket.destroyed) return
    this.#isHolding = false
    this.#socket.resume()
  }

  /** Leaves the socket to another protocol, with the bytes that the parser has not received. */
  detach(): void {
    this.#socket.off('data', this.#onData)
    this.#isHolding = false
    const rest = this.#rest
    this.#rest = NOTHING
    if (rest.length > 0) this.#socket.unshift(rest)
  }

  private awaitTurn(): void {
    if (this.#isWaiting) return
    this.#isWaiting = true
    awaitTurn(this)
  }

  private take(bytes: Buffer): void {
    const socket = this.#socket
    const connection = this.#connection
    // The reader of a body resumes the socket.
    if (this.#isWaiting) {
      socket.pause()
      socket.unshift(bytes)
      return
    }
    const lastOfTurn = connection.requestsStarted() + REQUESTS_PER_TURN
    this.#rest = bytes
    this.#isHolding = false
    for (let pieces = 0; this.#rest.length > 0; pieces++) {
      if (connection.isEnding()) {
        this.#rest = NOTHING
        return
      }
      // Unread body bytes, or responses that the client does not read, fill the buffers: Node has
      // paused the socket, and will resume it.
      if (socket.isPaused() || socket.destroyed) break
      const room = connection.room()
      const isTurnOver = pieces === PIECES_PER_TURN
      const end = isTurnOver
        ? 0
        : this.pieceEnd(this.#rest, Math.min(room, lastOfTurn - connection.requestsStarted()))
      if (end === 0) {
        this.#isHolding = true
        socket.pause()
        if (isTurnOver || room > 0) this.awaitTurn()
        break
      }
      const piece = this.#rest.subarray(0, end)
      this.#rest = this.#rest.subarray(end)
      // May detach.
      this.#parse(piece)
    }
    const rest = this.#rest
    this.#rest = NOTHING
    if (rest.length > 0 && !socket.destroyed) socket.unshift(rest)
  }

  /** How many bytes may be parsed without exceeding the allowed number of requests. */
  private pieceEnd(bytes: Buffer, room: number): number {
    if (room > 0) {
      if (bytes.length <= room * REQUEST_BYTES_MIN) return bytes.length
      return endOfHeads(bytes, room)
    }
    if (!this.#connection.isBodyDue()) return 0
    // All but the last byte of a head that may follow the body. A byte that comes first cannot be
    // such an end: the body is still incomplete.
    const end = endOfHeads(bytes, 1)
    return endsHead(bytes, end - 1) ? Math.max(1, end - 1) : end
  }
}

/** The connections of all listeners that wait for their turn, first in, first out. */
const waiting: RequestGate[] = []
let isTurnDue = false

function awaitTurn(gate: RequestGate): void {
  waiting.push(gate)
  if (isTurnDue) return
  isTurnDue = true
  setImmediate(takeTurns)
}

/** Between two calls, the event loop serves other connections. */
function takeTurns(): void {
  for (const gate of waiting.splice(0, RESUMED_PER_TURN)) gate.resume()
  isTurnDue = waiting.length > 0
  if (isTurnDue) setImmediate(takeTurns)
}

/**
 * The offset after the byte that may end the head of the `count`th request; the end if there are
 * fewer.
 */
function endOfHeads(bytes: Buffer, count: number): number {
  let found = 0
  for (let at = bytes.indexOf(LF); at !== -1; at = bytes.indexOf(LF, at + 1)) {
    if (endsHead(bytes, at) && ++found === count) return at + 1
  }
  return bytes.length
}

/**
 * Whether a byte may be the end of a head, which is an empty line. The bytes before line feeds near
 * the start are unknown here, so these may be one.
 */
function endsHead(bytes: Buffer, at: number): boolean {
  if (bytes[at] !== LF) return false
  if (at === 0 || bytes[at - 1] === LF) return true
  return bytes[at - 1] === CR && (at === 1 || bytes[at - 2] === LF)
}
