/**
 * Chooses the store timestamp for a unit that this node counted locally, by its best estimate of
 * the store's clock. Near the edge of a window it may be unknown which window the store is in. The
 * unit then counts in the earlier window, where less may be left: opening the later one too early
 * would hand out its budget twice.
 */
import { algorithmOf, type Limit, windowStartOf } from '@sluice/core'

export interface StoreTimeEstimate {
  /** The best estimate of the store's time, in microseconds. */
  time(): number
  /** The error bound of `time`, in microseconds; Infinity if unknown. */
  uncertaintyUs(): number
  /** The error above which units near an edge count in the earlier window. */
  readonly toleranceUs: number
}

/** In whole microseconds; in the present window or the one before. */
export function placeInWindow(estimate: StoreTimeEstimate, limit: Limit): number {
  const now = Math.floor(estimate.time())
  // Buckets and logs move with time and have no moment at which everything is forgotten.
  if (!algorithmOf(limit).alignedToClock) return now
  const uncertaintyUs = estimate.uncertaintyUs()
  // Before the store's first answer there is only the wall clock, and no error to measure.
  if (uncertaintyUs <= estimate.toleranceUs || !Number.isFinite(uncertaintyUs)) return now
  const placed = now - Math.min(Math.ceil(uncertaintyUs), limit.windowUs)
  const sinceEdgeUs = now - windowStartOf(limit, now)
  return now - placed > sinceEdgeUs && placed >= 0 ? placed : now
}
