/** Both ends of a server as bytes: a client that writes them, an upstream that records them. */
import { createServer, connect, type AddressInfo, type Socket } from 'node:net'

export interface RawResponse {
  readonly status: number
  /** By name in lower case; the last value of a repeated name. */
  readonly headers: ReadonlyMap<string, string>
  readonly body: string
}

export interface RawExchange {
  /** Without `100 Continue`. */
  readonly answers: readonly RawResponse[]
  /** Whether the server closed the connection, not the test. */
  readonly isClosed: boolean
}

/** A server that has not responded after this time will not. */
const PATIENCE_MS = 20_000

/** Sends bytes, in pieces if they must not arrive together, and reads the responses. */
export function exchange(
  port: number,
  bytes: string | Buffer | readonly string[],
  /** How many responses to wait for; by default, until the server closes the connection. */
  count = Number.POSITIVE_INFINITY,
): Promise<RawExchange> {
  const pieces = typeof bytes === 'string' || Buffer.isBuffer(bytes) ? [bytes] : bytes
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1').setNoDelay()
    let text = ''
    let isDone = false
    const timer = setTimeout(() => {
      reject(new Error(`No end after ${JSON.stringify(text.slice(0, 300))}`))
      socket.destroy()
    }, PATIENCE_MS)
    const end = () => {
      clearTimeout(timer)
      resolve({ answers: readAnswers(text), isClosed: !isDone })
    }
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1')
      if (isDone || readAnswers(text).length < count) return
      // Anything that the server sends before it notices this end would be one response too many.
      isDone = true
      setImmediate(() => socket.end())
    })
    // A reset is an end too; the text is what arrived before it.
    socket.on('error', () => undefined)
    socket.on('close', end)
    sendPieces(socket, pieces)
  })
}

/** Sends each piece after the previous one had time to arrive alone. */
function sendPieces(socket: Socket, [piece, ...rest]: readonly (string | Buffer)[]): void {
  if (piece === undefined || !socket.writable) return
  socket.write(typeof piece === 'string' ? Buffer.from(piece, 'latin1') : piece, () => {
    if (rest.length > 0) setTimeout(() => sendPieces(socket, rest), 20)
  })
}

/** The complete responses in a text; an incomplete one is left out. */
export function readAnswers(text: string): RawResponse[] {
  const answers: RawResponse[] = []
  let at = 0
  while (at < text.length) {
    const end = text.indexOf('\r\n\r\n', at)
    if (end === -1) break
    const [line = '', ...lines] = text.slice(at, end).split('\r\n')
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(`${line} `)?.[1])
    const headers = new Map(lines.map((header) => splitHeader(header)))
    const body = readBody(text, end + 4, headers, status)
    if (body === undefined) break
    at = body.end
    if (status !== 100) answers.push({ status, headers, body: body.text })
  }
  return answers
}

function splitHeader(line: string): [name: string, value: string] {
  const colon = line.indexOf(':')
  return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
}

function readBody(
  text: string,
  from: number,
  headers: ReadonlyMap<string, string>,
  status: number,
): { readonly text: string; readonly end: number } | undefined {
  if (headers.get('transfer-encoding') === 'chunked') {
    const last = text.indexOf('\r\n0\r\n\r\n', from - 2)
    return last === -1 ? undefined : { text: text.slice(from, last), end: last + 7 }
  }
  const length = status === 100 || status === 101 ? 0 : Number(headers.get('content-length') ?? 0)
  const end = from + length
  return end > text.length ? undefined : { text: text.slice(from, end), end }
}

export interface RawUpstream {
  readonly port: number
  /** The bytes of each connection since the start. */
  all(): string[]
  /**
   * The bytes of each connection since the last call, as latin1; in the order of the connections.
   */
  take(): string[]
  /** The response instead of 200, as bytes. */
  answer: string
  close(): Promise<void>
}

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

