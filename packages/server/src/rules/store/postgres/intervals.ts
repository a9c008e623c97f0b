/** How often and how long: what the store waits for beside answers. */
import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'

export interface Intervals {
  /** Between two heartbeats of the listening connection, and until one must be answered. */
  readonly heartbeatMs: number
  readonly heartbeatWithinMs: number
  /** Until the listening connection must have heard what this node said itself. */
  readonly probeWithinMs: number
  /**
   * Until it is tried again, where a pooler swallows what is said: the first time, since it may
   * have been slow, and the longest.
   */
  readonly probeAgainLeastMs: number
  readonly probeAgainMostMs: number
  /** Between two looks at the version: as a net below the listener, and without one. */
  readonly pollMs: number
  readonly pollAloneMs: number
  readonly pollWithinMs: number
  /** Between two tries to connect: the first, and the longest. */
  readonly retryLeastMs: number
  readonly retryMostMs: number
}

export const INTERVALS: Intervals = {
  heartbeatMs: 2000,
  heartbeatWithinMs: 3000,
  probeWithinMs: 3000,
  probeAgainLeastMs: 10_000,
  probeAgainMostMs: 600_000,
  pollMs: 3000,
  pollAloneMs: 1000,
  pollWithinMs: 3000,
  retryLeastMs: 100,
  retryMostMs: 5000,
}

const JITTER_STEPS = 1000

export function retryMs(intervals: Intervals, failures: number): number {
  return laterMs(intervals.retryLeastMs, intervals.retryMostMs, failures)
}

export function probeAgainMs(intervals: Intervals, failures: number): number {
  return laterMs(intervals.probeAgainLeastMs, intervals.probeAgainMostMs, failures)
}

/** Twice as long after every failure, and between half and all of it: nodes fail together. */
function laterMs(least: number, most: number, failures: number): number {
  const longest = Math.min(most, least * 2 ** Math.min(failures, 20))
  return Math.ceil((longest / 2) * (1 + randomInt(JITTER_STEPS) / JITTER_STEPS))
}

/** Resolves also when it is aborted. Keeps no process alive. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal, ref: false }).catch(() => undefined)
}
