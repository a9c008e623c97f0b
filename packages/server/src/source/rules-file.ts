/**
 * Rules from a file of the user's own: read at the start, and again when it changes. A bad set
 * replaces nothing, and nothing can be changed here but by writing the file.
 */
import { type Limiter, RulesError } from '@sluice/limiter'
import type { WallClock } from '../clock.js'
import { watchFile } from '../files/watch-file.js'
import type { Log } from '../log/logger.js'
import type { ReadRules } from '../preflight.js'
import type { Stored } from '../rule-store/records.js'
import { UnavailableError } from '../rule-store/rule-store.js'
import { type Book, createBook } from './book.js'
import { recordsOfFile } from './file-records.js'
import { readApart, type ReadText, readText } from './parse-apart.js'
import type { RuleSource } from './rule-source.js'

interface Parts {
  readonly limiter: Pick<Limiter, 'setParsedRules'>
  readonly log: Log
  readonly clock: WallClock
}

const PROBLEMS_LOGGED = 20

/** Keeps a limiter on the rules of a file. Throws a RulesError if the first of them are bad. */
export function followRulesFile(rules: ReadRules, parts: Parts): RuleSource {
  return new FollowedFile(rules, parts)
}

class FollowedFile implements RuleSource {
  readonly name: string
  readonly store = undefined
  readonly book: Book = createBook()
  readonly #file: string
  readonly #fromHeaders: ReadonlySet<string> | undefined
  readonly #parts: Parts
  readonly #watched: { close(): void }
  #inForce: string
  #records: readonly Stored[] = []
  #version = 0
  #failures = 0
  #badSince: number | undefined
  #problem: string | undefined
  #isClosed = false
  /** One after the other, so that the last to be written is the last to be taken. */
  #last = Promise.resolve()

  constructor({ file, text, parsed, fromHeaders }: ReadRules, parts: Parts) {
    this.name = `the file ${file}`
    this.#file = file
    this.#fromHeaders = fromHeaders
    this.#inForce = text
    this.#parts = parts
    this.use(readText(text, file, parsed))
    this.#watched = watchFile(
      file,
      (changed) => {
        this.#last = this.#last.then(() => this.take(changed))
      },
      { known: text, onError: (error) => this.fail([error.message]) },
    )
  }

  isReady(): boolean {
    return true
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

  problem(): string | undefined {
    return this.#problem
  }

  status(): undefined {
    return undefined
  }

  async refresh(version: number): Promise<void> {
    await this.#last
    if (this.#version >= version) return
    throw new UnavailableError(`version ${version} is not in force: it is ${this.#version}`)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#watched.close()
  }

  private async take(changed: string): Promise<void> {
    const file = this.#file
    // A file that was gone for a while may come back as it was.
    if (changed === this.#inForce) return this.isGood()
    try {
      const read = await readApart(changed, { file, fromHeaders: this.#fromHeaders })
      if (this.#isClosed) return
      this.use(read)
      this.#inForce = changed
      this.isGood()
      this.#parts.log.info({ file, version: this.#version }, 'rules changed')
    } catch (error) {
      if (!(error instanceof RulesError)) return this.fail([String(error)])
      this.fail(error.problems.map(({ message }) => message))
    }
  }

  private use(read: ReadText): void {
    const { limiter, log } = this.#parts
    const file = this.#file
    const warnings = limiter.setParsedRules(read.parsed)
    this.#version++
    this.list(read)
    for (const { message } of warnings) log.warn({ file, problem: message }, 'rules warning')
  }

  /** For people to look at: what is decided does not depend on it. */
  private list({ parsed: { rules }, plain: { value, problems } }: ReadText): void {
    const version = this.#version
    const position = { version, mark: '', lineage: this.#file }
    if (rules === undefined) return
    const [problem] = problems
    if (problem === undefined) {
      this.#records = recordsOfFile(value, rules, { version, before: this.#records })
    } else {
      this.#records = []
      const fields = { file: this.#file, problem: problem.message }
      this.#parts.log.warn(fields, 'the rules are in force, but cannot be listed as they stand')
    }
    this.book.take({ isWhole: true, records: this.#records, position })
  }

  private isGood(): void {
    this.#badSince = undefined
    this.#problem = undefined
  }

  private fail(messages: readonly string[]): void {
    this.#failures++
    this.#badSince ??= this.#parts.clock.now()
    this.#problem = messages[0]
    for (const problem of messages.slice(0, PROBLEMS_LOGGED)) {
      this.#parts.log.error({ file: this.#file, problem }, 'rules refused; those in force stay')
    }
  }
}
