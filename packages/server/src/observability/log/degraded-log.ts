/**
 * Decisions that were made without the store, as log lines: for each rule, posture and second one
 * line, and the others of that second counted.
 */
import type { Decision, PostureName } from '@sluice/core'
import type { WallClock } from '../../lib/wall-clock.js'
import { CountedLines } from './counted-lines.js'
import type { Log } from './logger.js'

export interface DegradedLog {
  onDecision(decision: Decision): void
  /** Tells of the seconds that are over. Called by a timer, or by whoever drives the time. */
  tick(): void
  /** Degraded decisions, once for each rule, that no line tells of. */
  dropped(): number
  /** Ends the timer and tells the rest. */
  close(): void
}

export interface DegradedLogOptions {
  readonly log: Pick<Log, 'offer'>
  readonly clock: WallClock
  /** 0: no timer, somebody else calls `tick`. @default 1000 */
  readonly sweepMs?: number | undefined
}

export function createDegradedLog(options: DegradedLogOptions): DegradedLog {
  const lines = new CountedLines<PostureName>({
    ...options,
    level: 'warn',
    repeat: { message: 'degraded again', fields: (rule, posture) => ({ rule, posture }) },
  })
  // Made once: while a store is gone this is asked for every call.
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
