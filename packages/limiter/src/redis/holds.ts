/**
 * Marks beside the counters of a Redis Cluster: how many calls hold units of a counter without
 * being decided yet.
 *
 * A call whose limits lie in several slots takes from all of them at once, and gives back if one
 * refuses. Between the two its units are only held, and a refusal that they cause says nothing
 * about the limit. So the script that takes the units also counts the call in a second counter of
 * the same slot, and the call takes itself off when it is decided. A mark that is lost, because its
 * node died, ends by itself.
 */
import { type CounterKey, defineLimit, type Outcome, type Take } from '@sluice/core'

/** A mark lives for one to two windows: longer than a call may take, and soon enough over. */
const MARK_WINDOW_MS = 5000
/** More calls than can be under way at once. */
const MARKS_MAX = 1_000_000

/**
 * What the marks are counted by. The previous window counts until it is over, as what is left is
 * rounded down, so no mark goes unseen before that.
 */
const MARKS = defineLimit({
  algorithm: 'sliding-window-counter',
  max: MARKS_MAX,
  windowMs: MARK_WINDOW_MS,
})

/** A counter and its marks have different names by these bits. */
const MARK_BITS_HI = 0x68_6f_6c_64
const MARK_BITS_LO = 0x6d_61_72_6b

/** The take that marks a counter as held by one more call, or with 0 only reads its marks. */
export function markOf({ hi, lo, partition }: CounterKey, calls: 0 | 1): Take {
  return {
    key: { hi: hi ^ MARK_BITS_HI, lo: lo ^ MARK_BITS_LO, partition },
    limit: MARKS,
    amount: calls,
  }
}

/** Whether a call that was not marked itself found marks of others. */
export function isMarked({ granted, remaining }: Outcome): boolean {
  return granted === 0 && remaining < MARKS_MAX
}
