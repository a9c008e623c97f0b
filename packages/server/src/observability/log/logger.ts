/** The log: lines of JSON, written in the background. */
import { pid } from 'node:process'
import { pino } from 'pino'
import { type WallClock, wallClock } from '../../lib/wall-clock.js'
import { createLineSink, type LineSink, nonBlocking } from './line-sink.js'

/** Only simple values: a whole object, such as request headers, may contain secrets. */
export type LogFields = Readonly<
  Record<
    string,
    | string
    | number
    | boolean
    | null
    | undefined
    | readonly string[]
    | Readonly<Record<string, string>>
  >
>

export interface Log {
  debug(fields: LogFields, message: string): void
  info(fields: LogFields, message: string): void
  warn(fields: LogFields, message: string): void
  error(fields: LogFields, message: string): void
  /** Returns whether the line was accepted; the caller, not `dropped`, counts rejected lines. */
  offer(fields: LogFields, message: string, level?: 'info' | 'warn'): boolean
  /** Whether the buffer is so full that deferrable lines should wait. */
  isBusy(): boolean
  /** Resolves when everything is written, or after one second. */
  flush(): Promise<void>
  /** Writes synchronously what can be written, for a process that exits immediately. */
  flushNow(): void
  /** Lines that did not fit into the buffer or could not be written. */
  dropped(): number
}

export interface LoggerOptions {
  readonly level: 'debug' | 'info' | 'warn' | 'error' | 'silent'
  /** @default standard output */
  readonly destination?: LineSink | undefined
  /** @default the system clock */
  readonly clock?: WallClock | undefined
}

const STDOUT = 1

/** Fields of these names are always redacted, as a safety net. */
const SECRET_FIELDS = ['authorization', 'cookie', 'key', 'password', 'secret', 'token']

export function createLogger({ level, destination, clock = wallClock }: LoggerOptions): Log {
  const sink = destination ?? createLineSink(nonBlocking(STDOUT))
  let dropped = 0
  let wasTaken = true
  const write = (line: string) => {
    wasTaken = sink.write(line)
    if (!wasTaken) dropped++
  }
  const logger = pino(
    {
      level,
      base: { pid },
      timestamp: () => `,"time":"${new Date(clock.now()).toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: SECRET_FIELDS, censor: '(secret)' },
    },
    { write },
  )
  return {
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    warn: (fields, message) => logger.warn(fields, message),
    error: (fields, message) => logger.error(fields, message),
    offer(fields, message, loudness = 'info') {
      // A line below the log level counts as accepted.
      wasTaken = true
      logger[loudness](fields, message)
      if (!wasTaken) dropped--
      return wasTaken
    },
    isBusy: () => sink.isBusy(),
    flush: () => sink.flush(),
    flushNow: () => sink.flushNow(),
    dropped: () => dropped + sink.lost(),
  }
}
