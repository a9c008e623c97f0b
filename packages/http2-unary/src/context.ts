import type { UnaryHandler } from './call.js'
import type { HeldBytes } from './held-bytes.js'
import type { StaticEntries } from './hpack/decoder.js'
import type { FieldNames } from './hpack/field-names.js'
import type { UnaryServerLimits } from './limits.js'
import type { Output } from './output.js'
import type { Counters } from './stats.js'

/** What all connections of a server share. */
export interface ServerContext {
  readonly limits: UnaryServerLimits
  readonly methods: ReadonlyMap<string, UnaryHandler>
  readonly names: FieldNames
  readonly statics: StaticEntries
  /** The place of each name of metadata. */
  readonly metadataIndex: ReadonlyMap<string, number>
  readonly output: Output
  readonly held: HeldBytes
  readonly counters: Counters
  readonly now: () => number
  /** A mistake of a handler, or of this package. Never throws. */
  readonly onError: (error: unknown, path: string | undefined) => void
  /** Calls `writeAnswers` soon, together with what else is answered until then. */
  readonly scheduleAnswers: (connection: AnswerWriter) => void
}

export interface AnswerWriter {
  writeAnswers(): void
}
