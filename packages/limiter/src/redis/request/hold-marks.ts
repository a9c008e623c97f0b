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

/** For how long a counter is remembered whose marks outlasted a call. */
const LASTING_MS = 1000
/** How often one call looks whether they are still there. */
const RETRY_EVERY_MS = 250
/** Counters that are remembered; more than that are forgotten all at once. */
const LASTING_MAX = 4096

/**
 * Counters whose marks outlasted the deadline of a call that asked again and again. Their marks are
 * most likely those of a node that died, and every refused call would ask until its deadline, at
 * seven times the cost. So at such a counter one call in 250 ms asks again, and the others are
 * refused after their first attempt, as by held units.
 */
export class LastingMarks {
  readonly #counters = new Map<string, { untilMs: number; nextMs: number }>()

  /** Marks of this counter were there until the deadline of a call. */
  add(key: CounterKey, nowMs: number): void {
    if (this.#counters.size >= LASTING_MAX) this.#counters.clear()
    this.#counters.set(nameOf(key), {
      untilMs: nowMs + LASTING_MS,
      nextMs: nowMs + RETRY_EVERY_MS,
    })
  }

  /** Whether a call may ask this counter again. */
  mayRetry(key: CounterKey, nowMs: number): boolean {
    if (this.#counters.size === 0) return true
    const name = nameOf(key)
    const found = this.#counters.get(name)
    if (found === undefined) return true
    if (nowMs >= found.untilMs) {
      this.#counters.delete(name)
      return true
    }
    if (nowMs < found.nextMs) return false
    found.nextMs = nowMs + RETRY_EVERY_MS
    return true
  }
}

function nameOf({ hi, lo }: CounterKey): string {
  return `${hi}.${lo}`
}
