/**
 * Adds up two states of one counter that two processes kept apart: what both counted is counted
 * once each, in whichever order they meet. Where that cannot be known, the caller is not charged
 * twice.
 */
import {
  algorithmOf,
  type Block,
  type Bucket,
  type FixedWindow,
  type Limit,
  type Log,
  type Places,
  type SlidingCounter,
} from '@sluice/core'

/** The most entries of one log: its units and what it may owe, see `sliding-window-log.ts`. */
const LOG_ENTRIES_MAX = 20_000

/** Returns the state of both together; undefined if that is `own` as it is. */
export function mergeStates(own: unknown, other: unknown, limit: Limit, now: number): unknown {
  switch (algorithmOf(limit).family) {
    case 'bucket':
      return mergeBuckets(own as Bucket, other as Bucket, limit, now)
    case 'window':
      return mergeWindows(own, other, limit, now)
    case 'log':
      return mergeLogs(own as Log, other as Log)
    case 'places':
      return mergePlaces(own as Places, other as Places, now)
    case 'queue':
      // Its slots cannot be told apart from those that are given out here.
      return undefined
    case 'block':
      return mergeBlocks(own as Block, other as Block)
  }
}

/** Both are brought to the present first; giving back nothing does that. */
function mergeBuckets(own: Bucket, other: Bucket, limit: Limit, now: number): Bucket | undefined {
  const algorithm = algorithmOf(limit)
  const here = algorithm.give(own, limit, 0, now) as Bucket | undefined
  const there = algorithm.give(other, limit, 0, now) as Bucket | undefined
  if (here === undefined || there === undefined) return undefined
  const { q, capacity, borrowable } = limit
  const most = (capacity + borrowable) * q
  const both = (here.used + there.used) * q + here.part + there.part
  const total = Math.max(here.used * q + here.part, Math.min(both, most))
  const used = Math.floor(total / q)
  return { at: Math.max(here.at, there.at), used, part: total - used * q }
}

/** The counts of a window belong to its start; a sliding counter has those of two windows. */
function mergeWindows(own: unknown, other: unknown, limit: Limit, now: number): unknown {
  const algorithm = algorithmOf(limit)
  const add = (state: unknown, amount: number, at: number) =>
    amount === 0 || at < 0
      ? state
      : (algorithm.charge(state, limit, amount, now, at, limit.debt) ?? state)
  if (algorithm.windowsCounted === 2) {
    const { start, curr, prev } = other as SlidingCounter
    return add(add(own, curr, start), prev, start - limit.windowUs)
  }
  const { start, count } = other as FixedWindow
  return add(own, count, start)
}

/** One entry for each instant, the oldest first. */
function mergeLogs(own: Log, other: Log): Log {
  const units = new Map<number, number>()
  for (const log of [own, other]) {
    for (let i = 0; i < log.length; i += 2) {
      const at = log[i] ?? 0
      units.set(at, (units.get(at) ?? 0) + (log[i + 1] ?? 0))
    }
  }
  return [...units]
    .toSorted(([a], [b]) => a - b)
    .slice(-LOG_ENTRIES_MAX)
    .flat()
}

/**
 * Each holder keeps the larger of its two records: it renews them with the number of its calls in
 * flight, so one of both may contain the other. A record that has expired counts no more, and must
 * not last as long as a newer one of its holder.
 */
function mergePlaces(own: Places, other: Places, now: number): Places {
  const records = new Map<number, readonly [places: number, expires: number]>()
  for (const list of [own, other]) {
    for (let at = 0; at < list.length; at += 3) {
      const [holder = 0, places = 0, expires = 0] = list.slice(at, at + 3)
      if (expires <= now) continue
      const [before, until] = records.get(holder) ?? [0, 0]
      records.set(holder, [Math.max(before, places), Math.max(until, expires)])
    }
  }
  return [...records].flatMap(([holder, record]) => [holder, ...record])
}

function mergeBlocks(own: Block, other: Block): Block {
  return { until: Math.max(own.until, other.until), times: Math.max(own.times, other.times) }
}
