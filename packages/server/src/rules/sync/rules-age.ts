/** Measures how long ago a source last confirmed the active rules. Alerts judge the age. */
import type { Scheduler } from '../../lib/scheduler.js'

const POLL_EVERY_MS = 1000
/** A poll this long after the one before: the process was suspended meanwhile. */
const LATE_MS = 5000

interface RulesAgeDeps {
  readonly scheduler: Scheduler
  /** Whether the active rules are those of the source, as far as this node knows. */
  readonly isConfirmed: () => boolean
}

export class RulesAge {
  readonly #deps: RulesAgeDeps
  #lastMs: number
  #polledMs: number
  /** When the rules were last found unconfirmed, or a poll came late. */
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
    // One time for both, so that rules confirmed now have an age of exactly 0.
    const nowMs = this.#deps.scheduler.nowMs()
    this.poll(nowMs)
    return Math.max(0, (nowMs - this.#lastMs) / 1000)
  }

  /** Whether the rules were confirmed without interruption since then. */
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
