/**
 * To which time a unit belongs that a node counts itself. It goes by the store's clock as well as
 * that is known here. Near the edge of a window it may not be known which window the store is in:
 * the unit then counts in the earlier one, where less may be left, because the later one opened too
 * early would be open twice.
 */
import { algorithmOf, type Limit } from '@sluice/core'

export interface StoreTimeEstimate {
  /** The store's time in microseconds, as well as it is known. */
  time(): number
  /** How far that may be off, in microseconds; Infinity: nobody knows. */
  uncertaintyUs(): number
  /** How far off it may be before edges are treated with care. */
  readonly toleranceUs: number
}

/** In whole microseconds. Never in a later window than now, and in none before the last. */
export function placeInWindow(estimate: StoreTimeEstimate, limit: Limit): number {
  const now = Math.floor(estimate.time())
  // Buckets and logs move with time and have no moment at which everything is forgotten.
  if (!algorithmOf(limit).alignedToClock) return now
  const uncertaintyUs = estimate.uncertaintyUs()
  // Where the store has never told its time there is no doubt to measure, only a wall clock.
  if (uncertaintyUs <= estimate.toleranceUs || !Number.isFinite(uncertaintyUs)) return now
  const placed = now - Math.min(Math.ceil(uncertaintyUs), limit.windowUs)
  const sinceEdgeUs = now % limit.windowUs
  return now - placed > sinceEdgeUs && placed >= 0 ? placed : now
}
