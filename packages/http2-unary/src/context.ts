import type { UnaryHandler } from './call.js'
import { HeldBytes } from './held-bytes.js'
import { type StaticEntries, staticEntries } from './hpack/decoder.js'
import { FieldNames } from './hpack/field-names.js'
import { resolveLimits, type UnaryServerLimits } from './limits.js'
import { Output } from './output.js'
import { type Counters, createCounters } from './stats.js'

export interface ContextOptions {
  /** What answers each method, by its path: `/package.Service/Method`. */
  readonly methods: Readonly<Record<string, UnaryHandler>>
  /** The headers that handlers read with `call.metadata`, in lower case. All others are skipped. */
  readonly metadata?: readonly string[]
  readonly limits?: Partial<UnaryServerLimits>
  /** From 0 to 1, by which connections differ in their age. @default Math.random */
  readonly random?: () => number
  /** Is told of what a handler threw that is no GrpcStatusError, with the path of the call. */
  readonly onError?: (error: unknown, path: string | undefined) => void
}

export interface AnswerWriter {
  writeAnswers(): void
}

interface ContextDeps {
  readonly now: () => number
  /** Calls `writeAnswers` soon, together with what else is answered until then. */
  readonly scheduleAnswers: (writer: AnswerWriter) => void
}

/** What all connections of a server share. */
export interface ServerContext extends ContextDeps {
  readonly limits: UnaryServerLimits
  readonly random: () => number
  readonly methods: ReadonlyMap<string, UnaryHandler>
  readonly names: FieldNames
  readonly statics: StaticEntries
  /** The place of each name of metadata. */
  readonly metadataIndex: ReadonlyMap<string, number>
  readonly output: Output
  readonly held: HeldBytes
  readonly counters: Counters
  /** Takes a mistake of a handler, or of this package. Never throws. */
  readonly onError: (error: unknown, path: string | undefined) => void
}

export function createContext(options: ContextOptions, deps: ContextDeps): ServerContext {
  const limits = resolveLimits(options.limits)
  const metadata = options.metadata ?? []
  const names = new FieldNames(metadata)
  const report = options.onError
  return {
    ...deps,
    limits,
    random: options.random ?? Math.random,
    methods: new Map(Object.entries(options.methods)),
    names,
    statics: staticEntries(names),
    metadataIndex: new Map(metadata.map((name, index) => [name, index])),
    output: new Output(),
    held: new HeldBytes(limits.heldBytes),
    counters: createCounters(),
    onError: (error, path) => {
      try {
        report?.(error, path)
      } catch {
        // Whoever reports must not end the process of those who serve.
      }
    },
  }
}
