/**
 * What an operation costs Redis, in units of one plain take (about 5 us). A batch is bounded by the
 * sum of its costs and not by its number of operations, so that one expensive operation does not
 * keep a hundred cheap ones, and the other clients of Redis, waiting.
 */
import { isConcurrency, layoutOf, type Limit, type Take } from '@sluice/core'
import type { Groups } from '../../store.js'

/** A take or peek of a log reads 2 KB of it and searches the rest. */
const LOG_COST = 8
/** An op on places reads and writes all their records, as many as nodes have calls in flight. */
const PLACES_COST = 2
/** Showing the state of a log reads and sends up to 64 records. */
const LOG_STATE_COST = 24
/** Records of a log that Redis rewrites in the time of one take. */
const LOG_RECORDS_PER_COST = 8
/** More than Redis admits to one log in a millisecond; 200 were measured. */
const LOG_RECORDS_PER_MS = 250

/**
 * The cost of a take or peek with all its groups; at least 1, because every script costs something.
 */
export function costOfTakes(groups: Groups<Take>, states: boolean): number {
  let cost = 0
  for (let g = 0; g < groups.length; g++) {
    const takes = groups[g]
    if (takes === undefined) continue
    for (let i = 0; i < takes.length; i++) {
      const take = takes[i]
      if (take === undefined || layoutOf(take.limit) !== undefined) cost += 1
      else if (isConcurrency(take.limit)) cost += PLACES_COST
      else if (take.amount < 0) cost += costOfChange(take.limit, take.at, Infinity)
      else cost += states ? LOG_STATE_COST : LOG_COST
    }
  }
  return Math.max(1, cost)
}

/**
 * The cost of a give or charge of units that were taken at `at`, in microseconds. In a log, all
 * records after them are rewritten: at most the whole log, and at most what Redis can have admitted
 * since, if its time is known. Without `at` the oldest units are returned, which rewrites nothing.
 */
export function costOfChange(limit: Limit, at: number | undefined, storeUs: number): number {
  if (layoutOf(limit) !== undefined) return 1
  if (isConcurrency(limit)) return PLACES_COST
  if (at === undefined) return LOG_COST
  const agoMs = Number.isFinite(storeUs) ? Math.max(0, storeUs - at) / 1000 : Infinity
  const records = Math.min(limit.max, Math.ceil(agoMs * LOG_RECORDS_PER_MS))
  return LOG_COST + Math.ceil(records / LOG_RECORDS_PER_COST)
}
