import type { FloodBudget } from './budget.js'
import { ConnectionError } from './errors.js'
import { ErrorCode, FRAME_BYTES_MAX, WINDOW_DEFAULT, WINDOW_MAX } from './frames.js'
import type { FrameWriter } from './frame-writer.js'
import type { UnaryStream } from './stream.js'

interface SendQueueDeps {
  readonly writer: FrameWriter
  readonly budget: FloodBudget
  /** The answer of the stream has left whole. */
  readonly onSent: (stream: UnaryStream) => void
  /** How many bytes more, or less, wait for a window. */
  readonly onHeld: (bytes: number) => void
}

/**
 * Sends bodies as far as the windows of the client allow, and holds the rest. Streams that wait for
 * the window of the connection take turns in the order in which they came; those that wait for
 * their own are not looked at until it opens, so an update costs as much as it lets through.
 */
export class SendQueue {
  readonly #deps: SendQueueDeps
  #window = WINDOW_DEFAULT
  /** The window that a new stream has. */
  initialWindow = WINDOW_DEFAULT
  /** Their own window is open; that of the connection was not. */
  readonly #ready = new Set<UnaryStream>()

  constructor(deps: SendQueueDeps) {
    this.#deps = deps
  }

  /** Whether these bytes may leave at once; if so, they are counted. */
  tryTake(stream: UnaryStream, bytes: number): boolean {
    if (bytes > this.#window || bytes > stream.sendWindow) return false
    this.take(stream, bytes)
    return true
  }

  /** Sends a body, now or when the windows allow. */
  send(stream: UnaryStream, body: Buffer, trailers: Buffer | undefined, nowMs: number): void {
    stream.pending = body
    stream.pendingAt = 0
    stream.trailers = trailers
    stream.waitingSinceMs = nowMs
    this.#deps.onHeld(body.length)
    this.advance(stream)
  }

  /** The stream is gone: what it had to send is dropped. */
  drop(stream: UnaryStream): void {
    if (stream.pending === undefined) return
    this.#deps.onHeld(-stream.pending.length)
    stream.pending = undefined
    this.#ready.delete(stream)
  }

  openConnection(increment: number): void {
    this.#window += increment
    if (this.#window > WINDOW_MAX) {
      throw new ConnectionError(
        ErrorCode.flowControlError,
        'the window of the connection overflows',
      )
    }
    for (const stream of this.#ready) {
      if (this.#window <= 0) return
      this.advance(stream)
    }
  }

  /** Returns false if the window overflows. */
  openStream(stream: UnaryStream, increment: number): boolean {
    stream.sendWindow += increment
    if (stream.sendWindow > WINDOW_MAX) return false
    if (stream.pending !== undefined) this.advance(stream)
    return true
  }

  /** A new initial window changes that of every open stream, which may become negative. */
  changeInitialWindow(window: number, streams: Iterable<UnaryStream>): void {
    const change = window - this.initialWindow
    this.initialWindow = window
    if (change === 0) return
    for (const stream of streams) {
      if (this.openStream(stream, change)) continue
      throw new ConnectionError(ErrorCode.flowControlError, 'the window of a stream overflows')
    }
  }

  private take(stream: UnaryStream, bytes: number): void {
    this.#window -= bytes
    stream.sendWindow -= bytes
    this.#deps.budget.onDataSent()
  }

  private advance(stream: UnaryStream): void {
    const body = stream.pending
    if (body === undefined) return
    while (stream.pendingAt < body.length) {
      const start = stream.pendingAt
      const room = Math.min(this.#window, stream.sendWindow, FRAME_BYTES_MAX)
      if (room <= 0) return this.wait(stream)
      const end = Math.min(body.length, start + room)
      this.take(stream, end - start)
      stream.pendingAt = end
      const isEnd = end === body.length && stream.trailers === undefined
      this.#deps.writer.data(stream.id, body, start, end, isEnd)
    }
    this.drop(stream)
    if (stream.trailers !== undefined) this.#deps.writer.headers(stream.id, stream.trailers, true)
    this.#deps.onSent(stream)
  }

  private wait(stream: UnaryStream): void {
    if (stream.sendWindow > 0) this.#ready.add(stream)
    else this.#ready.delete(stream)
  }
}
