/**
 * Reads the body of one request: its beginning into memory if requested, the rest into a stream for
 * the upstream. Times the client only while its bytes are being read, so a slow upstream is never
 * blamed on the client.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { PassThrough } from 'node:stream'
import { monotonicMs } from '../../lib/wall-clock.js'
import { UploadCredit } from './upload-credit.js'

export interface UploadOptions {
  /** The length of the body in bytes; Infinity if it is unknown. */
  readonly size: number
  /** How long the client may send nothing. */
  readonly stallMs: number
  /** Called once, if the body arrives too slowly. */
  readonly onSlow: () => void
}

export class Upload {
  readonly #request: IncomingMessage
  readonly #options: UploadOptions
  readonly #onData = (chunk: Buffer) => this.take(chunk)
  readonly #onEnd = () => this.end()
  /** Undefined until the body is read. */
  #credit: UploadCredit | undefined
  #timer: NodeJS.Timeout | undefined
  #isTimed = true
  #hasEnded = false
  /** Called when the beginning is in memory; undefined: it is not buffered. */
  #onGathered: ((isWhole: boolean) => void) | undefined
  #gathered: Buffer = NOTHING
  #gatheredBytes = 0
  #gatheredMax = 0
  #stream: PassThrough | undefined

  constructor(request: IncomingMessage, options: UploadOptions) {
    this.#request = request
    this.#options = options
  }

  /** Reads up to `max` bytes into memory, then pauses. */
  gather(max: number, onGathered: (isWhole: boolean) => void): void {
    this.#gatheredMax = max
    this.#onGathered = onGathered
    this.read()
  }

  /** The buffered beginning. */
  gathered(): Buffer {
    return this.#gathered.subarray(0, this.#gatheredBytes)
  }

  /**
   * Creates the stream for undici. undici destroys the stream it gets, and destroying the request
   * itself would close the client's connection. The stream breaks off where the request does, so
   * that an upstream never treats a part as the whole. Nothing is read until `start`.
   */
  open(): PassThrough {
    const request = this.#request
    const stream = new PassThrough()
    this.#stream = stream
    // undici listens only once a connection is free.
    stream.on('error', () => {})
    stream.on('drain', () => this.read())
    if (this.#gatheredBytes > 0) stream.write(this.gathered())
    this.#gathered = NOTHING
    this.#gatheredBytes = 0
    if (this.#hasEnded) stream.end()
    const onClose = () => {
      if (!request.complete) stream.destroy(new Error('The request broke off'))
    }
    request.once('close', onClose)
    stream.once('close', () => request.off('close', onClose))
    return stream
  }

  /** Starts the stream: the upstream has a connection for it. */
  start(): void {
    if (this.#stream?.writableNeedDrain === false) this.read()
  }

  /** Whether the upstream has all that the client has sent, and more will follow. */
  isClientAwaited(): boolean {
    const stream = this.#stream
    if (this.#hasEnded) return false
    return stream === undefined || stream.writableLength + stream.readableLength === 0
  }

  /** Stops timing the client. */
  stopTiming(): void {
    this.#isTimed = false
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  /** Drops the rest of the body, within the bounds of unread bodies. */
  stop(): void {
    this.stopTiming()
    this.#onGathered = undefined
    this.#gathered = NOTHING
    this.#request.off('data', this.#onData).off('end', this.#onEnd).resume()
  }

  private read(): void {
    if (this.#hasEnded) return
    const request = this.#request
    const nowMs = monotonicMs()
    if (this.#credit === undefined) {
      this.#credit = new UploadCredit(this.#options.stallMs, nowMs)
      request.on('data', this.#onData).on('end', this.#onEnd)
    } else this.#credit.resume(nowMs)
    this.arm(this.#credit.leftMs(nowMs))
    request.resume()
  }

  private pause(): void {
    this.#request.pause()
    this.#credit?.pause(monotonicMs())
  }

  private take(chunk: Buffer): void {
    this.#credit?.add(chunk.length, monotonicMs())
    if (this.#onGathered !== undefined) this.collect(chunk)
    else if (this.#stream?.write(chunk) === false) this.pause()
  }

  /** Copies into one buffer: a list of tiny chunks would take a hundred times the memory. */
  private collect(chunk: Buffer): void {
    const max = this.#gatheredMax
    const isAll = this.#gatheredBytes === 0 && chunk.length === max
    // Not from the pool of Node, where one small piece retains a whole block.
    if (isAll) this.#gathered = chunk
    else if (this.#gatheredBytes === 0) this.#gathered = Buffer.allocUnsafeSlow(max)
    const copied = isAll ? max : chunk.copy(this.#gathered, this.#gatheredBytes)
    this.#gatheredBytes += copied
    if (this.#gatheredBytes < max) return
    const isWhole = max === this.#options.size
    if (!isWhole) this.pause()
    if (copied < chunk.length) this.#request.unshift(chunk.subarray(copied))
    this.finishGathering(isWhole)
  }

  private finishGathering(isWhole: boolean): void {
    const onGathered = this.#onGathered
    this.#onGathered = undefined
    if (isWhole) this.finishReading()
    onGathered?.(isWhole)
  }

  private end(): void {
    this.finishReading()
    this.#stream?.end()
    this.finishGathering(true)
  }

  private finishReading(): void {
    this.#hasEnded = true
    this.stopTiming()
  }

  private arm(leftMs: number): void {
    if (!this.#isTimed || this.#timer !== undefined) return
    this.#timer = setTimeout(() => {
      // Bytes that arrived while this process was busy are read first, and count.
      setImmediate(() => this.judge())
    }, leftMs)
  }

  private judge(): void {
    this.#timer = undefined
    const credit = this.#credit
    if (!this.#isTimed || credit === undefined || credit.isPaused()) return
    const nowMs = monotonicMs()
    const { complete, socket } = this.#request
    // Node does not read a connection whose earlier responses are not sent yet.
    if (socket.isPaused()) this.#credit = new UploadCredit(this.#options.stallMs, nowMs)
    const leftMs = this.#credit?.leftMs(nowMs) ?? 0
    if (leftMs > 0) return this.arm(leftMs)
    if (complete) return
    this.stopTiming()
    this.#options.onSlow()
  }
}

/** Asks a client that waits for it to send its body. */
export function sendContinue(request: IncomingMessage, response: ServerResponse): void {
  const { headers, httpVersion } = request
  if (headers.expect !== undefined && httpVersion === '1.1') response.writeContinue()
}

const NOTHING = Buffer.alloc(0)