/** Records every byte, and answers each complete request. */
export async function startRawUpstream(): Promise<RawUpstream> {
  const connections: { text: string; taken: number }[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    const kept = { text: '', taken: 0 }
    let answered = 0
    connections.push(kept)
    sockets.add(socket)
    socket.on('data', (chunk: Buffer) => {
      kept.text += chunk.toString('latin1')
      const { requests } = readRequests(kept.text)
      for (; answered < requests.length; answered++) socket.write(upstream.answer)
    })
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const upstream: RawUpstream = {
    port: (server.address() as AddressInfo).port,
    answer: OK,
    all: () => connections.map(({ text }) => text),
    take() {
      const texts = connections.map(({ text, taken }) => text.slice(taken))
      for (const kept of connections) kept.taken = kept.text.length
      return texts.filter((text) => text !== '')
    },
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return upstream
}

interface RawRequest {
  /** Method and target. */
  readonly line: string
  /** Names in the order received, in lower case. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: string
}

export interface ReadRequests {
  readonly requests: readonly RawRequest[]
  /** The bytes after the last complete request. */
  readonly rest: string
}

/** Parses requests as RFC 9112 specifies. */
export function readRequests(text: string): ReadRequests {
  return readWith(text, { lineEnd: /\r\n/g, nameOf: (name) => name, lengthFirst: false })
}

/**
 * Parses requests like a lenient server: line ends without CR, `_` and `.` as `-` in names, spaces
 * around names, and a length that overrides an encoding.
 */
export function readCarelessly(text: string): ReadRequests {
  const nameOf = (name: string) => name.trim().replace(/[_.]/g, '-')
  return readWith(text, { lineEnd: /\r?\n/g, nameOf, lengthFirst: true })
}

interface Reading {
  readonly lineEnd: RegExp
  readonly nameOf: (name: string) => string
  readonly lengthFirst: boolean
}

function readWith(text: string, { lineEnd, nameOf, lengthFirst }: Reading): ReadRequests {
  const requests: RawRequest[] = []
  let at = 0
  for (;;) {
    const lines: string[] = []
    let cursor = at
    for (;;) {
      const line = readLine(text, cursor, lineEnd)
      if (line === undefined) return { requests, rest: text.slice(at) }
      cursor = line.next
      if (line.text === '') break
      lines.push(line.text)
    }
    const [first = '', ...others] = lines
    const headers = others.map((header) => splitHeader(header))
    const valueOf = (wanted: string) => headers.find(([name]) => nameOf(name) === wanted)?.[1]
    const length = valueOf('content-length')
    const isChunked = valueOf('transfer-encoding')?.toLowerCase().includes('chunked') === true
    const body =
      isChunked && !(lengthFirst && length !== undefined)
        ? readChunks(text, cursor, lineEnd)
        : readLength(text, cursor, Number.parseInt(length ?? '0', 10))
    if (body === undefined) return { requests, rest: text.slice(at) }
    requests.push({ line: first.replace(/ HTTP\/1\.1$/, ''), headers, body: body.text })
    at = body.next
  }
}

/** A text and the offset of the next. */
interface Piece {
  readonly text: string
  readonly next: number
}

function readLine(text: string, from: number, lineEnd: RegExp): Piece | undefined {
  lineEnd.lastIndex = from
  const end = lineEnd.exec(text)
  if (end === null) return undefined
  return { text: text.slice(from, end.index), next: end.index + end[0].length }
}

function readLength(text: string, from: number, length: number): Piece | undefined {
  const next = from + length
  return next > text.length ? undefined : { text: text.slice(from, next), next }
}

function readChunks(text: string, from: number, lineEnd: RegExp): Piece | undefined {
  let body = ''
  let next = from
  for (;;) {
    const size = readLine(text, next, lineEnd)
    if (size === undefined) return undefined
    const chunk = readLength(text, size.next, Number.parseInt(size.text, 16))
    const end = chunk && readLine(text, chunk.next, lineEnd)
    if (chunk === undefined || end === undefined) return undefined
    next = end.next
    // The gateway sends no trailers here: an empty line follows the last chunk.
    if (chunk.text === '') return { text: body, next }
    body += chunk.text
  }
}
