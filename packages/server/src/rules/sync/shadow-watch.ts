/** Ends timed shadows when their time is over, and logs as long as one lasts. */
import type { Log } from '../../observability/log/logger.js'
import { messageOf } from '../../lib/message-of.js'
import type { TimedShadow } from './timed-shadow.js'
import type { Scheduler } from '../../lib/scheduler.js'

const LOGGED_EVERY_MS = 60_000
/** Until rules that could not be put into force as they shall be are tried again. */
const RETRY_MS = 1000

interface ShadowWatchDeps {
  readonly shadow: TimedShadow
  readonly scheduler: Scheduler
  readonly log: Log
  /** Whether the rules in force were read while other shadows were active than now. */
  readonly isStale: () => boolean
  /** Puts the rules that are known into force as they shall be now. */
  readonly reactivate: () => Promise<void>
}

export class ShadowWatch {
  readonly #deps: ShadowWatchDeps
  #cancel = () => {}
  /** What was active at the last look; empty: nothing. */
  #active = ''
  #loggedMs = -Infinity
  #isClosed = false

  constructor(deps: ShadowWatchDeps) {
    this.#deps = deps
  }

  /** After every change of what the store holds. */
  update(): void {
    this.#cancel()
    this.#cancel = () => {}
    if (this.#isClosed) return
    const { shadow, scheduler, isStale } = this.#deps
    const wake = () => void this.wake()
    // It ended while rules were read, or they could not be: a shadow must not outlive its end.
    if (isStale()) {
      this.#cancel = scheduler.after(RETRY_MS, wake)
      return
    }
    this.log()
    const leftMs = shadow.msLeft()
    if (leftMs === undefined) return
    // A timer may be early by a part of a millisecond.
    const waitMs = Math.min(Math.ceil(leftMs) + 1, LOGGED_EVERY_MS)
    this.#cancel = scheduler.after(waitMs, wake)
  }

  close(): void {
    this.#isClosed = true
    this.#cancel()
  }

  private async wake(): Promise<void> {
    const { log, reactivate, isStale } = this.#deps
    try {
      if (isStale()) await reactivate()
    } catch (error) {
      log.error({ problem: messageOf(error) }, 'timed shadow: rules were not put into force again')
    }
    this.update()
  }

  private log(): void {
    const { shadow, scheduler, log } = this.#deps
    const [before, now] = [this.#active, shadow.state()]
    this.#active = now
    if (now === '') {
      if (before !== '') log.info({}, 'timed shadow: over, rules do what their mode says')
      return
    }
    const nowMs = scheduler.nowMs()
    if (now === before && nowMs - this.#loggedMs < LOGGED_EVERY_MS) return
    this.#loggedMs = nowMs
    const until = shadow.until()
    const fields = until === undefined ? { rules: shadow.ruleCount } : { rules: 'all', until }
    log.warn(fields, 'timed shadow: enforced rules refuse no call')
  }
}
