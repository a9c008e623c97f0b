/** Rules from a file: read at the start, and again when it changes. A bad set replaces nothing. */
import { type Limiter, RulesError } from '@sluice/limiter'
import type { WallClock } from '../clock.js'
import { watchFile } from '../files/watch-file.js'
import type { Log } from '../log/logger.js'
import { parseApart } from './parse-apart.js'

export interface RulesFile {
  /** Counts the sets that were taken; 1 is the first. */
  version(): number
  /** Seconds since the file last held the rules in force; 0 while it does. */
  ageSeconds(): number
  failures(): number
  close(): void
}

interface Parts {
  readonly limiter: Limiter
  readonly log: Log
  readonly clock: WallClock
}

const PROBLEMS_LOGGED = 20

/** Keeps a limiter on the rules of a file; it has `text`, the first of them, already. */
export function followRulesFile(file: string, text: string, parts: Parts): RulesFile {
  return new FollowedFile(file, text, parts)
}

class FollowedFile implements RulesFile {
  readonly #file: string
  readonly #parts: Parts
  readonly #watched: { close(): void }
  #inForce: string
  #version = 1
  #failures = 0
  #badSince: number | undefined
  #isClosed = false
  /** One after the other, so that the last to be written is the last to be taken. */
  #last = Promise.resolve()

  constructor(file: string, text: string, parts: Parts) {
    this.#file = file
    this.#inForce = text
    this.#parts = parts
    this.#watched = watchFile(
      file,
      (changed) => {
        this.#last = this.#last.then(() => this.take(changed))
      },
      { known: text, onError: (error) => this.fail([error.message]) },
    )
  }

  version(): number {
    return this.#version
  }

  ageSeconds(): number {
    if (this.#badSince === undefined) return 0
    return (this.#parts.clock.now() - this.#badSince) / 1000
  }

  failures(): number {
    return this.#failures
  }

  close(): void {
    this.#isClosed = true
    this.#watched.close()
  }

  private async take(changed: string): Promise<void> {
    const { limiter, log } = this.#parts
    const file = this.#file
    // A file that was gone for a while may come back as it was.
    if (changed === this.#inForce) return void (this.#badSince = undefined)
    try {
      const parsed = await parseApart(changed, file)
      if (this.#isClosed) return
      const warnings = limiter.setParsedRules(parsed)
      this.#inForce = changed
      this.#version++
      this.#badSince = undefined
      log.info({ file, version: this.#version }, 'rules changed')
      for (const { message } of warnings) log.warn({ file, problem: message }, 'rules warning')
    } catch (error) {
      if (!(error instanceof RulesError)) return this.fail([String(error)])
      this.fail(error.problems.map(({ message }) => message))
    }
  }

  private fail(messages: readonly string[]): void {
    this.#failures++
    this.#badSince ??= this.#parts.clock.now()
    for (const problem of messages.slice(0, PROBLEMS_LOGGED)) {
      this.#parts.log.error({ file: this.#file, problem }, 'rules refused; those in force stay')
    }
  }
}
