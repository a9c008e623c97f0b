/** How long ago a source last confirmed the rules in force, and an alarm when that is too long. */
import type { Log } from '../log/logger.js'
import type { Timers } from './timers.js'

const LOOK_EVERY_MS = 1000
const ALARM_MS = 60_000

interface Parts {
  readonly log: Log
  readonly timers: Timers
  /** Whether the rules in force are those of the source, as far as it can be known now. */
  readonly isConfirmed: () => boolean
  /** Why not, for people. */
  readonly problem: () => string | undefined
}

export class Confirmation {
  readonly #parts: Parts
  #lastMs: number
  #isAlarmed = false
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
    const { log, isConfirmed, problem } = this.#parts
    const ageMs = nowMs - this.#lastMs
    if (isConfirmed()) {
      this.#lastMs = nowMs
      if (this.#isAlarmed) log.info({ seconds: Math.round(ageMs / 1000) }, 'rules confirmed again')
      this.#isAlarmed = false
    } else if (ageMs >= ALARM_MS && !this.#isAlarmed) {
      this.#isAlarmed = true
      const fields = { seconds: Math.round(ageMs / 1000), problem: problem() }
      log.error(fields, 'the rules in force may be old: the rule store does not confirm them')
    }
  }

  private lookLater(): () => void {
    return this.#parts.timers.after(LOOK_EVERY_MS, () => {
      this.look(this.#parts.timers.nowMs())
      this.#cancel = this.lookLater()
    })
  }
}
