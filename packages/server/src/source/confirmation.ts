/** How long ago a source last confirmed the rules in force. Alerts say when that is too long. */
import type { Timers } from './timers.js'

const LOOK_EVERY_MS = 1000
/** A look that comes later than this after the one before: the process stood still meanwhile. */
const LATE_MS = 5000

interface Parts {
  readonly timers: Timers
  /** Whether the rules in force are those of the source, as far as it can be known now. */
  readonly isConfirmed: () => boolean
}

export class Confirmation {
  readonly #parts: Parts
  #lastMs: number
  #lookedMs: number
  /** When it was last found unconfirmed, or nobody looked for a while. */
  #brokenMs: number
  #cancel: () => void

  constructor(parts: Parts) {
    this.#parts = parts
    this.#lastMs = parts.timers.nowMs()
    this.#lookedMs = this.#lastMs
    this.#brokenMs = this.#lastMs
    this.#cancel = this.lookLater()
  }

  ageSeconds(): number {
    // One moment for both: what is confirmed now is not a little old already.
    const nowMs = this.#parts.timers.nowMs()
    this.look(nowMs)
    return Math.max(0, (nowMs - this.#lastMs) / 1000)
  }

  /** Whether it was confirmed all the time since then. */
  isUnbrokenSince(ms: number): boolean {
    this.look(this.#parts.timers.nowMs())
    return this.#brokenMs <= ms
  }

  close(): void {
    this.#cancel()
  }

  private look(nowMs: number): void {
    const isLate = nowMs - this.#lookedMs > LATE_MS
    this.#lookedMs = nowMs
    if (this.#parts.isConfirmed()) this.#lastMs = nowMs
    else this.#brokenMs = nowMs
    if (isLate) this.#brokenMs = nowMs
  }

  private lookLater(): () => void {
    return this.#parts.timers.after(LOOK_EVERY_MS, () => {
      this.look(this.#parts.timers.nowMs())
      this.#cancel = this.lookLater()
    })
  }
}
