/** Counts what a fleet admitted, by the clock of the machine, which is also the store's clock. */
import type { Row } from './fleet-node.test-helper.js'

/** Times are whole milliseconds, so an answer may have come up to one millisecond later. */
const TICK_MS = 1

export const allowedOf = (rows: readonly Row[]): readonly Row[] =>
  rows.filter(({ isAllowed }) => isAllowed)

/**
 * Calls that started and ended between two moments, so they were certainly decided between them.
 */
export function rowsWithin(rows: readonly Row[], fromMs: number, untilMs: number): readonly Row[] {
  return rows.filter(
    ({ askedMs, answeredMs }) => askedMs >= fromMs && answeredMs + TICK_MS <= untilMs,
  )
}

/** Calls whose time between start and answer overlaps the interval. */
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
  /** Calls certainly in this window. */
  readonly admitted: number
  /** Those and the calls around its edges. */
  readonly admittedMaybe: number
  readonly offered: number
}

/** Every window in which a call was made. */
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

/** The next start of a window that is at least this far away. */
export function nextStart(windowMs: number, atLeastMs = 0): number {
  return windowStart(Date.now() + atLeastMs, windowMs) + windowMs
}

/**
 * The smallest burst with which a bucket of that rate admits all these calls: no interval has more
 * admissions than the burst plus the refill of the interval.
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

/** The largest number of calls made within this time. */
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

/** The largest staleness of a decision made from a lease. */
export function oldestLease(rows: readonly Row[]): number {
  const ages = rows.flatMap(({ source, staleMs }) => (source === 'lease' ? [staleMs] : []))
  return Math.max(0, ...ages)
}

/** A longer pause between two calls was caused by the machine, not by the pace. */
const PAUSE_MS = 50

/** How long calls were made between two moments, without the time in which a node stalled. */
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
 * The longest time between two moments in which calls were made and none was admitted, in
 * milliseconds. Time in which a node stalled or the store was late does not count.
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

/** The longest time that a paced node stalled, and the longest time that it waited. */
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
