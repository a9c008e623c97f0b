/** One direction of a connection through the fault proxy. */
import type { Socket } from 'node:net'

/** The most buffered bytes before the sender has to wait, as in a full network. */
const WAITING_BYTES_MAX = 4 * 1024 * 1024

export interface Faults {
  delayMs?: number
  jitterMs?: number
  slice?: { readonly bytes: number; readonly gapMs: number }
  /** Bytes are held back. */
  isHeld?: boolean
  /** Bytes vanish, and so does the end of the connection. */
  isLost?: boolean
  replace?: (bytes: Buffer) => Buffer
  /** The connection is reset after this many bytes. */
  bytesMax?: number
}

/** Bytes, or what the sender did with the connection after them. */
interface QueuedChunk {
  readonly chunk: Buffer | 'end' | 'reset'
  due: number
}

export class FaultPipe {
  /** Whether bytes were lost, so that later bytes would make no sense. */
  hasLost = false
  readonly #source: Socket
  readonly #target: Socket
  readonly #faults: () => Faults
  readonly #reset: () => void
  #queue: QueuedChunk[] = []
  #waitingBytes = 0
  #lastDue = 0
  #nextSlice = 0
  #delivered = 0
  #isFull = false
  #isClosed = false
  #timer: NodeJS.Timeout | undefined

  constructor(source: Socket, target: Socket, faults: () => Faults, reset: () => void) {
    this.#source = source
    this.#target = target
    this.#faults = faults
    this.#reset = reset
    source.on('data', (bytes: Buffer) => this.take(bytes))
    source.on('end', () => this.take('end'))
    source.on('error', () => this.take('reset'))
    target.on('drain', () => {
      this.#isFull = false
      this.pump()
    })
  }

  /** Called when a fault begins or changes. */
  changed(): void {
    if (this.#faults().isLost && this.#queue.length > 0) this.lose()
    this.pump()
  }

  /** Delivers all held bytes at once. */
  heal(): void {
    for (const queue of this.#queue) queue.due = 0
    this.#lastDue = 0
    this.#nextSlice = 0
    this.pump()
  }

  /** Starts counting for `bytesMax`. */
  startCount(): void {
    this.#delivered = 0
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.drop()
  }

  private take(chunk: Buffer | 'end' | 'reset'): void {
    if (this.#isClosed) return
    const { isLost, replace, delayMs = 0, jitterMs = 0 } = this.#faults()
    if (isLost) return this.lose()
    const kept = replace !== undefined && typeof chunk !== 'string' ? replace(chunk) : chunk
    const arrival = performance.now() + delayMs + Math.random() * jitterMs
    // Never before earlier bytes: this is one connection, not packets.
    this.#lastDue = Math.max(this.#lastDue, arrival)
    this.#queue.push({ chunk: kept, due: this.#lastDue })
    this.#waitingBytes += kept.length
    if (this.#waitingBytes > WAITING_BYTES_MAX) this.#source.pause()
    this.pump()
  }

  private lose(): void {
    this.hasLost = true
    this.drop()
  }

  private drop(): void {
    this.#queue = []
    this.#waitingBytes = 0
    this.#source.resume()
  }

  /** Delivers what is due, and schedules the rest. */
  private pump(): void {
    clearTimeout(this.#timer)
    for (;;) {
      const [next] = this.#queue
      const { isHeld, slice } = this.#faults()
      if (next === undefined || this.#isClosed || this.#isFull || isHeld) return
      const wait = Math.max(next.due, this.#nextSlice) - performance.now()
      if (wait > 0) {
        this.#timer = setTimeout(() => this.pump(), wait)
        return
      }
      if (typeof next.chunk === 'string') return this.endWith(next.chunk)
      const bytes = next.chunk.subarray(0, slice?.bytes)
      this.#queue.shift()
      if (bytes.length < next.chunk.length) {
        this.#queue.unshift({ chunk: next.chunk.subarray(bytes.length), due: next.due })
      }
      if (slice !== undefined) this.#nextSlice = performance.now() + slice.gapMs
      this.deliver(bytes)
    }
  }

  private deliver(bytes: Buffer): void {
    this.#waitingBytes -= bytes.length
    if (this.#waitingBytes <= WAITING_BYTES_MAX) this.#source.resume()
    const { bytesMax = Number.POSITIVE_INFINITY } = this.#faults()
    const allowed = bytes.subarray(0, Math.max(0, bytesMax - this.#delivered))
    this.#delivered += allowed.length
    if (this.#delivered >= bytesMax) {
      this.#isClosed = true
      this.#target.write(allowed, this.#reset)
    } else if (!this.#target.write(allowed)) {
      this.#isFull = true
    }
  }

  private endWith(chunk: 'end' | 'reset'): void {
    this.#queue = []
    if (chunk === 'reset') this.#reset()
    else this.#target.end()
  }
}
