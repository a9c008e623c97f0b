/**
 * Enforces the deadline of every decision with its own timers, because no client library does so
 * once a command is written to the socket.
 *
 * A deadline limits the time of the store, not of this process. The sockets are always read once
 * between the deadline and the fallback, however late the timer fires because this process was
 * busy. As long as reads bring replies they are repeated, up to a hard cap.
 */

export interface Expirable {
  /** In milliseconds of the monotonic clock. */
  readonly deadlineAtMs: number
  readonly isAnswered: boolean
  expire(): void
}

/**
 * How long after its deadline a call is answered at the latest, whatever may still be read; whole
 * milliseconds. Also the most that a call may ask for.
 */
const CAP_MS = 25
/** A timer that fires this late shows that this process is overloaded. */
const BUSY_MS = 10
/** The capacity of a new queue; it doubles when the queue is full. */
const PLACES = 256

/** One number for a deadline and a cap, so that calls with both equal share a queue. */
function queueName(deadlineMs: number, capMs: number): number {
  return deadlineMs * (CAP_MS + 1) + capMs
}

/**
 * Calls with the same deadline, which therefore expire in order of arrival. A ring buffer, so
 * answered calls are released immediately instead of being retained until their deadline.
 */
class DeadlineQueue {
  readonly capMs: number
  #ring: (Expirable | undefined)[] = emptyRing(PLACES)
  #head = 0
  #size = 0

  constructor(capMs: number) {
    this.capMs = capMs
  }

  push(call: Expirable): void {
    // Most calls are answered long before. Two are dropped for each new one, so none pile up.
    if (this.dropAnswered()) this.dropAnswered()
    if (this.#size === this.#ring.length) this.grow()
    this.#ring[(this.#head + this.#size) & (this.#ring.length - 1)] = call
    this.#size += 1
  }

  /** The first unanswered call; answered ones before it are released. */
  first(): Expirable | undefined {
    while (this.dropAnswered());
    return this.#ring[this.#head]
  }

  private dropAnswered(): boolean {
    if (this.#ring[this.#head]?.isAnswered !== true) return false
    this.#ring[this.#head] = undefined
    this.#head = (this.#head + 1) & (this.#ring.length - 1)
    this.#size -= 1
    return true
  }

  private grow(): void {
    const { length } = this.#ring
    const ring = emptyRing(length * 2)
    for (let i = 0; i < length; i++) ring[i] = this.#ring[(this.#head + i) & (length - 1)]
    this.#ring = ring
    this.#head = 0
  }
}

/** The length must be a power of two. */
function emptyRing(length: number): (Expirable | undefined)[] {
  return Array.from<Expirable | undefined>({ length }).fill(undefined)
}

export class Deadlines {
  readonly #nowMs: () => number
  /** The number of replies read so far. While it rises, more may be waiting in the socket. */
  readonly #replies: () => number
  /** By `queueName`. */
  readonly #queues = new Map<number, DeadlineQueue>()
  readonly #armed = new Map<number, ReturnType<typeof setTimeout> | undefined>()

  readonly #afterRead: (run: () => void) => unknown

  #lateMs = 0

  /**
   * `afterRead` runs a function after the next read of all sockets. Node's event loop runs timers,
   * then reads every socket that has data, then runs `setImmediate` callbacks.
   */
  constructor(
    nowMs: () => number,
    replies: () => number,
    afterRead: (run: () => void) => unknown = setImmediate,
  ) {
    this.#nowMs = nowMs
    this.#replies = replies
    this.#afterRead = afterRead
  }

  /**
   * Whether the last deadline was handled late, which means that this process is slow, not the
   * store.
   */
  get isBusy(): boolean {
    return this.#lateMs > BUSY_MS
  }

  /** `capMs`: how long after its deadline the call is answered at the latest. */
  add(call: Expirable, deadlineMs: number, capMs = CAP_MS): void {
    const name = queueName(deadlineMs, capMs)
    const queue = this.#queues.get(name) ?? this.open(name, capMs)
    queue.push(call)
    if (this.#armed.has(name)) return
    this.arm(name, queue, deadlineMs)
  }

  /** Expires everything that still waits and stops all timers. */
  close(): void {
    for (const [name, queue] of this.#queues) {
      clearTimeout(this.#armed.get(name))
      for (let call = queue.first(); call !== undefined; call = queue.first()) call.expire()
    }
    this.#armed.clear()
    this.#queues.clear()
  }

  private open(name: number, capMs: number): DeadlineQueue {
    const queue = new DeadlineQueue(capMs)
    this.#queues.set(name, queue)
    return queue
  }

  private arm(name: number, queue: DeadlineQueue, inMs: number): void {
    const waitMs = Math.max(1, Math.ceil(inMs))
    const dueMs = this.#nowMs() + waitMs
    const timer = setTimeout(() => {
      this.#lateMs = this.#nowMs() - dueMs
      this.check(name, queue)
    }, waitMs)
    this.#armed.set(name, timer)
  }

  private check(name: number, queue: DeadlineQueue): void {
    const first = queue.first()
    const nowMs = this.#nowMs()
    if (first === undefined) {
      this.#armed.delete(name)
      this.#queues.delete(name)
    } else if (first.deadlineAtMs > nowMs) {
      this.arm(name, queue, first.deadlineAtMs - nowMs)
    } else this.readFirst(name, queue, first.deadlineAtMs + queue.capMs)
  }

  /**
   * Reads the sockets once, whatever the time is: a reply that arrived while this process was
   * blocked was in time. Reads again as long as that brings replies, up to the cap.
   */
  private readFirst(name: number, queue: DeadlineQueue, capAtMs: number): void {
    const before = this.#replies()
    const readFromMs = this.#nowMs()
    this.#afterRead(() => {
      const goesOn = this.#replies() !== before && this.#nowMs() < capAtMs
      if (goesOn) this.readFirst(name, queue, capAtMs)
      else this.expireAll(name, queue, readFromMs)
    })
  }

  /**
   * Expires the calls whose deadline had passed when the last read began. A later deadline may have
   * passed since, in a long turn of the event loop; its reply may have arrived after the read of
   * that turn.
   */
  private expireAll(name: number, queue: DeadlineQueue, readFromMs: number): void {
    for (
      let call = queue.first();
      call !== undefined && call.deadlineAtMs <= readFromMs;
      call = queue.first()
    ) {
      call.expire()
    }
    this.check(name, queue)
  }
}
