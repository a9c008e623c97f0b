/**
 * Mistakes of our own that nobody caught. One call may come to harm by it, but ending the process
 * would harm them all; so it is logged loudly and goes on. Where they do not stop, something is
 * broken that only a new process puts right.
 */
import type { WallClock } from './wall-clock.js'
import type { Log } from '../observability/log/logger.js'

const ERRORS_MAX = 100
const WITHIN_MS = 60_000

export interface UncaughtErrors {
  /** Whether the process should end. */
  shouldExit(error: unknown): boolean
}

export function createUncaughtErrors(log: Log, clock: WallClock): UncaughtErrors {
  let since = clock.now()
  let count = 0
  return {
    shouldExit(error) {
      const now = clock.now()
      if (now - since > WITHIN_MS) {
        since = now
        count = 0
      }
      const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
      log.error({ error: text }, 'uncaught error (bug in Sluice); please report it')
      return ++count > ERRORS_MAX
    },
  }
}
