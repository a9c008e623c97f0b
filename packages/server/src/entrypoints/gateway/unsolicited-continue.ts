/**
 * Makes undici accept an unsolicited `100 Continue`. A client must be able to parse such responses
 * (RFC 9110, 15.2), and some servers send one before every response to a POST; undici accepts 102,
 * 103 and others, but aborts the connection at 100, and no option changes that.
 *
 * So 100 becomes 102 in the status line as it is read from the socket. undici passes it to the
 * handler of the call like any informational response, and the handler drops it. No byte is delayed
 * or removed: the parser of undici still bounds heads, and the timer of the call their number.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import type { buildConnector } from 'undici'

/** undici publishes to it right before it writes the first byte of a request. */
const SEND_HEADERS = 'undici:client:sendHeaders'

/** Shared by all connections of one set of upstreams. */
export class UnsolicitedContinues {
  readonly #rewriters = new WeakMap<object, ContinueRewriter>()
  readonly #onSend = (message: unknown) => {
    const isMessage = typeof message === 'object' && message !== null && 'socket' in message
    const socket = isMessage ? message.socket : undefined
    if (typeof socket === 'object' && socket !== null) this.#rewriters.get(socket)?.expectAnswer()
  }

  constructor() {
    subscribe(SEND_HEADERS, this.#onSend)
  }

  /** Creates a connector for sockets whose unsolicited 100 Continue undici can read. */
  wrap(connect: buildConnector.connector): buildConnector.connector {
    return (options, callback) =>
      connect(options, (...result) => {
        const [error, socket] = result
        // After an error there is no socket, whatever the types say.
        if (error === null) this.#rewriters.set(socket, rewriteReads(socket))
        callback(...result)
      })
  }

  close(): void {
    unsubscribe(SEND_HEADERS, this.#onSend)
  }
}

/** undici reads all bytes of a socket by `read`. */
function rewriteReads(socket: Socket): ContinueRewriter {
  const rewriter = new ContinueRewriter()
  const read = socket.read.bind(socket)
  socket.read = (size?: number): Buffer | null => {
    const chunk: unknown = read(size)
    if (!Buffer.isBuffer(chunk)) return null
    rewriter.rewrite(chunk)
    return chunk
  }
  return rewriter
}

/** The beginning of an informational response; `x` is any digit. */
const INFORMATIONAL = 'HTTP/1.x 1xx'
const LF = 10
const CR = 13
const ZERO = 48
const ONE = 49
const TWO = 50

const PASSING = 0
const STATUS = 1
const HEAD = 2

/**
 * Follows the bytes of a connection from the sending of a request to the status of its response.
 * Later bytes, such as a body that looks like a response, are ignored until the next request is
 * sent: a connection carries one at a time.
 */
export class ContinueRewriter {
  #state: typeof PASSING | typeof STATUS | typeof HEAD = PASSING
  /** The position in INFORMATIONAL, in state STATUS; in the current line, in state HEAD. */
  #length = 0
  /** The second digit of a status. */
  #digit = 0

  expectAnswer(): void {
    this.#state = STATUS
    this.#length = 0
  }

  /** Changes the chunk in place. */
  rewrite(chunk: Buffer): void {
    for (let i = 0; i < chunk.length && this.#state !== PASSING; i++) {
      const byte = chunk[i] ?? 0
      if (this.#state === HEAD) this.readHead(byte)
      else if (this.readStatus(byte)) chunk[i] = TWO
    }
  }

  /** Whether the byte is the last digit of 100. */
  private readStatus(byte: number): boolean {
    // Parsers skip empty lines before a response.
    if (this.#length === 0 && (byte === CR || byte === LF)) return false
    const expected = INFORMATIONAL[this.#length++]
    if (expected === 'x' ? !isDigit(byte) : byte !== expected?.charCodeAt(0)) {
      this.#state = PASSING
      return false
    }
    if (this.#length === INFORMATIONAL.length - 1) this.#digit = byte
    if (this.#length < INFORMATIONAL.length) return false
    // 101 is the last HTTP response on its connection.
    this.#state = this.#digit === ZERO && byte === ONE ? PASSING : HEAD
    return this.#digit === ZERO && byte === ZERO
  }

  /** An empty line ends the head; the next response follows. */
  private readHead(byte: number): void {
    if (byte === LF && this.#length === 0) this.expectAnswer()
    else if (byte === LF) this.#length = 0
    else if (byte !== CR) this.#length++
  }
}

function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= ZERO + 9
}
