import { RedisConnectionError, type RedisReply } from '../driver.js'
import type { Settle } from './link.js'

export interface SentEvents {
  /** All of it is settled. */
  done(sent: Sent): void
  /** The caller's `settle` threw. It is told here: above it is a parser in the midst of a reply. */
  threw(error: unknown): void
}

/** One write: settles each of its commands exactly once, whatever becomes of the connection. */
export class Sent {
  readonly #settle: Settle
  readonly #events: SentEvents
  readonly #isOpen: boolean[]
  #open: number

  constructor(count: number, settle: Settle, events: SentEvents) {
    this.#settle = settle
    this.#events = events
    this.#isOpen = [true]
    for (let index = 1; index < count; index++) this.#isOpen.push(true)
    this.#open = count
  }

  settle(index: number, reply: RedisReply | Error): void {
    if (this.#isOpen[index] !== true) return
    this.#isOpen[index] = false
    this.#open -= 1
    if (this.#open === 0) this.#events.done(this)
    try {
      this.#settle(index, reply)
    } catch (error) {
      this.#events.threw(error)
    }
  }

  /** The connection ended: what has no reply gets none. */
  abort(why: string): void {
    for (let index = 0; index < this.#isOpen.length; index++) {
      if (this.#isOpen[index] === true) this.settle(index, new RedisConnectionError(why))
    }
  }
}
