/** Logs failures of a middleware: one line a minute, because every request may fail alike. */
import { show } from '@sluice/core'
import type { MiddlewareLogger } from './middleware-options.js'

const QUIET_MS = 60_000

export class ErrorLog {
  readonly #logger: MiddlewareLogger
  readonly #nowMs: () => number
  #suppressed = 0
  #quietUntilMs = Number.NEGATIVE_INFINITY

  constructor(logger: MiddlewareLogger, nowMs: () => number) {
    this.#logger = logger
    this.#nowMs = nowMs
  }

  log(subject: string, error: unknown): void {
    const nowMs = this.#nowMs()
    if (nowMs < this.#quietUntilMs) {
      this.#suppressed++
      return
    }
    const left = this.#suppressed === 0 ? '' : ` (${this.#suppressed} more since the last line)`
    this.#suppressed = 0
    this.#quietUntilMs = nowMs + QUIET_MS
    this.#logger.error(`sluice: ${subject}: ${textOf(error)}${left}`)
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : show(error)
}
