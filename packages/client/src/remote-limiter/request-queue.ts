/**
 * Groups the calls of one turn of the event loop into lists, keeps their deadline, and bounds what
 * is in flight. Nothing is sent twice.
 */
import { ITEMS_BYTES_MAX, ITEMS_MAX, type ItemText } from './call-text.js'
import type { Operation, RequestResult } from './decision-request.js'

/** One call that waits for the server. */
export interface PendingItem extends ItemText {
  readonly operation: Operation
  /** The answer came in time. */
  onAnswer(value: unknown): void
  /** There is none, or not in time. */
  onFailure(detail: string): void
  /** The answer came after `onFailure`. */
  onLateAnswer(value: unknown): void
}

export interface QueueTimers {
  readonly nowMs: () => number
  /** Returns a function that stops the timer. */
  readonly after: (ms: number, run: () => void) => () => void
  /** Runs at the end of this turn of the event loop. */
  readonly endOfTurn: (run: () => void) => void
  /** Runs after all sockets that have data were read. */
  readonly afterRead: (run: () => void) => void
}

export interface RequestQueueDeps extends QueueTimers {
  readonly deadlineMs: number
  readonly maxPending: number
  /** Never rejects. */
  readonly send: (
    operation: Operation,
    texts: readonly string[],
    signal: AbortSignal,
  ) => Promise<RequestResult>
  /** Called for each request: with what came in time, or undefined. */
  readonly onResult: (result: RequestResult | undefined) => void
}

/** Requests in flight; calls beyond it wait, and travel in longer lists. */
const REQUESTS_MAX = 16
/** Requests whose calls were answered otherwise, and whose answer may still come. */
const LATE_MAX = 48
/**
 * How long after its deadline an answer is waited for: it keeps the connection usable, and what a
 * refused call took can be given back.
 */
const LATE_MS = 1000
const SWEEP_EVERY_MS = 100

/** The calls of one turn, which have one deadline. */
interface Turn {
  readonly items: Item[]
  /** When the first was made; later, when the turn ended. */
  sinceMs: number
  stop: () => void
  open: number
}

interface Item extends PendingItem {
  readonly turn: Turn
  isSettled: boolean
  request: Request | undefined
}

/** One list on its way. */
interface Request {
  readonly items: readonly Item[]
  readonly sentMs: number
  readonly controller: AbortController
  open: number
  /** Stops the timer of a late one. */
  stop: () => void
}

export class RequestQueue {
  readonly #deps: RequestQueueDeps
  #queue: Item[] = []
  #turn: Turn | undefined
  readonly #inFlight = new Set<Request>()
  readonly #late = new Set<Request>()
  #pending = 0
  #sweptMs = -Infinity
  readonly #onIdle: (() => void)[] = []

  constructor(deps: RequestQueueDeps) {
    this.#deps = deps
  }

  get pending(): number {
    return this.#pending
  }

