/** How long ago a source last confirmed the rules in force. Alerts say when that is too long. */
import type { Timers } from './timers.js'

const LOOK_EVERY_MS = 1000

interface Parts {
  readonly timers: Timers
  /** Whether the rules in force are those of the source, as far as it can be known now. */
  readonly isConfirmed: () => boolean
}

export class Confirmation {
  readonly #parts: Parts
  #lastMs: number
  #cancel: () => void

  constructor(parts: Parts) {
    this.#parts = parts
    this.#lastMs = parts.timers.nowMs()
    this.#cancel = this.lookLater()
  }

  ageSeconds(): number {
    // One moment for both: what is confirmed now is not a little old already.
    const nowMs = this.#parts.timers.nowMs()
    this.look(nowMs)
    return Math.max(0, (nowMs - this.#lastMs) / 1000)
  }

  close(): void {
    this.#cancel()
  }

  private look(nowMs: number): void {
    if (this.#parts.isConfirmed()) this.#lastMs = nowMs
  }

  private lookLater(): () => void {
    return this.#parts.timers.after(LOOK_EVERY_MS, () => {
      this.look(this.#parts.timers.nowMs())
      this.#cancel = this.lookLater()
    })
  }
}
