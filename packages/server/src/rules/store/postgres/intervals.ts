/** Intervals and timeouts of the store. */
import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'

export interface Intervals {
  /** Interval and timeout of heartbeats on the listening connection. */
  readonly heartbeatMs: number
  readonly heartbeatWithinMs: number
  /** Timeout for the notification that this node sends to itself as a probe. */
  readonly probeWithinMs: number
  /**
   * First and longest pause before another probe, where a pooler drops notifications. The first is
   * short, since the pooler may only have been slow.
   */
  readonly probeAgainLeastMs: number
  readonly probeAgainMostMs: number
  /** Poll intervals: as a safety net beside the listener, and without a listener. */
  readonly pollMs: number
  readonly pollAloneMs: number
  readonly pollWithinMs: number
  /** First and longest pause between two attempts to connect. */
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

/** Exponential backoff with jitter, between half and all of it: nodes fail together. */
function laterMs(least: number, most: number, failures: number): number {
  const longest = Math.min(most, least * 2 ** Math.min(failures, 20))
  return Math.ceil((longest / 2) * (1 + randomInt(JITTER_STEPS) / JITTER_STEPS))
}

/** Resolves early when aborted. Does not keep the process alive. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal, ref: false }).catch(() => undefined)
}
