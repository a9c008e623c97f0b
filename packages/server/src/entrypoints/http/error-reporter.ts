/** What a failure is told as, to whoever asked and to the log. */
import { SluiceError, show } from '@sluice/core'
import type { WallClock } from '../../lib/wall-clock.js'
import type { Log } from '../../observability/log/logger.js'
import { createThrottle, type Throttle } from '../../observability/log/throttle.js'
import type { HttpProblem } from './responses.js'

interface ErrorReporterDeps {
  readonly log: Log
  readonly clock: WallClock
  /** Where it failed, for people. */
  readonly component: 'admin API' | 'decision API' | 'gateway'
}

export class ErrorReporter {
  readonly #deps: ErrorReporterDeps
  /** A store that is gone fails every call, and a line for each would fill a disk. */
  readonly #throttle: Throttle

  constructor(deps: ErrorReporterDeps) {
    this.#deps = deps
    this.#throttle = createThrottle(deps.clock)
  }

  /** What is our own fault is logged; what the asker did wrong it is told itself. */
  problemOf(error: unknown): HttpProblem {
    if (!(error instanceof SluiceError)) {
      this.log(error)
      // What is no error of ours may say anything, so only the log has it.
      const detail = `The ${this.#deps.component} failed. Its log says how.`
      return { status: 500, detail, error: 'internal' }
    }
    if (error.status >= 500) this.log(error)
    return { status: error.status, detail: error.message, error: error.code }
  }

  /** A line of the log, one a second. */
  log(error: unknown): void {
    const { log, component } = this.#deps
    const passed = this.#throttle.pass(component)
    if (passed === undefined) return
    const fields = { error: textOf(error), cause: causeOf(error), untold: passed.untold }
    log.error(fields, `a call failed in the ${component}`)
  }
}

function causeOf(error: unknown): string | undefined {
  return error instanceof Error && error.cause !== undefined ? textOf(error.cause) : undefined
}

function textOf(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : show(error)
}
