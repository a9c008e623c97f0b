/** Turns errors into responses for the client and lines of the log. */
import { SluiceError, show } from '@sluice/core'
import type { WallClock } from '../../lib/wall-clock.js'
import type { Log } from '../../observability/log/logger.js'
import { createThrottle, type Throttle } from '../../observability/log/throttle.js'
import type { HttpProblem } from './responses.js'

interface ErrorReporterDeps {
  readonly log: Log
  readonly clock: WallClock
  /** Begins log lines and is named in responses. */
  readonly component:
    | 'admin API'
    | 'decision API'
    | 'gateway'
    | 'rate limit service'
    | 'rate limit quota service'
    | 'usage'
}

export class ErrorReporter {
  readonly #deps: ErrorReporterDeps
  /** An unreachable store fails every call, and a line for each would fill the disk. */
  readonly #throttle: Throttle

  constructor(deps: ErrorReporterDeps) {
    this.#deps = deps
    this.#throttle = createThrottle(deps.clock)
  }

  /** Logs errors of the server; errors of the client are only sent to it. */
  problemOf(error: unknown): HttpProblem {
    if (!(error instanceof SluiceError)) {
      this.log(error)
      // The message of an unexpected error may contain anything, so only the log has it.
      const detail = `Internal error in the ${this.#deps.component}. See the server log.`
      return { status: 500, detail, error: 'internal' }
    }
    if (error.status >= 500) this.log(error)
    return { status: error.status, detail: error.message, error: error.code }
  }

  /** Logs at most one line a second. */
  log(error: unknown): void {
    const { log, component } = this.#deps
    const passed = this.#throttle.pass(component)
    if (passed === undefined) return
    const fields = { error: textOf(error), cause: causeOf(error), suppressed: passed.suppressed }
    log.error(fields, `${component}: request failed`)
  }
}

function causeOf(error: unknown): string | undefined {
  return error instanceof Error && error.cause !== undefined ? textOf(error.cause) : undefined
}

function textOf(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : show(error)
}
