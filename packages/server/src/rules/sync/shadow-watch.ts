/** Ends timed shadows when their time is over, and logs every minute while one is active. */
import type { Log } from '../../observability/log/logger.js'
import { messageOf } from '../../lib/message-of.js'
import type { TimedShadow } from './timed-shadow.js'
import type { Scheduler } from '../../lib/scheduler.js'

const LOGGED_EVERY_MS = 60_000
/** Until rules that could not be reactivated are tried again. */
const RETRY_MS = 1000

interface ShadowWatchDeps {
  readonly shadow: TimedShadow
  readonly scheduler: Scheduler
  readonly log: Log
  /** Whether the active rules were read while other shadows were active than now. */
  readonly isStale: () => boolean
  /** Activates the known rules again, with the timed shadows of now. */
  readonly reactivate: () => Promise<void>
}

export class ShadowWatch {
  readonly #deps: ShadowWatchDeps
  #cancel = () => {}
  /** `TimedShadow.state` when it was last logged; empty: none was active. */
  #active = ''
  #loggedMs = -Infinity
  #isClosed = false

  constructor(deps: ShadowWatchDeps) {
    this.#deps = deps
  }

  /** Called after every change from the store. */
  update(): void {
    this.#cancel()
    this.#cancel = () => {}
    if (this.#isClosed) return
    const { shadow, scheduler, isStale } = this.#deps
    const wake = () => void this.wake()
    // A shadow ended while rules were read, or they could not be read: it must not outlive its end.
    if (isStale()) {
      this.#cancel = scheduler.after(RETRY_MS, wake)
      return
    }
    this.log()
    const leftMs = shadow.msLeft()
    if (leftMs === undefined) return
    // A timer may fire a fraction of a millisecond early.
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
      log.error({ problem: messageOf(error) }, 'timed shadow: failed to reactivate rules')
    }
    this.update()
  }

  private log(): void {
    const { shadow, scheduler, log } = this.#deps
    const [before, now] = [this.#active, shadow.state()]
    this.#active = now
    if (now === '') {
      if (before !== '') log.info({}, 'timed shadow: ended, rules follow their mode again')
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
