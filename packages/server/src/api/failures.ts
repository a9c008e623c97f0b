/** What a failure is told as, to whoever asked and to the log. */
import { SluiceError, show } from '@sluice/core'
import type { WallClock } from '../clock.js'
import type { ProblemAnswer } from '../http/answer.js'
import type { Log } from '../log/logger.js'

interface FailureParts {
  readonly log: Log
  readonly clock: WallClock
}

/** A store that is gone fails every call, and a line for each would fill a disk. */
const LINE_EVERY_MS = 1000

export class Failures {
  readonly #parts: FailureParts
  #lineFromMs = Number.NEGATIVE_INFINITY
  #untold = 0

  constructor(parts: FailureParts) {
    this.#parts = parts
  }

  /** What is our own fault is logged; what the asker did wrong it is told itself. */
  problemOf(error: unknown): ProblemAnswer {
    if (!(error instanceof SluiceError)) {
      this.log(error)
      return INTERNAL
    }
    if (error.status >= 500) this.log(error)
    return { status: error.status, detail: error.message, error: error.code }
  }

  private log(error: unknown): void {
    const { log, clock } = this.#parts
    const nowMs = clock.now()
    if (nowMs < this.#lineFromMs) {
      this.#untold++
      return
    }
    const fields = { error: textOf(error), cause: causeOf(error), untold: this.#untold }
    log.error(fields, 'a call failed in the decision API')
    this.#lineFromMs = nowMs + LINE_EVERY_MS
    this.#untold = 0
  }
}

/** What is no error of ours may say anything, so only the log has it. */
const INTERNAL: ProblemAnswer = {
  status: 500,
  detail: 'The decision API failed. Its log says how.',
  error: 'internal',
}

function causeOf(error: unknown): string | undefined {
  return error instanceof Error && error.cause !== undefined ? textOf(error.cause) : undefined
}

function textOf(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : show(error)
}
