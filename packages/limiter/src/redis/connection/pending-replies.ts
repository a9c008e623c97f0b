import { RedisConnectionError, type RedisReply } from './driver.js'
import type { Settle } from './socket.js'

export interface PendingRepliesEvents {
  /** Called when all commands are settled. */
  onDone(pending: PendingReplies): void
  /**
   * The caller's `settle` threw. The error must not reach the parser, which is in the middle of a
   * reply.
   */
  onListenerError(error: unknown): void
}

/** One write: settles each of its commands exactly once, whatever happens to the connection. */
export class PendingReplies {
  /** Its index in the list of its connection; negative if it is not in the list. */
  place = -1
  readonly #settle: Settle
  readonly #events: PendingRepliesEvents
  /** For several commands, which of them have no reply yet; most writes have only one. */
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

  /** The connection ended, so commands without a reply get none. */
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
