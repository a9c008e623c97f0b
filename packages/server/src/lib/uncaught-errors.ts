/**
 * Handles uncaught errors, which are bugs in Sluice. One call may fail because of such an error,
 * but exiting would fail all calls, so the error is logged and the process continues. If errors
 * keep coming, only a new process can help, and it exits.
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
