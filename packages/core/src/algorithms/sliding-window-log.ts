/**
 * Sliding window log: the time of every unit admitted. Exact in any interval, at the price of
 * memory; an entry made at t no longer counts at t + window.
 */
import type { Limit } from '../limit.js'
import { usToMsUp } from '../numbers.js'
import { type Algorithm, isFromAnotherClock, type Outcome, type Step } from './algorithm.js'

interface LogEntry {
  readonly at: number
  readonly units: number
}

/** Oldest first, one entry per instant. */
export type Log = readonly LogEntry[]

interface View {
  readonly at: number
  readonly entries: Log
  readonly count: number
  readonly moved: boolean
}

const EMPTY: Log = []

function view(log: Log | undefined, limit: Limit, now: number): View {
  const newest = log?.at(-1)
  if (log === undefined || newest === undefined) {
    return { at: now, entries: EMPTY, count: 0, moved: false }
  }
  const moved = isFromAnotherClock(newest.at, limit, now)
  const at = moved ? now : Math.max(now, newest.at)
  const kept = moved ? moveBack(log, now) : log
  const first = kept.findIndex((entry) => entry.at > at - limit.windowUs)
  const entries = first === -1 ? EMPTY : first === 0 ? kept : kept.slice(first)
  return { at, entries, count: countUnits(entries), moved }
}

/** What lies ahead of now becomes one entry at now, or a give would find it several times. */
function moveBack(log: Log, now: number): Log {
  const past = log.filter((entry) => entry.at < now)
  return [...past, { at: now, units: countUnits(log) - countUnits(past) }]
}

function countUnits(entries: Log): number {
  let units = 0
  for (const entry of entries) units += entry.units
  return units
}

/** Microseconds from now until enough entries have left for the amount to fit. */
function waitFor(seen: View, limit: Limit, amount: number, now: number): number {
  let excess = seen.count + amount - limit.max
  for (const entry of seen.entries) {
    excess -= entry.units
    if (excess <= 0) return entry.at + limit.windowUs - now
  }
  return 0
}

function append(entries: Log, at: number, units: number): Log {
  const newest = entries.at(-1)
  if (newest === undefined || newest.at < at) return [...entries, { at, units }]
  return insert(entries, at, units)
}

/** Adds units in their place in time; two at one instant count as two. */
function insert(entries: Log, at: number, units: number): Log {
  const found = entries.findIndex((entry) => entry.at >= at)
  const index = found === -1 ? entries.length : found
  const same = entries[index]?.at === at ? entries[index] : undefined
  const entry = { at, units: units + (same?.units ?? 0) }
  return [
    ...entries.slice(0, index),
    entry,
    ...entries.slice(same === undefined ? index : index + 1),
  ]
}

function admit(seen: View, limit: Limit, now: number, granted: number): Step<Log> {
  const entries = granted === 0 ? seen.entries : append(seen.entries, seen.at, granted)
  const newest = entries.at(-1)
  const moved = seen.moved ? seen.entries : undefined
  return {
    granted,
    remaining: Math.max(0, limit.max - seen.count - granted),
    resetAfterMs: newest === undefined ? 0 : usToMsUp(newest.at + limit.windowUs - now),
    retryAfterMs: 0,
    delayMs: 0,
    at: seen.at,
    state: granted === 0 ? moved : entries,
    moved,
  }
}

function refuse(seen: View, limit: Limit, amount: number, now: number): Step<Log> {
  const newest = seen.entries.at(-1)
  return {
    granted: 0,
    remaining: Math.max(0, limit.max - seen.count),
    resetAfterMs: newest === undefined ? 0 : usToMsUp(newest.at + limit.windowUs - now),
    retryAfterMs: amount > limit.max ? null : usToMsUp(waitFor(seen, limit, amount, now)),
    delayMs: 0,
    at: seen.at,
    state: undefined,
    moved: seen.moved ? seen.entries : undefined,
  }
}

function take(
  log: Log | undefined,
  limit: Limit,
  amount: number,
  now: number,
  atLeast = amount,
): Step<Log> {
  const seen = view(log, limit, now)
  if (amount === 0) return admit({ ...seen, moved: false }, limit, now, 0)
  const granted = Math.min(amount, limit.max - seen.count)
  if (granted >= atLeast) return admit(seen, limit, now, granted)
  return refuse(seen, limit, atLeast, now)
}

function peek(log: Log | undefined, limit: Limit, amount: number, now: number): Outcome {
  const seen = view(log, limit, now)
  if (amount === 0 || seen.count + amount <= limit.max) return admit(seen, limit, now, 0)
  return refuse(seen, limit, amount, now)
}

function give(
  log: Log | undefined,
  limit: Limit,
  amount: number,
  now: number,
  at?: number,
): Log | undefined {
  if (log === undefined) return undefined
  const { entries } = view(log, limit, now)
  if (at !== undefined) {
    if (!entries.some((entry) => entry.at === at)) return undefined
    return entries.flatMap((entry) => (entry.at === at ? lessen(entry, amount) : [entry]))
  }
  let back = amount
  return entries.flatMap((entry) => {
    const rest = lessen(entry, back)
    back -= entry.units - (rest[0]?.units ?? 0)
    return rest
  })
}

function lessen(entry: LogEntry, units: number): readonly LogEntry[] {
  return entry.units > units ? [{ at: entry.at, units: entry.units - units }] : []
}

function charge(
  log: Log | undefined,
  limit: Limit,
  amount: number,
  now: number,
  at: number,
  debt: number,
): Log | undefined {
  const seen = view(log, limit, now)
  const spentAt = Math.min(at, seen.at)
  const units = Math.min(amount, limit.max + debt - seen.count)
  if (units <= 0 || spentAt <= seen.at - limit.windowUs) return undefined
  return insert(seen.entries, spentAt, units)
}

function expiresAt(log: Log, limit: Limit): number {
  return (log.at(-1)?.at ?? 0) + limit.windowUs
}

export const slidingWindowLog: Algorithm<Log> = {
  name: 'sliding-window-log',
  take,
  peek,
  give,
  charge,
  expiresAt,
}
