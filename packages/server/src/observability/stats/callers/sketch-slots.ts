/**
 * Which rules have sketches of their top callers. There may be thousands of rules, and few of them
 * are busy: the busiest have a place.
 */
import type { SlotAllocator, RuleTop } from './rule-top.js'

export const RULES_TOP_MAX = 128
/** How many times as busy as another a rule takes its place; else two would take turns. */
const BUSIER = 2
/** Places that change hands at a time. */
const CHANGES_MAX = 8

export class SketchSlots implements SlotAllocator {
  readonly #holders = new Set<RuleTop>()
  /** At most as many as there are rules. */
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

  /** Rules that wait and are far busier than one with a place get it. */
  tick(): void {
    if (this.#waiting.size === 0) return
    // They are taken when their rules are called next; until then each is somebody's already.
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

  /** A period is over: whoever did nothing for two of them needs no place. */
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

/** Of equal ones the first. */
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
