import { ControlCost, FloodBudget } from './budget.js'
import { Calls } from './calls.js'
import type { AnswerWriter, ServerContext } from './context.js'
import { ConnectionError } from './errors.js'
import { type FrameHandler, FrameReader } from './frame-reader.js'
import { ErrorCode, Flag, FrameType, readUint31, STREAM_ID_MAX, WINDOW_DEFAULT } from './frames.js'
import { FrameWriter, ownSettings } from './frame-writer.js'
import { HeaderBlock } from './header-block.js'
import { HeldShare } from './held-bytes.js'
import { HpackDecoder } from './hpack/decoder.js'
import type { Transport } from './output.js'
import { readPeerSettings } from './peer-settings.js'
import { RequestHead } from './request-head.js'
import type { UnaryStream } from './stream.js'

/**
 * What a client may have under way on one connection: some thousand calls. It is given back when
 * half of it was received; what is held of it is bounded apart.
 */
const CONNECTION_WINDOW = 1024 * 1024

/** How long a client may take to close a connection that this side has ended. */
const LINGER_MS = 1_000

/** The payload of the PING that follows the first GOAWAY of a drain. */
const DRAIN_PING = Buffer.from('draining', 'latin1')

/** The payload of the PING that asks a client whether it is still there. */
const ALIVE_PING = Buffer.from('alive...', 'latin1')

/** Connections differ in their age by up to this part of it, so that they do not end together. */
const AGE_SPREAD = 0.1

/** The priority of a stream in a frame of HEADERS, which is ignored. */
const PRIORITY_BYTES = 5

/**
 * `announced`: the client was asked to open no more streams. `last`: those after the last one are
 * ignored. `ended`: nothing is sent any more.
 */
type Phase = 'open' | 'announced' | 'last' | 'ended'

/** One connection of a client: a state machine without a socket and without a clock. */
export class Connection implements FrameHandler, AnswerWriter {
  readonly #context: ServerContext
  readonly #transport: Transport
  readonly #writer: FrameWriter
  readonly #budget: FloodBudget
  readonly #reader = new FrameReader(this)
  readonly #decoder: HpackDecoder
  readonly #head: RequestHead
  readonly #block = new HeaderBlock()
  readonly #calls: Calls
  readonly #held: HeldShare
  readonly #createdMs: number

  #phase: Phase = 'open'
  /** When the phase began. */
  #phaseMs: number
  #nowMs: number
  /** When the client was asked to go. */
  #drainedMs: number | undefined
  #hasSettings = false
  #isAcknowledged = false
  #isPeerLeaving = false
  #isScheduled = false
  #isEndSent = false
  /** The highest stream of the client, and the last numbers that it left out. */
  #lastStreamId = 0
  #skippedFrom = 0
  #skippedTo = 0
  /** Streams above it are ignored. */
  #streamIdMax = STREAM_ID_MAX
  /** What the client may still send, and what is to be given back. */
  #receiveWindow = CONNECTION_WINDOW
  #received = 0
  /** When the last call began. */
  #activeMs: number
  /** The age at which this connection ends. */
  readonly #ageMs: number
  /** When something was last read from the client. */
  #readMs: number
  /** When the client was asked whether it is there, if it has sent nothing since. */
  #pingedMs: number | undefined

