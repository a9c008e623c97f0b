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

  /** Never throws. */
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
  try {
    return error instanceof Error ? `${error.name}: ${error.message}` : show(error)
  } catch {
    return 'an error that has no text'
  }
}

/** Returns a logger whose failures change nothing, since there is no other place to log them. */
export function guardLogger(logger: MiddlewareLogger): MiddlewareLogger {
  const write = (level: 'warn' | 'error', message: string): void => {
    try {
      // A logger may also return a promise, though its type does not say so.
      const result = logger[level](message) as unknown
      if (result instanceof Promise) result.catch(() => {})
    } catch {}
  }
  return {
    warn: (message) => write('warn', message),
    error: (message) => write('error', message),
  }
}
