/** A log that keeps its lines for tests. */
import type { WallClock } from '../../lib/wall-clock.js'
import { createLogger, type Log } from './logger.js'
import type { LineSink } from './line-sink.js'

export interface MemoryLog {
  readonly log: Log
  /** Every line that was written, parsed. */
  readonly lines: Record<string, unknown>[]
  /** While true, every line is rejected. */
  isStuck: boolean
}

export function createMemoryLog(
  level: 'debug' | 'info' | 'warn' | 'error' | 'silent' = 'debug',
  clock?: WallClock,
): MemoryLog {
  const lines: Record<string, unknown>[] = []
  const destination: LineSink = {
    write(line) {
      if (memory.isStuck) return false
      lines.push(JSON.parse(line) as Record<string, unknown>)
      return true
    },
    isBusy: () => false,
    flush: () => Promise.resolve(),
    flushNow: () => undefined,
    lost: () => 0,
  }
  const memory: MemoryLog = {
    log: createLogger({ level, destination, clock }),
    lines,
    isStuck: false,
  }
  return memory
}
