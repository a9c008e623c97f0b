/** Reads the usage of an answer by its content type and encoding, from a copy of its bytes. */
import { canDecode, ContentDecoder } from './content-decoder.js'
import type { TokenUsage, UsageDialect } from './dialects.js'
import { type AnswerForm, UsageReader } from './usage-reader.js'

export interface AnswerHead {
  readonly contentType: string
  /** Empty: none. */
  readonly contentEncoding: string
}

/** Why an answer could not be read. */
export type UnreadReason = 'type' | 'encoding'

export class AnswerReader {
  readonly #usage: UsageReader | undefined
  readonly #decoder: ContentDecoder | undefined
  readonly #unread: UnreadReason | undefined
  /** Whether it is a stream of events. */
  readonly isEvents: boolean
  /** Whether its bytes are events as they are, so that one can be added. */
  readonly isPlainEvents: boolean

  constructor(dialect: UsageDialect, { contentType, contentEncoding }: AnswerHead) {
    const form = formOf(contentType)
    const encoding = contentEncoding.trim().toLowerCase()
    const isPlain = encoding === '' || encoding === 'identity'
    this.isEvents = form === 'events'
    this.isPlainEvents = this.isEvents && isPlain
    if (form === undefined) this.#unread = 'type'
    else if (!isPlain && !canDecode(encoding)) this.#unread = 'encoding'
    if (form === undefined || this.#unread !== undefined) return
    const usage = new UsageReader(dialect, form)
    this.#usage = usage
    if (isPlain) return
    this.#decoder = new ContentDecoder(encoding, { onBytes: (bytes) => usage.push(bytes) })
  }

  push(bytes: Uint8Array): void {
    if (this.#decoder !== undefined) this.#decoder.push(bytes)
    else this.#usage?.push(bytes)
  }

  /** The answer has ended or broke off; a promise while its copy is still decompressed. */
  end(): Promise<void> | void {
    if (this.#decoder === undefined) return this.#usage?.end()
    return this.#decoder.end().then(() => this.#usage?.end())
  }

  /** Undefined: it could be read as far as it came. */
  get unread(): UnreadReason | undefined {
    return this.#unread ?? (this.#decoder?.isBroken === true ? 'encoding' : undefined)
  }

  get reported(): TokenUsage | undefined {
    return this.#usage?.reported
  }

  get outputSeen(): number {
    return this.#usage?.outputSeen ?? 0
  }

  /** See `UsageReader`. */
  seenUsage(estimatedInput: number): TokenUsage | undefined {
    return this.#usage?.seenUsage(estimatedInput)
  }
}

function formOf(contentType: string): AnswerForm | undefined {
  const [type = ''] = contentType.toLowerCase().split(';')
  const name = type.trim()
  if (name === 'text/event-stream') return 'events'
  return name === 'application/json' || name.endsWith('+json') ? 'json' : undefined
}
