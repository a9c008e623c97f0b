/** What a fleet admitted, counted by the clock of the machine, which is the store's too. */
import type { Row } from './fleet-node.test-helper.js'

/** Times are whole milliseconds, so what was answered at one may have been up to one later. */
const TICK_MS = 1

export const allowedOf = (rows: readonly Row[]): readonly Row[] =>
  rows.filter(({ isAllowed }) => isAllowed)

/** Those that were asked and answered between two moments, so certainly decided between them. */
export function rowsWithin(rows: readonly Row[], fromMs: number, untilMs: number): readonly Row[] {
  return rows.filter(
    ({ askedMs, answeredMs }) => askedMs >= fromMs && answeredMs + TICK_MS <= untilMs,
  )
}

/** Those of which at least a part of the time between question and answer was between the two. */
export function rowsTouching(
  rows: readonly Row[],
  fromMs: number,
  untilMs: number,
): readonly Row[] {
  return rows.filter(
    ({ askedMs, answeredMs }) => answeredMs + TICK_MS > fromMs && askedMs < untilMs,
  )
}

export interface WindowCount {
  readonly startMs: number
  /** Certainly in this window. */
  readonly admitted: number
  /** And those around its edges. */
  readonly admittedMaybe: number
  readonly offered: number
}

/** Every window in which something was asked. */
export function windowsOf(rows: readonly Row[], windowMs: number): readonly WindowCount[] {
  const starts = new Set(rows.map(({ askedMs }) => windowStart(askedMs, windowMs)))
  return [...starts].map((startMs) => {
    const inside = rowsWithin(rows, startMs, startMs + windowMs)
    return {
      startMs,
      admitted: allowedOf(inside).length,
      admittedMaybe: allowedOf(rowsTouching(rows, startMs, startMs + windowMs)).length,
      offered: inside.length,
    }
  })
}

function windowStart(atMs: number, windowMs: number): number {
  return Math.floor(atMs / windowMs) * windowMs
}

/** The next start of a window that is at least so far away. */
export function nextStart(windowMs: number, atLeastMs = 0): number {
  return windowStart(Date.now() + atLeastMs, windowMs) + windowMs
}

/**
 * The smallest burst with which a bucket of that rate admits all this: in no interval was more
 * admitted than it and what the interval brings.
 */
export function burstNeeded(rows: readonly Row[], perSecond: number): number {
  const allowed = allowedOf(rows).toSorted((a, b) => a.answeredMs - b.answeredMs)
  let most = 0
  for (const { askedMs: fromMs } of allowed) {
    let count = 0
    for (const { askedMs, answeredMs } of allowed) {
      if (askedMs < fromMs) continue
      count += 1
      most = Math.max(most, count - ((answeredMs + TICK_MS - fromMs) * perSecond) / 1000)
    }
  }
  return most
}

/** The most that was asked within so long. */
export function mostOffered(rows: readonly Row[], spanMs: number): number {
  const times = rows.map(({ askedMs }) => askedMs).toSorted((a, b) => a - b)
  let first = 0
  let most = 0
  for (const [last, atMs] of times.entries()) {
    while (atMs - (times[first] ?? 0) >= spanMs) first += 1
    most = Math.max(most, last - first + 1)
  }
  return most
}

/** The oldest that anything was which a lease answered with. */
export function oldestLease(rows: readonly Row[]): number {
  const ages = rows.flatMap(({ source, staleMs }) => (source === 'lease' ? [staleMs] : []))
  return Math.max(0, ...ages)
}

/** A pause between two calls that is longer is one that the machine made, not the pace. */
const PAUSE_MS = 50

/** For how long calls came between two moments: what a node that stood still missed is left out. */
export function activeMs(rows: readonly Row[], fromMs: number, untilMs: number): number {
  const times = rows
    .map(({ askedMs }) => askedMs)
    .filter((atMs) => atMs > fromMs && atMs < untilMs)
    .toSorted((a, b) => a - b)
  let sum = 0
  let lastMs = fromMs
  for (const atMs of [...times, untilMs]) {
    sum += Math.min(PAUSE_MS, atMs - lastMs)
    lastMs = atMs
  }
  return sum
}

/**
 * The longest time between two moments in which calls came and none was admitted, in milliseconds.
 * Neither a node that stands still nor one that the store does not answer in time is a silence.
 */
export function longestSilence(rows: readonly Row[], fromMs: number, untilMs: number): number {
  let longest = 0
  let silence = 0
  let lastMs = fromMs
  for (const { askedMs, isAllowed, source } of rows.toSorted((a, b) => a.askedMs - b.askedMs)) {
    if (askedMs <= fromMs || askedMs >= untilMs) continue
    if (source !== 'posture') silence += Math.min(PAUSE_MS, askedMs - lastMs)
    lastMs = askedMs
    longest = Math.max(longest, silence)
    if (isAllowed) silence = 0
  }
  return longest
}

/** The longest that a node which is paced stood still, and the longest that it waited. */
export function longestStall(rows: readonly Row[]): number {
  const lastMs = new Map<number, number>()
  let still = 0
  let waited = 0
  for (const { node, askedMs, answeredMs } of rows.toSorted((a, b) => a.askedMs - b.askedMs)) {
    still = Math.max(still, askedMs - (lastMs.get(node) ?? askedMs))
    waited = Math.max(waited, answeredMs - askedMs)
    lastMs.set(node, askedMs)
  }
  return still + waited
}

export function sourcesOf(rows: readonly Row[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const { source } of rows) counts[source] = (counts[source] ?? 0) + 1
  return counts
}
