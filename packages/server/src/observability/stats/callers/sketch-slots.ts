/**
 * Decides which rules have sketches of their top callers: the busiest ones, because there may be
 * thousands of rules, few of them busy.
 */
import type { SlotAllocator, RuleTop } from './rule-top.js'

export const RULES_TOP_MAX = 128
/** A rule must be this many times as busy to displace another; otherwise two would alternate. */
const BUSIER = 2
/** Slots reassigned per tick. */
const CHANGES_MAX = 8

export class SketchSlots implements SlotAllocator {
  readonly #holders = new Set<RuleTop>()
  /** Bounded by the number of rules. */
  readonly #waiting = new Set<RuleTop>()

  get used(): number {
    return this.#holders.size
  }

  acquire(top: RuleTop): boolean {
    if (this.#holders.size >= RULES_TOP_MAX) {
      top.isWaiting = true
      this.#waiting.add(top)
      return false
    }
    this.#holders.add(top)
    return true
  }

  /** Gives slots to waiting rules that are far busier than their holders. */
  tick(): void {
    if (this.#waiting.size === 0) return
    // A rule takes its slot at its next decision; until then the slot is reserved for it.
    let free = RULES_TOP_MAX - this.#holders.size
    for (let change = 0; change < CHANGES_MAX; change++) {
      const busiest = mostBy(this.#waiting, (top) => top.activity)
      if (busiest === undefined || busiest.activity === 0) return
      if (free > 0) free--
      else {
        const idlest = mostBy(this.#holders, (top) => -activityOf(top))
        if (idlest === undefined || busiest.activity <= BUSIER * activityOf(idlest)) return
        this.free(idlest)
      }
      this.#waiting.delete(busiest)
      busiest.isWaiting = false
    }
  }

  /** Begins a new period; rules idle for two periods lose their slot. */
  rotate(): void {
    for (const top of this.#holders) {
      top.rotate()
      if (activityOf(top) === 0) this.free(top)
    }
    for (const top of this.#waiting) top.rotate()
  }

  clear(): void {
    for (const top of this.#holders) top.clear()
  }

  private free(top: RuleTop): void {
    this.#holders.delete(top)
    top.release()
  }
}

function activityOf(top: RuleTop): number {
  return Math.max(top.activity, top.previousActivity)
}

/** Returns the first of equal ones. */
function mostBy(tops: Iterable<RuleTop>, figure: (top: RuleTop) => number): RuleTop | undefined {
  let most: RuleTop | undefined
  let highest = -Infinity
  for (const top of tops) {
    const value = figure(top)
    if (value <= highest) continue
    highest = value
    most = top
  }
  return most
}
