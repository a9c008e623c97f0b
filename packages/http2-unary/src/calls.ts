import { ControlCost, type FloodBudget } from './budget.js'
import type { ServerContext } from './context.js'
import { GrpcStatusError } from './errors.js'
import { ErrorCode } from './frames.js'
import { type FrameWriter, MESSAGE_IN_FRAME_MAX, streamWindow, withPrefix } from './frame-writer.js'
import {
  type MessageProblem,
  MessageReader,
  PREFIX_BYTES,
  wholeMessage,
} from './grpc/message-reader.js'
import type { HeldShare } from './held-bytes.js'
import { OwnResets } from './own-resets.js'
import { NO_LENGTH, type RequestHead } from './request-head.js'
import {
  errorResponse,
  HANDLER_FAILED,
  OK_HEAD,
  OK_TRAILERS,
  type Response,
  TOO_MUCH_HELD,
  UNKNOWN_METHOD,
} from './responses.js'
import { SendQueue } from './send-queue.js'
import { type StreamOwner, UnaryStream } from './stream.js'

/** About what a stream costs beside its message and its answer: its objects, and a promise. */
const STREAM_BYTES = 512

interface CallsDeps {
  readonly context: ServerContext
  readonly writer: FrameWriter
  readonly budget: FloodBudget
  readonly remoteAddress: string
  readonly held: HeldShare
  /** Writes what `settled` has collected, later. */
  readonly onSettled: () => void
}

interface Settled {
  readonly stream: UnaryStream
  readonly message: Uint8Array | undefined
  readonly error: unknown
}

/** The streams of one connection: their messages, their handlers and their answers. */
export class Calls {
  readonly #deps: CallsDeps
  readonly #context: ServerContext
  readonly #streams = new Map<number, UnaryStream>()
  readonly #ownResets = new OwnResets()
  readonly #owner: StreamOwner
  readonly queue: SendQueue
  readonly #receiveWindow: number
  /** Handlers that run for streams that were reset. */
  #detached = 0
  #settled: Settled[] = []

  constructor(deps: CallsDeps) {
    this.#deps = deps
    this.#context = deps.context
    const { metadataIndex, limits } = deps.context
    this.#owner = { remoteAddress: deps.remoteAddress, metadataIndex }
    this.#receiveWindow = streamWindow(limits.messageBytes)
    this.queue = new SendQueue({
      writer: deps.writer,
      budget: deps.budget,
      onSent: (stream) => this.finish(stream),
      onHeld: (bytes) => deps.held.change(bytes),
    })
  }

  /** Streams that are open. */
  get size(): number {
    return this.#streams.size
  }

  get(id: number): UnaryStream | undefined {
    return this.#streams.get(id)
  }

  /** Whether this side has closed the stream, so that the client may not know. */
  wasReset(id: number): boolean {
    return this.#ownResets.has(id)
  }

