import { RedisConnectionError, type RedisReply } from './driver.js'
import type { Settle } from './socket.js'

export interface PendingRepliesEvents {
  /** All of it is settled. */
  onDone(pending: PendingReplies): void
  /** The caller's `settle` threw. It is told here: above it is a parser in the midst of a reply. */
  onListenerError(error: unknown): void
}

/** One write: settles each of its commands exactly once, whatever becomes of the connection. */
export class PendingReplies {
  /** Where its connection keeps it; below 0: nowhere. */
  place = -1
  readonly #settle: Settle
  readonly #events: PendingRepliesEvents
  /** Of several commands, which have no reply yet; nearly always there is one. */
  readonly #isOpen: boolean[] | undefined
  #open: number

  constructor(count: number, settle: Settle, events: PendingRepliesEvents) {
    this.#settle = settle
    this.#events = events
    this.#isOpen = count === 1 ? undefined : Array.from({ length: count }, () => true)
    this.#open = count
  }

  settle(index: number, reply: RedisReply | Error): void {
    if (!this.isOpen(index)) return
    if (this.#isOpen !== undefined) this.#isOpen[index] = false
    this.#open -= 1
    if (this.#open === 0) this.#events.onDone(this)
    try {
      this.#settle(index, reply)
    } catch (error) {
      this.#events.onListenerError(error)
    }
  }

  /** The connection ended: what has no reply gets none. */
  abort(why: string): void {
    const count = this.#isOpen?.length ?? 1
    for (let index = 0; index < count; index++) {
      if (this.isOpen(index)) this.settle(index, new RedisConnectionError(why))
    }
  }

  private isOpen(index: number): boolean {
    return this.#isOpen === undefined ? index === 0 && this.#open > 0 : this.#isOpen[index] === true
  }
}
