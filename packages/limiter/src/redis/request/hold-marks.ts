/**
 * Marks beside the counters of a Redis Cluster: how many undecided calls hold units of a counter.
 *
 * A call whose limits lie in several slots takes from all of them at once, and gives back if one
 * refuses. Between the two its units are only held, and a refusal that they cause says nothing
 * about the limit. So the script that takes the units also counts the call in a second counter of
 * the same slot, and the call removes itself when it is decided. A mark that is lost, because its
 * node died, expires.
 */
import { type CounterKey, defineLimit, isBlock, type Outcome, type Take } from '@sluice/core'

/** A mark lives for one to two windows: longer than a call may take, but not for long. */
const MARK_WINDOW_MS = 5000
/** More than the calls that can be undecided at once. */
const MARKS_MAX = 1_000_000

/**
 * The limit that counts the marks. The previous window counts until it is over, because the
 * remainder is rounded down, so no mark is missed before that.
 */
const MARKS = defineLimit({
  algorithm: 'sliding-window-counter',
  max: MARKS_MAX,
  windowMs: MARK_WINDOW_MS,
})

/** XORed into the key of a counter to make the key of its marks. */
const MARK_BITS_HI = 0x68_6f_6c_64
const MARK_BITS_LO = 0x6d_61_72_6b

/** Returns the take that adds a mark to a counter, or with 0 only reads its marks. */
export function markOf({ hi, lo, partition }: CounterKey, calls: 0 | 1): Take {
  return {
    key: { hi: hi ^ MARK_BITS_HI, lo: lo ^ MARK_BITS_LO, partition },
    limit: MARKS,
    amount: calls,
  }
}

/** The enforced takes of an attempt, with a take before each block that reads its limit's marks. */
export function withMarksBeforeBlocks(takes: readonly Take[]): readonly Take[] {
  if (!takes.some(({ limit }) => isBlock(limit))) return takes
  return takes.flatMap((take, i) => {
    const before = takes[i - 1]
    if (!isBlock(take.limit) || before === undefined) return [take]
    return [markOf(before.key, 0), { ...take, isAfterMarks: true }]
  })
}

/** The answers to the takes that `withMarksBeforeBlocks` was given. */
export function withoutMarksBeforeBlocks<Each>(
  sent: readonly Take[],
  answers: readonly Each[],
): readonly Each[] {
  return answers.filter((_, i) => sent[i + 1]?.isAfterMarks !== true)
}

/** Whether a call that set no mark itself found marks of others. */
export function isMarked({ granted, remaining }: Outcome): boolean {
  return granted === 0 && remaining < MARKS_MAX
}

/** How long a counter is remembered whose marks outlasted a call. */
const LASTING_MS = 1000
/** How often one call checks whether they are still there. */
const RETRY_EVERY_MS = 250
/** The most counters that are remembered; when it is reached, all are forgotten. */
const LASTING_MAX = 4096

/**
 * Counters whose marks outlasted the deadline of a call that kept trying. The marks are most likely
 * those of a node that died, and every refused call would try until its deadline, at seven times
 * the cost. So at such a counter one call in 250 ms tries again, and the others are refused after
 * their first attempt, as by held units.
 */
export class LastingMarks {
  readonly #counters = new Map<string, { untilMs: number; nextMs: number }>()

  /** Records that marks of this counter lasted until the deadline of a call. */
  add(key: CounterKey, nowMs: number): void {
    if (this.#counters.size >= LASTING_MAX) this.#counters.clear()
    this.#counters.set(nameOf(key), {
      untilMs: nowMs + LASTING_MS,
      nextMs: nowMs + RETRY_EVERY_MS,
    })
  }

  /** Whether a call may try this counter again. */
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
