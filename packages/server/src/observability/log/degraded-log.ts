/**
 * Logs decisions by posture: one line for each rule, posture and second, with the number of the
 * others.
 */
import type { Decision, PostureName } from '@sluice/core'
import type { WallClock } from '../../lib/wall-clock.js'
import { CountedLines } from './counted-lines.js'
import type { Log } from './logger.js'

export interface DegradedLog {
  onDecision(decision: Decision): void
  /** Writes what is due of the seconds that are over. */
  tick(): void
  /** Degraded decisions, once for each rule, that no line reports. */
  dropped(): number
  /** Stops the timer and writes the rest. */
  close(): void
}

export interface DegradedLogOptions {
  readonly log: Pick<Log, 'offer'>
  readonly clock: WallClock
  /** The interval of `tick`; 0 if the caller calls it. @default 1000 */
  readonly sweepMs?: number | undefined
}

export function createDegradedLog(options: DegradedLogOptions): DegradedLog {
  const lines = new CountedLines<PostureName>({
    ...options,
    level: 'warn',
    repeat: { message: 'degraded again', fields: (rule, posture) => ({ rule, posture }) },
  })
  // Created once: while the store is down, every call comes here.
  const visit = (rule: string, posture: PostureName): void => {
    const counted = lines.count(rule, posture)
    if (counted === undefined) return
    const { due } = counted === 'new' ? lines.begin(rule, posture, posture) : counted
    lines.write({ rule, posture, rest: due }, 'degraded', due + 1)
  }
  return {
    onDecision: (decision) => decision.degraded(visit),
    tick: () => lines.tick(),
    dropped: () => lines.dropped(),
    close: () => lines.close(),
  }
}