  /** A request begins. */
  open(id: number, head: RequestHead, isEnd: boolean, nowMs: number): void {
    const { limits, methods, counters } = this.#context
    if (head.isMalformed) return this.fault(id, ErrorCode.protocolError)
    const isFull = this.#streams.size + this.#detached >= limits.streams
    if (isFull || this.#deps.held.isOver) {
      counters.streamsRefused += 1
      this.#deps.budget.onAbandoned()
      return this.reset(id, ErrorCode.refusedStream)
    }
    const handler = methods.get(head.path)
    const stream = new UnaryStream(this.#owner, id, head, handler, nowMs, {
      receive: this.#receiveWindow,
      send: this.queue.initialWindow,
    })
    stream.rejection = head.rejection ?? (handler === undefined ? UNKNOWN_METHOD : undefined)
    this.#streams.set(id, stream)
    counters.activeStreams += 1
    stream.ownBytes = STREAM_BYTES + head.metadataBytes
    this.#deps.held.change(stream.ownBytes)
    if (isEnd) this.endRequest(stream, undefined)
  }

  /** The payload of a DATA frame, without its padding. */
  onData(stream: UnaryStream, bytes: Buffer, start: number, end: number, isEnd: boolean): void {
    stream.receivedBytes += end - start
    const { contentLength } = stream
    if (contentLength !== NO_LENGTH && stream.receivedBytes > contentLength) {
      return this.fault(stream.id, ErrorCode.protocolError)
    }
    if (stream.rejection !== undefined) return this.refuse(stream, stream.rejection, isEnd)
    if (isEnd && stream.reader === undefined) {
      const message = wholeMessage(bytes, start, end, this.#context.limits.messageBytes)
      if (message !== undefined) return this.endRequest(stream, message)
    }
    stream.rejection = this.collect(stream, bytes, start, end)
    if (isEnd) this.endRequest(stream, undefined)
    else if (stream.rejection !== undefined) this.respond(stream, stream.rejection)
  }

  /**
   * A request that its headers refuse, and whose body comes. A call of gRPC is not waited for: a
   * client that streams sends no end before it has an answer.
   */
  private refuse(stream: UnaryStream, rejection: Response, isEnd: boolean): void {
    if (isEnd) this.endRequest(stream, undefined)
    else if (rejection.body === undefined) this.respond(stream, rejection)
  }

  /** The request is complete: it is answered, or its handler is called. */
  endRequest(stream: UnaryStream, whole: Buffer | undefined): void {
    const { contentLength, rejection } = stream
    stream.isRemoteClosed = true
    if (contentLength !== NO_LENGTH && contentLength !== stream.receivedBytes) {
      return this.fault(stream.id, ErrorCode.protocolError)
    }
    if (rejection !== undefined) return this.respond(stream, rejection)
    const message = whole ?? (stream.reader ?? new MessageReader(0)).end()
    if (!Buffer.isBuffer(message)) return this.respond(stream, problemResponse(message))
    this.release(stream)
    this.call(stream, message)
  }

  /** The client gives the stream up. */
  onPeerReset(stream: UnaryStream): void {
    this.#context.counters.resets += 1
    this.remove(stream)
  }

  /** A frame that is wrong for its stream: no client that works sends any. */
  fault(id: number, code: number): void {
    this.#deps.budget.onControlFrame(ControlCost.streamFault)
    this.reset(id, code)
  }

  reset(id: number, code: number): void {
    const stream = this.#streams.get(id)
    if (stream !== undefined) this.remove(stream)
    this.#ownResets.add(id)
    this.#deps.writer.rstStream(id, code)
  }

  /** The client changes the window that every stream begins with. */
  changeInitialWindow(window: number): void {
    this.queue.changeInitialWindow(window, this.#streams.values())
  }

  /** Writes the answers of promises. */
  writeSettled(): void {
    const settled = this.#settled
    this.#settled = []
    for (const { stream, message, error } of settled) {
      stream.isRunning = false
      if (stream.isReset) {
        this.#detached -= 1
        this.forget(stream)
      } else if (message === undefined) {
        this.answerError(stream, error)
      } else {
        this.answer(stream, message)
      }
    }
  }

  /** Resets what has taken too long. */
  sweep(nowMs: number): void {
    const { requestMs, callMs, stalledMs } = this.#context.limits
    for (const stream of this.#streams.values()) {
      const isSlow = nowMs - stream.openedMs > (stream.isRemoteClosed ? callMs : requestMs)
      const isStalled = stream.pending !== undefined && nowMs - stream.waitingSinceMs > stalledMs
      if (!isSlow && !isStalled) continue
      this.#context.counters.timeouts += 1
      this.reset(stream.id, ErrorCode.cancel)
    }
  }

  /** The connection is gone. */
  dropAll(): void {
    for (const stream of this.#streams.values()) this.remove(stream)
  }

  private collect(
    stream: UnaryStream,
    bytes: Buffer,
    start: number,
    end: number,
  ): Response | undefined {
    const { limits } = this.#context
    stream.reader ??= new MessageReader(limits.messageBytes)
    const before = stream.reader.heldBytes
    const problem = stream.reader.push(bytes, start, end)
    this.#deps.held.change(stream.reader.heldBytes - before)
    if (problem !== undefined) return problemResponse(problem)
    return stream.reader.heldBytes > 0 && this.#deps.held.isOver ? TOO_MUCH_HELD : undefined
  }

  private call(stream: UnaryStream, message: Buffer): void {
    const { handler } = stream
    if (handler === undefined) return
    this.#context.counters.calls += 1
    let answer: Uint8Array | Promise<Uint8Array>
    try {
      answer = handler(message, stream)
    } catch (error) {
      return this.answerError(stream, error)
    }
    if (answer instanceof Uint8Array) return this.answer(stream, answer)
    stream.isRunning = true
    Promise.resolve(answer).then(
      (late) => this.settle(stream, late, undefined),
      (error: unknown) => this.settle(stream, undefined, error),
    )
  }

  private settle(stream: UnaryStream, message: Uint8Array | undefined, error: unknown): void {
    const isAnswer = message instanceof Uint8Array
    this.#settled.push({
      stream,
      message: isAnswer ? message : undefined,
      error: isAnswer ? undefined : (error ?? new TypeError('A handler returned no bytes.')),
    })
    if (this.#settled.length === 1) this.#deps.onSettled()
  }

  private answer(stream: UnaryStream, message: Uint8Array): void {
    const bytes = message.length + PREFIX_BYTES
    if (message.length <= MESSAGE_IN_FRAME_MAX && this.queue.tryTake(stream, bytes)) {
      this.#deps.writer.answer(stream.id, message)
      this.finish(stream)
      return
    }
    this.#deps.writer.headers(stream.id, OK_HEAD, false)
    this.queue.send(stream, withPrefix(message), OK_TRAILERS, this.#context.now())
  }

  private answerError(stream: UnaryStream, error: unknown): void {
    if (error instanceof GrpcStatusError) {
      return this.respond(stream, errorResponse(error.code, error.message))
    }
    this.#context.counters.handlerErrors += 1
    this.#context.onError(error, stream.path)
    this.respond(stream, HANDLER_FAILED)
  }

  private respond(stream: UnaryStream, response: Response): void {
    const { head, body, trailers } = response
    const isWhole = body === undefined && trailers === undefined
    this.#deps.writer.headers(stream.id, head, isWhole)
    if (body === undefined) this.finish(stream)
    else this.queue.send(stream, body, trailers, this.#context.now())
  }

  /** The answer has left. A request that goes on is of no use any more. */
  private finish(stream: UnaryStream): void {
    this.#context.counters.answers += 1
    this.#deps.budget.onCallAnswered()
    if (stream.isRemoteClosed) this.remove(stream)
    else this.reset(stream.id, ErrorCode.noError)
  }

  private remove(stream: UnaryStream): void {
    this.#streams.delete(stream.id)
    this.queue.drop(stream)
    this.release(stream)
    stream.isReset = true
    if (stream.isRunning) this.#detached += 1
    else this.forget(stream)
  }

  /** Neither the connection nor a handler has the stream any more. */
  private forget(stream: UnaryStream): void {
    this.#context.counters.activeStreams -= 1
    this.#deps.held.change(-stream.ownBytes)
  }

  private release(stream: UnaryStream): void {
    if (stream.reader === undefined) return
    this.#deps.held.change(-stream.reader.heldBytes)
    stream.reader = undefined
  }
}

const problemResponse = (problem: MessageProblem) => errorResponse(problem.status, problem.message)
