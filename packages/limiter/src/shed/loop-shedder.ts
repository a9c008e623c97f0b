/**
 * Decides how many calls a busy process lets in, and of which priorities: a controller without a
 * clock, driven once a second by the load of that second.
 *
 * With P = load, 1 being full, and a the share of calls that is let in: above 1, a shrinks by
 * (P - 1) / 4, at most by a fifth, and does not grow for 5 s; below 0.9 it grows by 0.02. An
 * overload of w is thus shed in ln w / 0.22 s. By the counts of the last 10 s, a becomes a place
 * among the priorities: the least important are shed first.
 */

const FULL = 1
/** Between this and full nothing changes, or the share would swing. */
const ROOM = 0.9
const SHRINK_MAX = 0.2
const SHRINK_DIVISOR = 4
const GROW = 0.02
const GROW_AFTER_MS = 5000
/** The seconds whose calls tell the priorities' shares of the traffic. */
const SECONDS = 10

export interface LoopShedderOptions {
  /** The least share that is let in. */
  readonly least: number
  /** By priority, the most important first: whether no call of it is shed. */
  readonly isKept: readonly boolean[]
}

export class LoopShedder {
  readonly #least: number
  readonly #isKept: readonly boolean[]
  /** Calls by priority: of the present second, and of those before. */
  #present: number[]
  #seconds: (readonly number[])[] = []
  /** By priority: the share of its calls that is let in. */
  #admitted: readonly number[]
  #share = 1
  #growAfterMs = Number.NEGATIVE_INFINITY

  constructor({ least, isKept }: LoopShedderOptions) {
    this.#least = least
    this.#isKept = isKept
    this.#present = isKept.map(() => 0)
    this.#admitted = isKept.map(() => 1)
  }

  /** The share of all calls that is let in; 1 while nothing is shed. */
  get share(): number {
    return this.#share
  }

  /** By priority: the share of its calls that is let in. */
  get admitted(): readonly number[] {
    return this.#admitted
  }

  /** Counts a call, shed or not. */
  record(priority: number): void {
    this.#present[priority] = (this.#present[priority] ?? 0) + 1
  }

  /** Called once a second with the mean load of that second. */
  step(nowMs: number, load: number): void {
    if (load > FULL) {
      this.#share *= 1 - Math.min(SHRINK_MAX, (load - FULL) / SHRINK_DIVISOR)
      this.#growAfterMs = nowMs + GROW_AFTER_MS
    } else if (load < ROOM && nowMs >= this.#growAfterMs) this.#share += GROW
    this.#share = Math.min(1, Math.max(this.#least, this.#share))
    this.#seconds = [this.#present, ...this.#seconds].slice(0, SECONDS)
    this.#present = this.#isKept.map(() => 0)
    this.#admitted = this.#share === 1 ? this.#isKept.map(() => 1) : this.place()
  }

  /** Spends the share on kept priorities, then on the others in their order. */
  private place(): readonly number[] {
    const counts = this.#isKept.map((_, priority) =>
      this.#seconds.reduce((sum, second) => sum + (second[priority] ?? 0), 0),
    )
    const total = counts.reduce((sum, count) => sum + count, 0)
    const kept = counts.reduce((sum, count, i) => sum + (this.#isKept[i] === true ? count : 0), 0)
    let left = Math.max(0, this.#share * total - kept)
    return counts.map((count, priority) => {
      if (this.#isKept[priority] === true || total === 0) return 1
      const admitted = count === 0 ? (left > 0 ? 1 : 0) : Math.min(1, left / count)
      left = Math.max(0, left - count)
      return admitted
    })
  }
}