  /** Returns false if too many wait already. */
  add(pending: PendingItem): boolean {
    if (this.#pending >= this.#deps.maxPending) this.sweep()
    if (this.#pending >= this.#deps.maxPending) return false
    const turn = this.#turn ?? this.beginTurn()
    // Not a copy with spread: the methods of a class would be lost.
    const item: Item = {
      operation: pending.operation,
      text: pending.text,
      bytes: pending.bytes,
      onAnswer: (value) => pending.onAnswer(value),
      onFailure: (detail) => pending.onFailure(detail),
      onLateAnswer: (value) => pending.onLateAnswer(value),
      turn,
      isSettled: false,
      request: undefined,
    }
    turn.items.push(item)
    turn.open += 1
    this.#pending += 1
    this.#queue.push(item)
    return true
  }

  /** Resolves when nothing waits any more, within the deadline; then stops what is late. */
  async close(): Promise<void> {
    if (this.#pending > 0) await new Promise<void>((resolve) => this.#onIdle.push(resolve))
    for (const request of this.#late) this.giveUp(request)
  }

  private beginTurn(): Turn {
    const { nowMs, after, endOfTurn, deadlineMs, afterRead } = this.#deps
    const turn: Turn = { items: [], sinceMs: nowMs(), stop: () => {}, open: 0 }
    this.#turn = turn
    endOfTurn(() => {
      if (this.#turn === turn) this.#turn = undefined
      // The deadline begins here, not with the call: nothing can be sent while the program
      // computes, and calls of a turn longer than the deadline would never reach the server.
      turn.sinceMs = nowMs()
      // A busy process may find its timer due while the answer waits in the socket: that is read
      // first.
      turn.stop = after(deadlineMs, () => afterRead(() => this.expire(turn)))
      if (turn.open === 0) turn.stop()
      this.flush()
    })
    return turn
  }

  private expire(turn: Turn): void {
    for (const item of turn.items) {
      if (item.isSettled) continue
      const { request } = item
      this.settle(item, () => item.onFailure(`no answer within ${this.#deps.deadlineMs} ms`))
      if (request?.open === 0) this.onLate(request)
    }
    this.#queue = this.#queue.filter(({ isSettled }) => !isSettled)
    this.flush()
  }

  /** Its slot is free for others; its answer is still awaited for a while. */
  private onLate(request: Request): void {
    if (!this.#inFlight.delete(request)) return
    this.#deps.onResult(undefined)
    this.#late.add(request)
    request.stop = this.#deps.after(LATE_MS, () => this.giveUp(request))
    for (const oldest of this.#late) {
      if (this.#late.size <= LATE_MAX) break
      this.giveUp(oldest)
    }
  }

  private giveUp(request: Request): void {
    this.#late.delete(request)
    request.stop()
    request.controller.abort()
  }

  private flush(): void {
    if (this.#inFlight.size >= REQUESTS_MAX) this.sweep()
    while (this.#queue.length > 0 && this.#inFlight.size < REQUESTS_MAX) {
      const items = this.takeList()
      if (items.length === 0) return
      const controller = new AbortController()
      const sentMs = this.#deps.nowMs()
      const request: Request = { items, sentMs, controller, open: items.length, stop: () => {} }
      for (const item of items) item.request = request
      this.#inFlight.add(request)
      void this.send(request)
    }
  }

  /**
   * The oldest item and those of the same operation, as far as one list can hold them. Those whose
   * deadline has passed stay, to be decided without the server: it would charge them in vain.
   */
  private takeList(): readonly Item[] {
    const sinceMs = this.#deps.nowMs() - this.#deps.deadlineMs
    const isDue = ({ turn }: Item) => turn !== this.#turn && turn.sinceMs <= sinceMs
    const operation = this.#queue.find((item) => !isDue(item))?.operation
    const taken: Item[] = []
    const left: Item[] = []
    let bytes = 0
    let isFull = false
    for (const item of this.#queue) {
      if (item.operation !== operation || isFull || isDue(item)) {
        left.push(item)
        continue
      }
      // A comma separates it from the one before.
      bytes += item.bytes + 1
      isFull = taken.length === ITEMS_MAX || (taken.length > 0 && bytes - 1 > ITEMS_BYTES_MAX)
      if (isFull) left.push(item)
      else taken.push(item)
    }
    this.#queue = left
    return taken
  }

  private async send(request: Request): Promise<void> {
    const { items, controller } = request
    const operation = items[0]?.operation ?? 'check'
    const texts = items.map(({ text }) => text)
    const result = await this.#deps.send(operation, texts, controller.signal)
    const isLate = !this.#inFlight.delete(request)
    this.#late.delete(request)
    request.stop()
    if (!isLate) this.#deps.onResult(result)
    if ('items' in result) {
      items.forEach((item, index) => {
        if (item.isSettled) item.onLateAnswer(result.items[index])
        else this.settle(item, () => item.onAnswer(result.items[index]))
      })
    } else {
      for (const item of items) {
        if (!item.isSettled) this.settle(item, () => item.onFailure(result.detail))
      }
    }
    this.flush()
  }

  private settle(item: Item, run: () => void): void {
    item.isSettled = true
    if (item.request !== undefined) item.request.open -= 1
    item.turn.open -= 1
    if (item.turn.open === 0 && item.turn !== this.#turn) item.turn.stop()
    this.#pending -= 1
    run()
    if (this.#pending === 0) for (const resolve of this.#onIdle.splice(0)) resolve()
  }

  /**
   * Forgets what a runtime dropped together with the request that it served: neither its answer nor
   * its timer will ever come.
   */
  private sweep(): void {
    const nowMs = this.#deps.nowMs()
    // Rarely: it visits everything that waits, and is called when very much does.
    if (nowMs - this.#sweptMs < SWEEP_EVERY_MS) return
    this.#sweptMs = nowMs
    const beforeMs = nowMs - this.#deps.deadlineMs - LATE_MS
    const drop = (item: Item) => {
      if (!item.isSettled)
        this.settle(item, () => item.onFailure('the runtime dropped the request'))
    }
    for (const request of this.#inFlight) {
      if (request.sentMs >= beforeMs) continue
      this.#inFlight.delete(request)
      request.controller.abort()
      request.items.forEach(drop)
    }
    for (const item of this.#queue) if (item.turn.sinceMs < beforeMs) drop(item)
    this.#queue = this.#queue.filter(({ isSettled }) => !isSettled)
  }
}
