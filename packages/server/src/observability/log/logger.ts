/** The log: JSON lines, written in the background. */
import { pid } from 'node:process'
import { pino } from 'pino'
import { type WallClock, wallClock } from '../../lib/wall-clock.js'
import { createLineSink, type LineSink, nonBlocking } from './line-sink.js'

/** Chosen fields only: a whole object, such as the headers of a request, brings its secrets. */
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
  /** A line whose writer counts what is dropped, so that `dropped` does not: was it taken? */
  offer(fields: LogFields, message: string, level?: 'info' | 'warn'): boolean
  /** Whether so much waits to be written that lines which can wait should. */
  isBusy(): boolean
  /** Settles when everything is written, or after a second of trying. */
  flush(): Promise<void>
  /** Writes what can be written at once, for a process that ends without waiting. */
  flushNow(): void
  /** Lines that nobody will read because they did not fit or could not be written. */
  dropped(): number
}

export interface LoggerOptions {
  readonly level: 'debug' | 'info' | 'warn' | 'error' | 'silent'
  /** @default standard output */
  readonly destination?: LineSink | undefined
  /** @default the system's */
  readonly clock?: WallClock | undefined
}

const STDOUT = 1

/** The net below "chosen fields only": under these names nothing is ever shown. */
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
      // At a level that leaves such lines out, nothing is lost that anybody wanted.
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
