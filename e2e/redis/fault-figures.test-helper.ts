/** The results of a fault run, computed from its log. */
import type { TimerCanary } from './fault-canary.test-helper.js'
import type { DecisionLog, Row } from './fault-log.test-helper.js'
import { KINDS, TIGHT_MAX } from './fault-nodes.test-helper.js'

export interface Latency {
  readonly decisions: number
  readonly byPosture: number
  readonly slowestMs: number
  /** Beyond the deadline, and beyond the stalls of a bare timer. */
  readonly excessMs: number
  /** The longest time without one. */
  readonly stallMs: number
}

export function latencyOf(log: DecisionLog, timers: TimerCanary, deadlineMs: number): Latency {
  let slowestMs = 0
  let excessMs = 0
  let byPosture = 0
  for (const { askedMs, answeredMs, source } of log.rows()) {
    if (source === 'posture') byPosture += 1
    const tookMs = answeredMs - askedMs
    slowestMs = Math.max(slowestMs, tookMs)
    if (tookMs > deadlineMs + excessMs) {
      excessMs = Math.max(excessMs, tookMs - deadlineMs - timers.stalledIn(askedMs, answeredMs))
    }
  }
  return { decisions: log.length, byPosture, slowestMs, excessMs, stallMs: timers.longestMs }
}

/** When decisions were exact again; Infinity if never. */
export interface Exact {
  readonly atMs: number
  /** How long after the fault; without the time in which the machine was busy, if it is long. */
  readonly afterMs: number
}

export interface Recovery {
  /** From the end of the fault until decisions were exact again. */
  readonly recoveryMs: number
  readonly decisionsAfter: number
  /** Decisions by posture among those. */
  readonly strays: number
  /** Those of them that no noise of the machine explains. */
  readonly unexcused: number
}

export function recoveryOf(
  log: DecisionLog,
  { atMs, afterMs }: Exact,
  isNoisy: (atMs: number) => boolean,
): Recovery {
  let decisionsAfter = 0
  let strays = 0
  let unexcused = 0
  for (const { askedMs, answeredMs, source } of log.rows()) {
    if (askedMs < atMs) continue
    decisionsAfter += 1
    if (source !== 'posture') continue
    strays += 1
    if (!isNoisy(answeredMs)) unexcused += 1
  }
  return { recoveryMs: afterMs, decisionsAfter, strays, unexcused }
}

export interface AdmissionCounts {
  /** Beyond the limit, in limits, for the caller that got most. */
  readonly worst: {
    /** By the store alone, whatever the posture. */
    readonly store: number
    /** By all together, for rules with these postures. */
    readonly closed: number
    readonly local: number
  }
  /** By the shares that nodes grant by themselves. */
  readonly byShare: number
}

export function countAdmissions(log: DecisionLog): AdmissionCounts {
  const byCaller = new Map<string, { row: Row; store: number; all: number }>()
  let byShare = 0
  for (const row of log.rows()) {
    const kind = KINDS[row.kind]
    if (kind?.posture === 'local' && row.source === 'posture' && row.allowed) byShare += 1
    if (kind?.isTight !== true || kind.posture === undefined || !row.allowed) continue
    const caller = `${row.kind}.${row.user}`
    const counts = byCaller.get(caller) ?? { row, store: 0, all: 0 }
    if (row.source !== 'posture') counts.store += 1
    counts.all += 1
    byCaller.set(caller, counts)
  }
  const worst = { store: 0, closed: 0, local: 0 }
  for (const { row, store, all } of byCaller.values()) {
    const posture = KINDS[row.kind]?.posture
    worst.store = Math.max(worst.store, store / TIGHT_MAX - 1)
    if (posture === 'closed' || posture === 'local') {
      worst[posture] = Math.max(worst[posture], all / TIGHT_MAX - 1)
    }
  }
  return { worst, byShare }
}
