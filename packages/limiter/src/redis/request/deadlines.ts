/**
 * The deadline of every decision, kept by a timer of our own: no client keeps one once the bytes
 * are on the socket.
 *
 * It counts the store's time, not ours. One read of the sockets always comes between the deadline
 * and the fallback, however late the timer runs because this process was busy. As long as reads
 * bring replies there are more of them, up to a hard cap.
 */

export interface Expirable {
  /** By the clock that never steps. */
  readonly deadlineAtMs: number
  readonly isAnswered: boolean
  expire(): void
}

/** So long after the deadline an answer is given, whatever may still be read. */
const CAP_MS = 25
/** A timer that rings so much too late rang in a process that has more to do than it can. */
const BUSY_MS = 10
/** Places of a new queue; it doubles when it is full. */
const PLACES = 256

/**
 * Calls of one deadline, which therefore end in the order in which they came. A ring: a call that
 * was answered is let go of at once, or the dead would be kept among the living until the deadline.
 */
class DeadlineQueue {
  #ring: (Expirable | undefined)[] = emptyRing(PLACES)
  #head = 0
  #size = 0

  push(call: Expirable): void {
    // Most are answered long before: two go for each that comes, so that none piles up.
    if (this.dropAnswered()) this.dropAnswered()
    if (this.#size === this.#ring.length) this.grow()
    this.#ring[(this.#head + this.#size) & (this.#ring.length - 1)] = call
    this.#size += 1
  }

  /** The first that is not answered; those before it are forgotten. */
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

/** Its length is a power of two. */
function emptyRing(length: number): (Expirable | undefined)[] {
  return Array.from<Expirable | undefined>({ length }).fill(undefined)
}

export class Deadlines {
  readonly #nowMs: () => number
  /** How many replies were read so far: while it rises, more may be waiting in the socket. */
  readonly #replies: () => number
  readonly #queues = new Map<number, DeadlineQueue>()
  readonly #armed = new Map<number, ReturnType<typeof setTimeout> | undefined>()

  readonly #afterRead: (run: () => void) => unknown

  #lateMs = 0

  /**
   * `afterRead` runs something after the next read of all sockets. Node's event loop runs timers,
   * then reads every socket that has data, then runs what `setImmediate` was given.
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

  /** Whether the last deadline was looked at late: then it is we who are slow, not the store. */
  get isBusy(): boolean {
    return this.#lateMs > BUSY_MS
  }

  add(call: Expirable, deadlineMs: number): void {
    const queue = this.#queues.get(deadlineMs) ?? this.open(deadlineMs)
    queue.push(call)
    if (this.#armed.has(deadlineMs)) return
    this.arm(deadlineMs, queue, deadlineMs)
  }

  /** Nothing will be answered any more: what still waits ends now, and no timer is left. */
  close(): void {
    for (const [deadlineMs, queue] of this.#queues) {
      clearTimeout(this.#armed.get(deadlineMs))
      for (let call = queue.first(); call !== undefined; call = queue.first()) call.expire()
    }
    this.#armed.clear()
    this.#queues.clear()
  }

  private open(deadlineMs: number): DeadlineQueue {
    const queue = new DeadlineQueue()
    this.#queues.set(deadlineMs, queue)
    return queue
  }

  private arm(deadlineMs: number, queue: DeadlineQueue, inMs: number): void {
    const waitMs = Math.max(1, Math.ceil(inMs))
    const dueMs = this.#nowMs() + waitMs
    const timer = setTimeout(() => {
      this.#lateMs = this.#nowMs() - dueMs
      this.check(deadlineMs, queue)
    }, waitMs)
    this.#armed.set(deadlineMs, timer)
  }

  private check(deadlineMs: number, queue: DeadlineQueue): void {
    const first = queue.first()
    const nowMs = this.#nowMs()
    if (first === undefined) {
      this.#armed.delete(deadlineMs)
      this.#queues.delete(deadlineMs)
    } else if (first.deadlineAtMs > nowMs) {
      this.arm(deadlineMs, queue, first.deadlineAtMs - nowMs)
    } else this.readFirst(deadlineMs, queue, first.deadlineAtMs + CAP_MS)
  }

  /**
   * Reads the sockets once, whatever the time is: what arrived while this process stood still was
   * in time. Reads again as long as that brings replies, up to the cap.
   */
  private readFirst(deadlineMs: number, queue: DeadlineQueue, capMs: number): void {
    const before = this.#replies()
    const readFromMs = this.#nowMs()
    this.#afterRead(() => {
      const goesOn = this.#replies() !== before && this.#nowMs() < capMs
      if (goesOn) this.readFirst(deadlineMs, queue, capMs)
      else this.expireAll(deadlineMs, queue, readFromMs)
    })
  }

  /**
   * Ends the calls whose deadline had passed when the last read began. A later deadline may have
   * passed since, in a turn that took long; its reply may have arrived after the read of that turn.
   */
  private expireAll(deadlineMs: number, queue: DeadlineQueue, readFromMs: number): void {
    for (
      let call = queue.first();
      call !== undefined && call.deadlineAtMs <= readFromMs;
      call = queue.first()
    ) {
      call.expire()
    }
    this.check(deadlineMs, queue)
  }
}
