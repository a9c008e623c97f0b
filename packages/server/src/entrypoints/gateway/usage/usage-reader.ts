/** Reads the usage of one answer of a language model from its bytes, however they are split. */
import { estimateTokens } from '@sluice/limiter'
import { DIALECTS, type ReportedTokens, type TokenUsage, type UsageDialect } from './dialects.js'
import { EventScanner } from './event-scanner.js'
import { type JsonReceiver, JsonScanner } from './json-scanner.js'

/** One JSON text, or a stream of server-sent events. */
export type AnswerForm = 'json' | 'events'

/** More tokens than any call has; a larger number is none. Sums of a few stay exact. */
const TOKENS_MAX = 1e12

export class UsageReader implements JsonReceiver {
  readonly #dialect: (typeof DIALECTS)[UsageDialect]
  readonly #scanner: JsonScanner
  /** Undefined: the answer is one JSON text. */
  readonly #events: EventScanner | undefined
  /** Of the text or event that is being read: a part of it counts only if all of it arrives. */
  #pending: Record<string, number> = {}
  #reported: ReportedTokens = {}
  #textLength = 0

  constructor(dialect: UsageDialect, form: AnswerForm) {
    this.#dialect = DIALECTS[dialect]
    this.#scanner = new JsonScanner(this.#dialect.paths, this)
    if (form === 'json') return
    this.#events = new EventScanner(this.#scanner, (isComplete) => this.commit(isComplete))
  }

  push(bytes: Uint8Array): void {
    if (this.#events !== undefined) return this.#events.push(bytes)
    if (this.#scanner.isComplete) return
    this.#scanner.push(bytes)
    if (this.#scanner.isComplete) this.commit(true)
  }

  /** The answer has ended, or will not go on. */
  end(): void {
    this.#events?.end()
  }

  /** The usage that the answer reported of the whole call; undefined as long as it has not. */
  get reported(): TokenUsage | undefined {
    return this.#dialect.finalUsage(this.#reported)
  }

  /** The tokens of output that have been seen: those reported, or the text over four. */
  get outputSeen(): number {
    const { output } = this.#dialect.partialUsage(this.#reported)
    if (this.#textLength === 0) return output
    return Math.max(output, estimateTokens({ characters: this.#textLength }))
  }

  /**
   * What a call is charged whose answer reported no usage, or broke off before: the input as
   * reported, else as estimated, and the output that was seen. Undefined if nothing was.
   */
  seenUsage(estimatedInput: number): TokenUsage | undefined {
    const { input } = this.#dialect.partialUsage(this.#reported)
    const output = this.outputSeen
    if (input === undefined && output === 0) return undefined
    const cached = input === undefined ? 0 : (this.#reported.cached ?? 0)
    return { input: input ?? estimatedInput, cached, output, reasoning: 0 }
  }

  onValue(name: string, value: number | string | boolean): void {
    if (!Number.isInteger(value) || typeof value !== 'number') return
    if (value >= 0 && value <= TOKENS_MAX) this.#pending[name] = value
  }

  onLength(_name: string, length: number): void {
    this.#textLength += length
  }

  onEnd(): void {
    // The length of a text is counted while it arrives.
  }

  /** The largest report holds: those of a stream add up, and some events leave a number at 0. */
  private commit(isComplete: boolean): void {
    const reported: Record<string, number> = { ...this.#reported }
    for (const [name, tokens] of Object.entries(this.#pending)) {
      reported[name] = Math.max(tokens, reported[name] ?? 0)
    }
    if (isComplete) this.#reported = reported
    this.#pending = {}
  }
}
