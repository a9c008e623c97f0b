/** How long ago a source last confirmed the rules in force. Alerts say when that is too long. */
import type { Scheduler } from '../../lib/scheduler.js'

const POLL_EVERY_MS = 1000
/** A look that comes later than this after the one before: the process stood still meanwhile. */
const LATE_MS = 5000

interface RulesAgeDeps {
  readonly scheduler: Scheduler
  /** Whether the rules in force are those of the source, as far as it can be known now. */
  readonly isConfirmed: () => boolean
}

export class RulesAge {
  readonly #deps: RulesAgeDeps
  #lastMs: number
  #polledMs: number
  /** When it was last found unconfirmed, or nobody looked for a while. */
  #brokenMs: number
  #cancel: () => void

  constructor(deps: RulesAgeDeps) {
    this.#deps = deps
    this.#lastMs = deps.scheduler.nowMs()
    this.#polledMs = this.#lastMs
    this.#brokenMs = this.#lastMs
    this.#cancel = this.pollLater()
  }

  ageSeconds(): number {
    // One moment for both: what is confirmed now is not a little old already.
    const nowMs = this.#deps.scheduler.nowMs()
    this.poll(nowMs)
    return Math.max(0, (nowMs - this.#lastMs) / 1000)
  }

  /** Whether it was confirmed all the time since then. */
  isUnbrokenSince(ms: number): boolean {
    this.poll(this.#deps.scheduler.nowMs())
    return this.#brokenMs <= ms
  }

  close(): void {
    this.#cancel()
  }

  private poll(nowMs: number): void {
    const isLate = nowMs - this.#polledMs > LATE_MS
    this.#polledMs = nowMs
    if (this.#deps.isConfirmed()) this.#lastMs = nowMs
    else this.#brokenMs = nowMs
    if (isLate) this.#brokenMs = nowMs
  }

  private pollLater(): () => void {
    return this.#deps.scheduler.after(POLL_EVERY_MS, () => {
      this.poll(this.#deps.scheduler.nowMs())
      this.#cancel = this.pollLater()
    })
  }
}