  constructor(context: ServerContext, transport: Transport, remoteAddress: string, nowMs: number) {
    this.#context = context
    this.#transport = transport
    this.#createdMs = nowMs
    this.#phaseMs = nowMs
    this.#nowMs = nowMs
    this.#activeMs = nowMs
    this.#readMs = nowMs
    this.#ageMs = context.limits.ageMs * (1 + AGE_SPREAD * (2 * context.random() - 1))
    this.#writer = new FrameWriter(context.output)
    this.#budget = new FloodBudget(nowMs)
    this.#decoder = new HpackDecoder(context.names, context.statics)
    this.#head = new RequestHead(context.limits.headerListBytes)
    const { held, limits } = context
    this.#held = new HeldShare(held, limits.connectionHeldBytes, () => transport.backlogBytes)
    this.#calls = new Calls({
      context,
      writer: this.#writer,
      budget: this.#budget,
      remoteAddress,
      held: this.#held,
      onSettled: () => this.scheduleAnswers(),
    })
  }

  get isEnded(): boolean {
    return this.#phase === 'ended'
  }

  /** Whether the client was asked to open no more streams, and may not know of it yet. */
  get isLeaving(): boolean {
    return this.#phase === 'announced'
  }

  /** Calls whose answer has not left, by their number; output that waits counts as one. */
  get inFlight(): number {
    return this.#calls.size + (this.#transport.backlogBytes > 0 ? 1 : 0)
  }

  /** Sends what a server sends first. */
  start(): void {
    this.run(() => {
      this.#writer.settings(ownSettings(this.#context.limits))
      this.#writer.windowUpdate(0, CONNECTION_WINDOW - WINDOW_DEFAULT)
    })
  }

  /** Never throws, whatever the client sends. */
  receive(chunk: Buffer, nowMs: number): void {
    if (this.isEnded) return
    this.#nowMs = nowMs
    this.#readMs = nowMs
    this.#pingedMs = undefined
    this.#budget.refill(nowMs)
    this.run(() => this.#reader.read(chunk, nowMs))
    const { pauseMs } = this.#budget
    if (pauseMs === 0 || this.isEnded) return
    this.#context.counters.pauses += 1
    this.#transport.pauseFor(pauseMs)
  }

  writeAnswers(): void {
    this.#isScheduled = false
    if (this.isEnded) this.#calls.writeSettled()
    else this.run(() => this.#calls.writeSettled())
  }

  /** Asks the client to open no more streams, and ends the connection when all calls have ended. */
  drain(nowMs: number): void {
    if (this.#phase !== 'open') return
    this.#nowMs = nowMs
    this.#drainedMs = nowMs
    this.enterPhase('announced')
    this.run(() => {
      this.#writer.goaway(STREAM_ID_MAX, ErrorCode.noError, '')
      this.#writer.ping(DRAIN_PING, 0, false)
    })
  }

  /** Looks at every deadline. Called about once a second. */
  sweep(nowMs: number): void {
    this.#nowMs = nowMs
    if (this.isEnded) {
      this.#held.countBacklog()
      if (nowMs - this.#phaseMs > LINGER_MS) this.#transport.destroy()
      return
    }
    this.run(() => this.checkTimes(nowMs))
  }

  /** The socket is gone. */
  onClosed(): void {
    this.#phase = 'ended'
    this.#calls.dropAll()
    this.#held.countBacklog(0)
  }

  onFrame(
    type: number,
    flags: number,
    streamId: number,
    bytes: Buffer,
    start: number,
    end: number,
  ): void {
    if (this.isEnded) return
    if (
      this.#block.isOpen &&
      !(type === FrameType.continuation && streamId === this.#block.streamId)
    ) {
      throw violation('a frame within a block of headers')
    }
    if (!this.#hasSettings && (type !== FrameType.settings || (flags & Flag.ack) !== 0)) {
      throw violation('the first frame is not SETTINGS')
    }
    switch (type) {
      case FrameType.data:
        return this.onData(flags, streamId, bytes, start, end)
      case FrameType.headers:
        return this.onHeaders(flags, streamId, bytes, start, end)
      case FrameType.priority:
        return this.onPriority(streamId, bytes, start, end)
      case FrameType.rstStream:
        return this.onRstStream(streamId, end - start)
      case FrameType.settings:
        return this.onSettings(flags, streamId, bytes, start, end)
      case FrameType.pushPromise:
        throw violation('a client cannot push')
      case FrameType.ping:
        return this.onPing(flags, streamId, bytes, start, end)
      case FrameType.goaway:
        return this.onGoaway(streamId, end - start)
      case FrameType.windowUpdate:
        return this.onWindowUpdate(streamId, bytes, start, end)
      case FrameType.continuation:
        return this.onContinuation(flags, bytes, start, end)
      default:
        this.#budget.onControlFrame(ControlCost.frame)
    }
  }

  private onData(flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    const length = end - start
    this.#receiveWindow -= length
    if (this.#receiveWindow < 0) throw overflow('DATA exceeds the window of the connection')
    this.giveBack(length)
    const isEnd = (flags & Flag.endStream) !== 0
    const padding = (flags & Flag.padded) === 0 ? 0 : paddingOf(bytes, start, end)
    const from = padding === 0 ? start : start + 1
    const to = padding === 0 ? end : end - padding + 1
    if (from === to && !isEnd) this.#budget.onControlFrame(ControlCost.frame)
    const stream = this.#calls.get(id)
    if (stream === undefined) return this.onClosedStream(id)
    if (stream.isRemoteClosed) return this.#calls.fault(id, ErrorCode.streamClosed)
    stream.receiveWindow -= length
    if (stream.receiveWindow < 0) return this.#calls.fault(id, ErrorCode.flowControlError)
    if (padding > 0 && !isEnd) {
      stream.receiveWindow += padding
      this.#writer.windowUpdate(id, padding)
    }
    this.#calls.onData(stream, bytes, from, to, isEnd)
  }

  /** Returns window to the client, in few updates. */
  private giveBack(bytes: number): void {
    this.#received += bytes
    if (this.#received < CONNECTION_WINDOW / 2) return
    this.#writer.windowUpdate(0, this.#received)
    this.#receiveWindow += this.#received
    this.#received = 0
  }

  private onHeaders(flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    if (id % 2 === 0) throw violation('HEADERS on a stream that no client opens')
    const padding = (flags & Flag.padded) === 0 ? 0 : paddingOf(bytes, start, end)
    let from = padding === 0 ? start : start + 1
    const to = padding === 0 ? end : end - padding + 1
    if ((flags & Flag.priority) !== 0) {
      if (to - from < PRIORITY_BYTES) throw frameSize('HEADERS without their priority')
      if (readUint31(bytes, from) === id) throw violation('a stream that depends on itself')
      from += PRIORITY_BYTES
    }
    const isEnd = (flags & Flag.endStream) !== 0
    if ((flags & Flag.endHeaders) !== 0) return this.onBlock(id, isEnd, bytes, from, to)
    this.#block.open(id, isEnd, this.#nowMs)
    this.#block.append(bytes, from, to)
  }

  private onContinuation(flags: number, bytes: Buffer, start: number, end: number): void {
    if (!this.#block.isOpen) throw violation('CONTINUATION without HEADERS')
    this.#block.continue(bytes, start, end)
    if ((flags & Flag.endHeaders) === 0) return
    const { streamId, isEndOfStream } = this.#block
    const block = this.#block.close()
    this.onBlock(streamId, isEndOfStream, block, 0, block.length)
  }

  /** A whole block: a request, or its trailers. It is decoded in any case, for the table. */
  private onBlock(id: number, isEnd: boolean, bytes: Buffer, start: number, end: number): void {
    const stream = id > this.#lastStreamId ? undefined : this.#calls.get(id)
    const head = this.#head
    head.begin(stream !== undefined)
    this.#decoder.decode(bytes, start, end, head)
    if (stream !== undefined) return this.onTrailers(stream, isEnd)
    if (id <= this.#lastStreamId) return this.onClosedStream(id)
    if (id > this.#lastStreamId + 2) {
      this.#skippedFrom = this.#lastStreamId + 1
      this.#skippedTo = id - 1
    }
    this.#lastStreamId = id
    if (id > this.#streamIdMax) return
    this.#activeMs = this.#nowMs
    this.#calls.open(id, head, isEnd, this.#nowMs)
  }

  private onTrailers(stream: UnaryStream, isEnd: boolean): void {
    if (stream.isRemoteClosed) return this.#calls.fault(stream.id, ErrorCode.streamClosed)
    if (!isEnd || this.#head.isMalformed) {
      return this.#calls.fault(stream.id, ErrorCode.protocolError)
    }
    this.#calls.endRequest(stream, undefined)
  }

  /** DATA or HEADERS of a stream that is not open. */
  private onClosedStream(id: number): void {
    if (this.isIdle(id)) throw violation('a frame on a stream that was not opened')
    if (id > this.#streamIdMax || this.#calls.wasReset(id)) return
    throw new ConnectionError(ErrorCode.streamClosed, 'a frame on a stream that is closed')
  }

  private isIdle(id: number): boolean {
    const isSkipped = id >= this.#skippedFrom && id <= this.#skippedTo
    return id % 2 === 0 || id > this.#lastStreamId || isSkipped
  }

  private onPriority(id: number, bytes: Buffer, start: number, end: number): void {
    if (id === 0) throw violation('PRIORITY of the connection')
    if (end - start !== PRIORITY_BYTES) throw frameSize('PRIORITY of a wrong length')
    if (readUint31(bytes, start) === id) throw violation('a stream that depends on itself')
    this.#budget.onControlFrame(ControlCost.frame)
  }

  private onRstStream(id: number, length: number): void {
    if (length !== 4) throw frameSize('RST_STREAM of a wrong length')
    if (this.isIdle(id)) throw violation('RST_STREAM of a stream that was not opened')
    this.#budget.onAbandoned()
    const stream = this.#calls.get(id)
    if (stream !== undefined) this.#calls.onPeerReset(stream)
  }

  private onSettings(flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    if (id !== 0) throw violation('SETTINGS of a stream')
    this.#budget.onControlFrame(ControlCost.settings)
    if ((flags & Flag.ack) !== 0) {
      if (end > start) throw frameSize('an acknowledgement of settings has a payload')
      this.#isAcknowledged = true
      return
    }
    const initialWindow = readPeerSettings(bytes, start, end)
    this.#hasSettings = true
    this.#writer.settingsAck()
    if (initialWindow !== undefined) this.#calls.changeInitialWindow(initialWindow)
  }

  private onPing(flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    if (id !== 0) throw violation('PING of a stream')
    if (end - start !== DRAIN_PING.length) throw frameSize('PING of a wrong length')
    this.#budget.onControlFrame(ControlCost.frame)
    if ((flags & Flag.ack) === 0) return this.#writer.ping(bytes, start, true)
    const isDrain = this.#phase === 'announced' && DRAIN_PING.equals(bytes.subarray(start, end))
    if (isDrain) this.refuseNewStreams()
  }

  private onGoaway(id: number, length: number): void {
    if (id !== 0) throw violation('GOAWAY of a stream')
    if (length < 8) throw frameSize('GOAWAY of a wrong length')
    this.#budget.onControlFrame(ControlCost.frame)
    this.#isPeerLeaving = true
  }

  private onWindowUpdate(id: number, bytes: Buffer, start: number, end: number): void {
    if (end - start !== 4) throw frameSize('WINDOW_UPDATE of a wrong length')
    this.#budget.onWindowUpdate()
    const increment = readUint31(bytes, start)
    if (id === 0) {
      if (increment === 0) throw violation('WINDOW_UPDATE of nothing')
      return this.#calls.queue.openConnection(increment)
    }
    const stream = this.#calls.get(id)
    if (stream === undefined) {
      if (this.isIdle(id)) throw violation('WINDOW_UPDATE of a stream that was not opened')
      return
    }
    if (increment === 0) return this.#calls.fault(id, ErrorCode.protocolError)
    const isValid = this.#calls.queue.openStream(stream, increment)
    if (!isValid) this.#calls.fault(id, ErrorCode.flowControlError)
  }

  /** Serves what may write: errors end the connection, and what was written leaves at its end. */
  private run(work: () => void): void {
    const { output } = this.#context
    const previous = output.enter(this.#transport)
    try {
      work()
      this.endIfDone()
    } catch (error) {
      this.fail(error)
    } finally {
      output.leave(previous)
    }
    this.#held.countBacklog()
    if (!this.isEnded || this.#isEndSent) return
    this.#isEndSent = true
    this.#transport.end()
  }

  private fail(error: unknown): void {
    const { counters, onError } = this.#context
    const isViolation = error instanceof ConnectionError
    const code = isViolation ? error.code : ErrorCode.internalError
    if (!isViolation) onError(error, undefined)
    else if (code === ErrorCode.enhanceYourCalm) counters.floods += 1
    else if (code === ErrorCode.settingsTimeout) counters.timeouts += 1
    else counters.protocolErrors += 1
    this.#writer.goaway(this.#lastStreamId, code, isViolation ? error.message : '')
    this.end()
  }

  /** The second step of a drain: by now the client knows of the first. */
  private refuseNewStreams(): void {
    this.enterPhase('last')
    this.#streamIdMax = this.#lastStreamId
    this.#writer.goaway(this.#lastStreamId, ErrorCode.noError, '')
  }

  private endIfDone(): void {
    const isLeaving = this.#phase === 'last' || this.#isPeerLeaving
    if (isLeaving && this.#calls.size === 0 && !this.isEnded) this.end()
  }

  private end(): void {
    this.enterPhase('ended')
    this.#calls.dropAll()
  }

  private enterPhase(phase: Phase): void {
    this.#phase = phase
    this.#phaseMs = this.#nowMs
  }

  private scheduleAnswers(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.#context.scheduleAnswers(this)
  }

  private checkTimes(nowMs: number): void {
    const { limits, counters } = this.#context
    const isLate = (sinceMs: number | undefined, limitMs: number) =>
      sinceMs !== undefined && nowMs - sinceMs > limitMs
    // Until what was sent before it has left, the PING has not.
    if (this.#pingedMs !== undefined && this.#transport.backlogBytes > 0) this.#pingedMs = nowMs
    const isSilent = isLate(this.#pingedMs, limits.pingTimeoutMs)
    if (isSilent || this.#transport.blockedMs(nowMs) > limits.stalledMs) {
      counters.timeouts += 1
      counters.stalled += 1
      return this.abort()
    }
    const blockSinceMs = this.#block.isOpen ? this.#block.startedMs : undefined
    if (
      (!this.#hasSettings && isLate(this.#createdMs, limits.prefaceMs)) ||
      (!this.#isAcknowledged && isLate(this.#createdMs, limits.settingsAckMs)) ||
      isLate(this.#reader.partialSinceMs, limits.frameMs) ||
      isLate(blockSinceMs, limits.frameMs)
    ) {
      throw new ConnectionError(ErrorCode.settingsTimeout, 'the client is too slow')
    }
    this.#calls.sweep(nowMs)
    if (this.#phase === 'announced' && nowMs - this.#phaseMs >= limits.noticeMs) {
      this.refuseNewStreams()
    }
    if (this.#phase === 'open') {
      const isIdle = this.#calls.size === 0 && isLate(this.#activeMs, limits.idleMs)
      if (isIdle || isLate(this.#createdMs, this.#ageMs)) this.drain(nowMs)
    } else if (isLate(this.#drainedMs, limits.drainMs)) {
      counters.timeouts += 1
      return this.abort()
    }
    this.pingIfDue(nowMs)
  }

  private pingIfDue(nowMs: number): void {
    if (!this.#hasSettings || this.#pingedMs !== undefined) return
    if (nowMs - this.#readMs <= this.#context.limits.pingMs) return
    this.#pingedMs = nowMs
    this.#writer.ping(ALIVE_PING, 0, false)
  }

  /** Ends the connection without regard for what is under way. */
  private abort(): void {
    this.end()
    this.#transport.destroy()
  }
}

/** The length of the padding with the byte that states it. */
function paddingOf(bytes: Buffer, start: number, end: number): number {
  const padding = (bytes[start] ?? 0) + 1
  if (start === end || padding > end - start) throw violation('padding exceeds its frame')
  return padding
}

const violation = (reason: string) => new ConnectionError(ErrorCode.protocolError, reason)
const frameSize = (reason: string) => new ConnectionError(ErrorCode.frameSizeError, reason)
const overflow = (reason: string) => new ConnectionError(ErrorCode.flowControlError, reason)
